import 'vitest';

declare module 'vitest' {
  export interface ProvidedContext {
    /** URL of the run's own Postgres server (test-support/global-setup.ts). */
    postgresUrl: string;
  }
}
