import { defineConfig } from 'vitest/config';
import { standardDecorators } from './test-support/decorators.js';

export default defineConfig({
  plugins: [standardDecorators()],
  test: {
    include: [
      'packages/*/src/**/*.test.ts',
      'packages/*/test/**/*.test.ts',
      'examples/**/*.test.ts',
      'scripts/**/*.test.mjs',
    ],
    globalSetup: ['./test-support/global-setup.ts'],
    // Only for what hangs: a loaded machine takes several times as long as a quiet one.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
    // One more than two cores: tests wait for the Postgres server and for processes that they start.
    maxWorkers: 3,
    reporters: ['default'],
  },
});
