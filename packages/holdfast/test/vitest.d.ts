import 'vitest';

declare module 'vitest' {
  export interface ProvidedContext {
    /** See test-support/global-setup.ts. */
    postgresUrl: string;
    postgresTemplate: string;
    sqliteTemplate: string;
  }
}
