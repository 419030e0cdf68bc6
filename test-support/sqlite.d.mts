export interface TestSqlite {
  exec(text: string): unknown;
  prepare(text: string): TestStatement;
  /** Runs a statement, and returns its rows, if any. */
  query(text: string): Record<string, unknown>[];
  pragma(text: string, options?: { simple?: boolean }): unknown;
  readonly inTransaction: boolean;
  readonly open: boolean;
  close(): unknown;
}

export interface TestStatement {
  all(...values: unknown[]): unknown[];
  get(...values: unknown[]): unknown;
  run(...values: unknown[]): unknown;
  pluck(): TestStatement;
}

/** A DatabaseSync of node:sqlite, which is missing in the types of Node 20. */
export interface TestDatabaseSync {
  exec(text: string): void;
  prepare(text: string): Pick<TestStatement, 'all' | 'get' | 'run'>;
  createSession(): unknown;
  readonly isTransaction?: boolean;
  close(): void;
}

export type TestDriver = 'node:sqlite' | 'better-sqlite3';

export const sqliteDrivers: readonly TestDriver[];
export function sqliteFile(database: string): string;
export function sqliteDriver(database: string): TestDriver;
export function openSqlite(database: string, options?: { timeout?: number; readonly?: boolean }): TestSqlite;
export function openDatabaseSync(
  database: string,
  options?: { timeout?: number; readonly?: boolean; returnArrays?: boolean },
): TestDatabaseSync;
