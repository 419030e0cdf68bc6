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
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Two cores are shared with the Postgres server and with child processes that tests start.
    maxWorkers: 2,
    reporters: ['default'],
  },
});
