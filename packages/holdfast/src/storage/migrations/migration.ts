/**
 * What a migration is. The lists in this folder are data: `shared-*.ts` is the layout that DBOS also knows,
 * `holdfast.ts` is what Holdfast adds. `postgres/migrate.ts` and `sqlite/migrate.ts` apply them.
 *
 * Invariants of the lists, which the runners rely on:
 *
 *   1. Versions ascend. Gaps are fine: a counter may stand at any number in between.
 *   2. A migration without `indexes` or `dropsIndexes` commits together with its version, so it happens once.
 *   3. A migration with them may be interrupted half-way and is then run again from its start: its `change` must be
 *      repeatable (`if not exists`).
 */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /** Statements for one transaction. */
  readonly change?: (ddl: Ddl) => readonly string[];
  /** Built after the change; on a live Postgres table without blocking its writers. */
  readonly indexes?: readonly Index[];
  /** Dropped last, so that no query is left without an index in between. */
  readonly dropsIndexes?: readonly string[];
  /** The other database has no such thing; its counter just passes over this version. */
  readonly only?: Ddl['name'];
  /** A query on Postgres; when it returns a row, the change is already there. */
  readonly unless?: (ddl: Ddl) => string;
  /**
   * The oldest code, by the last migration of ours that it knows, that can still work on the result: it reads and writes
   * what it always did, beside code that knows the change. Processes of a release before this one launch during a deploy,
   * and this is all that they can know of what comes after them. Every migration of ours says it from the one on that
   * made a place for it; absent: only code that knows the migration.
   */
  readonly oldestCode?: number;
}

export interface Index {
  readonly name: string;
  readonly table: string;
  readonly on: string;
  readonly where?: string;
  readonly unique?: true;
  readonly using?: 'gin';
  readonly only?: Ddl['name'];
  /** An index of this name and another shape may be there already and has to go. */
  readonly replaces?: true;
}

/** The words in which the two databases' table definitions differ. */
export interface Ddl {
  readonly name: 'postgres' | 'sqlite';
  readonly schema: string;
  table(name: string): string;
  addColumns(table: string, ...columns: readonly string[]): string[];
  readonly bigint: string;
  readonly double: string;
  readonly boolean: string;
  readonly json: string;
  readonly shortText: string;
  readonly false: string;
  /** Default expressions: the current epoch milliseconds, and a random UUID as text. */
  readonly nowMs: string;
  readonly uuid: string;
}

export function createIndex(ddl: Ddl, index: Index, concurrently = false): string {
  const how = concurrently ? ' concurrently' : '';
  return (
    `create ${index.unique ? 'unique ' : ''}index${how} if not exists ${index.name} on ${ddl.table(index.table)} ` +
    `${index.using ? `using ${index.using} ` : ''}(${index.on})${index.where ? ` where ${index.where}` : ''}`
  );
}

export function dropIndex(ddl: Ddl, name: string, concurrently = false): string {
  return `drop index${concurrently ? ' concurrently' : ''} if exists ${ddl.table(name)}`;
}

/** The whole migration as plain statements: for SQLite, and for Postgres tables that nobody uses yet. */
export function plainStatements(ddl: Ddl, migration: Migration): string[] {
  if (migration.only && migration.only !== ddl.name) return [];
  const indexes = indexesOf(ddl, migration);
  return [
    ...(migration.change?.(ddl) ?? []),
    ...indexes.flatMap((index) => [...(index.replaces ? [dropIndex(ddl, index.name)] : []), createIndex(ddl, index)]),
    ...(migration.dropsIndexes ?? []).map((name) => dropIndex(ddl, name)),
  ];
}

export function indexesOf(ddl: Ddl, migration: Migration): Index[] {
  return (migration.indexes ?? []).filter((index) => !index.only || index.only === ddl.name);
}

/** Whether an interruption can leave part of it behind (invariant 3). */
export function isOnline(migration: Migration): boolean {
  return migration.indexes !== undefined || migration.dropsIndexes !== undefined;
}

/**
 * What `holdfast_migrations` says beside this version, null where there is no place for it yet. The strictest so far: what
 * one migration has closed to older code, none after it opens again.
 */
export function oldestCodeAt(migrations: readonly Migration[], version: number): number | null {
  const said = migrations.filter((each) => each.version <= version).flatMap((each) => each.oldestCode ?? []);
  return said.length === 0 ? null : Math.max(...said);
}

export function latestVersion(migrations: readonly Migration[]): number {
  return migrations.at(-1)?.version ?? 0;
}
