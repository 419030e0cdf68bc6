/**
 * One migration. The lists of migrations in this folder are data: `shared-*.ts` is the layout that DBOS also uses, and
 * `holdfast-migrations.ts` is the part that Holdfast adds. `postgres/migrate.ts` and `sqlite/migrate.ts` apply the lists.
 *
 * Invariants of the lists, on which the code that applies them relies:
 *
 * 1. Versions ascend. Gaps are allowed: a counter may have any number in between.
 * 2. A migration without `indexes` and `dropsIndexes` commits together with its version, so it runs once.
 * 3. A migration with `indexes` or `dropsIndexes` may be interrupted, and then runs again from its start. Therefore
 *    its `change` must be repeatable (`if not exists`).
 */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /** Returns statements that run in one transaction. */
  readonly change?: (ddl: Ddl) => readonly string[];
  /** Indexes to build after the change. On a Postgres table in use, the build does not block writers. */
  readonly indexes?: readonly Index[];
  /** Indexes to drop. They are dropped last, so that every query has an index at any time. */
  readonly dropsIndexes?: readonly string[];
  /** The only database with this change. The other database skips this version. */
  readonly only?: Ddl['name'];
  /** A query on Postgres. If the query returns a row, the change is already present or not wanted. */
  readonly unless?: (ddl: Ddl) => string;
  /**
   * The oldest code that can still work on the migrated tables, identified by the last Holdfast migration that it
   * knows. Such code keeps its reads and writes, next to code that knows this migration. During a deploy, processes of
   * an older release launch too, and they know nothing else about later migrations. Every Holdfast migration since the
   * one that added the column `oldest_code` declares a value. Absent: only code that knows this migration can work on
   * the tables.
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
  /** An index of this name with another definition may exist, and must be replaced. */
  readonly replaces?: true;
}

/** The SQL words that differ between the table definitions of the two databases. */
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

/** Returns the whole migration as plain statements, for SQLite and for Postgres tables that are not in use yet. */
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

/** Returns true if an interruption can leave the migration partly applied (invariant 3). */
export function isOnline(migration: Migration): boolean {
  return migration.indexes !== undefined || migration.dropsIndexes !== undefined;
}

/**
 * Returns the value of `oldest_code` in `holdfast_migrations` at this version, or null if the column does not exist
 * yet. The value is the highest one so far: if one migration excludes older code, no later migration admits that code
 * again.
 */
export function oldestCodeAt(migrations: readonly Migration[], version: number): number | null {
  const declared = migrations.filter((each) => each.version <= version).flatMap((each) => each.oldestCode ?? []);
  return declared.length === 0 ? null : Math.max(...declared);
}

export function latestVersion(migrations: readonly Migration[]): number {
  return migrations.at(-1)?.version ?? 0;
}
