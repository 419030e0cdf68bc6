import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { standardDecorators } from './test-support/decorators.js';
import { projects } from './test-support/test-projects.js';

const globalSetup = ['./test-support/global-setup.ts'];

/**
 * Loading the library for each file again takes longer than most files, so files of one worker share the loaded modules.
 * The tests leave nothing behind in them: every app is closed, and every mock is restored.
 */
const isolate = false;

/** `npm run test:postgres` chooses one database for all projects. */
const { HOLDFAST_BACKEND: backend } = process.env;

export default defineConfig({
  plugins: [standardDecorators()],
  test: {
    // Only for what hangs: a busy machine takes several times as long as an idle one.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
    // More than there are cores: tests wait for the Postgres server and for processes that they start.
    maxWorkers: availableParallelism() + 1,
    reporters: ['default', './test-support/slowest-files.ts'],
    projects: [
      { extends: true, test: { name: 'unit', include: projects.unit, isolate } },
      {
        extends: true,
        test: { name: 'sqlite', include: projects.sqlite, isolate, globalSetup, env: { HOLDFAST_BACKEND: 'sqlite' } },
      },
      {
        extends: true,
        test: {
          name: 'postgres',
          include: projects.postgres,
          isolate,
          globalSetup,
          env: { HOLDFAST_BACKEND: 'postgres' },
        },
      },
      {
        extends: true,
        test: {
          name: 'faults',
          include: projects.faults,
          globalSetup,
          env: backend ? { HOLDFAST_BACKEND: backend } : {},
        },
      },
    ],
  },
});
