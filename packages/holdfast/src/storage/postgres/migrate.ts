import type pg from 'pg';
import type { Logger } from '../../model/logger.js';
import { holdfastMigrations } from '../migrations/holdfast-migrations.js';
import { isOnline, type Migration, oldestCodeAt, plainStatements } from '../migrations/migration.js';
import {
  checkNumbering,
  isCurrent,
  isNewer,
  type MigrationState,
  migrationRequired,
  target,
  warnIfNewer,
} from '../migrations/migration-state.js';
import { sharedMigrations } from '../migrations/shared.js';
import {
  adoptedColumns,
  createMissing,
  dropMessagesTriggers,
  hasCreatableObjects,
  isComplete,
  isToleratedFailure,
  refuseWithoutLocks,
  type SchemaObjects,
  toSchemaObjects,
  warnAboutMissing,
} from './adopted.js';
import { postgresDdl } from './ddl.js';
import { sqlState } from './failures.js';
import { type MigrationLock, withMigrationLock } from './migration-lock.js';
import { buildIndexes } from './online-index.js';

/**
 * Migrates a schema to the layout that this version of Holdfast needs, or verifies that the schema has this layout.
 *
 * 1. A schema that is current costs one statement and no lock. The statement also checks the triggers and functions.
 * 2. One process migrates at a time, under an advisory lock. The other processes wait for the lock and then find
 *    nothing to do.
 * 3. A migration first locks its counter, and commits together with the counter. The advisory lock may have no effect
 *    (a server without advisory locks, a pooler that shares sessions). Then only the counter keeps two migrators from
 *    applying one version twice.
 * 4. Indexes on tables in use are built outside a transaction without blocking writers, and a build can be repeated.
 *    Without an advisory lock they are built inside a transaction. Otherwise two migrators would mistake each other's
 *    unfinished indexes for leftovers of a dead process, and drop them.
 */
export interface MigrateOptions {
  readonly schema: string;
  /** False: only verifies the schema. */
  readonly migrate: boolean;
  /** False: works without the trigger that announces messages, and creates none. */
  readonly triggers?: boolean;
  readonly logger: Logger;
  /** Waits. Tests pass their own function. */
  readonly pause?: (ms: number) => Promise<void>;
}

/** Returns the state of the triggers, functions and locks after the migration. */
export async function migratePostgres(client: pg.ClientBase, options: MigrateOptions): Promise<SchemaObjects> {
  const run: Run = {
    client,
    ddl: postgresDdl(options.schema),
    logger: options.logger,
    pause: options.pause ?? ((ms) => new Promise((resolve) => setTimeout(resolve, ms))),
    adopted: undefined,
  };
  const { triggers = true } = options;
  const where = `The schema "${options.schema}"`;
  const state = await readState(run);
  if (isCurrent(state)) {
    warnIfNewer(state, where, run.logger);
    return completeSchema(run, { triggers, mayCreate: options.migrate });
  }
  if (!options.migrate) throw migrationRequired(state, where);
  const isDone = (found: MigrationState): boolean => {
    const isUpToDate = isCurrent(found);
    if (isUpToDate) warnIfNewer(found, where, run.logger);
    return isUpToDate;
  };
  await withMigrationLock({ ...run, done: async () => isDone(await readState(run)) }, async (lock) => {
    // The state is read again under the lock: another process may have migrated, or completed its migration, since the
    // first read.
    const found = await readChecked(run, where);
    if (isDone(found)) return;
    await applyAll(run, found, lock);
    if (found.shared === 0 && !triggers) await dropMessagesTriggers(client, run.ddl);
  });
  await readState(run);
  return completeSchema(run, { triggers, mayCreate: true });
}

/**
 * Creates the missing triggers and functions of a schema with the right version. If the role may not create a trigger
 * or an SQL function, a warning is enough: without the triggers messages only arrive later. Missing queue locks are an
 * error.
 */
async function completeSchema(
  run: Run,
  { triggers, mayCreate }: { readonly triggers: boolean; readonly mayCreate: boolean },
): Promise<SchemaObjects> {
  const { client, ddl, logger } = run;
  const readAdopted = async (): Promise<SchemaObjects> => {
    await readState(run);
    return run.adopted ?? { trigger: 'missing', ownTrigger: 'missing', functions: [], locks: [] };
  };
  let found = run.adopted ?? (await readAdopted());
  if (isComplete(found, triggers)) return found;
  let failure: unknown;
  if (mayCreate && hasCreatableObjects(ddl, found, triggers)) {
    const isDone = async (): Promise<boolean> => !hasCreatableObjects(ddl, await readAdopted(), triggers);
    await withMigrationLock({ ...run, done: isDone }, async () => {
      await createMissing(client, ddl, await readAdopted(), triggers).catch(async (error) => {
        await client.query('rollback').catch(() => {});
        if (!isToleratedFailure(error)) throw error;
        failure = error;
      });
    });
    found = await readAdopted();
  }
  refuseWithoutLocks(ddl, found, failure);
  if (!isComplete(found, triggers)) {
    warnAboutMissing(ddl, triggers ? found : { ...found, trigger: 'present', ownTrigger: 'present' }, failure, logger);
  }
  return found;
}

interface Run {
  readonly client: pg.ClientBase;
  readonly ddl: ReturnType<typeof postgresDdl>;
  readonly logger: Logger;
  readonly pause: (ms: number) => Promise<void>;
  /** The triggers, functions and locks that the last {@link readState} found in a schema with both counters. */
  adopted: SchemaObjects | undefined;
}

interface Counter {
  readonly table: 'dbos_migrations' | 'holdfast_migrations';
  readonly migrations: readonly Migration[];
}

const sharedCounter: Counter = { table: 'dbos_migrations', migrations: sharedMigrations };
const ownCounter: Counter = { table: 'holdfast_migrations', migrations: holdfastMigrations };

/** Reads both counters in one statement. If a table is missing, more statements find out which one. */
async function readState(run: Run): Promise<MigrationState> {
  const { client, ddl } = run;
  const highest = (table: string): string => `(select coalesce(max(version), 0) from ${ddl.table(table)})`;
  try {
    const both = `select ${highest('dbos_migrations')} as shared, ${highest('holdfast_migrations')} as own`;
    const { rows } = await client.query(`${both}, ${adoptedColumns(ddl)}`);
    run.adopted = toSchemaObjects(rows[0]);
    const state = { shared: Number(rows[0].shared), own: Number(rows[0].own) };
    return isNewer(state) ? await readBeyond(run, state.shared) : state;
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    const { rows } = await client.query(`select ${highest('dbos_migrations')} as shared`);
    return { shared: Number(rows[0].shared), own: 0 };
  } catch (error) {
    if (!isMissing(error)) throw error;
    return { shared: 0, own: 0 };
  }
}

/**
 * Reads the row as JSON, because the column `oldest_code` may be missing. Reads version and oldest code in one
 * statement, because a migrator may be changing both.
 */
async function readBeyond({ client, ddl }: Run, shared: number): Promise<MigrationState> {
  const { rows } = await client.query(
    `select version, to_jsonb(m) ->> 'oldest_code' as oldest from ${ddl.table('holdfast_migrations')} m`,
  );
  const { version, oldest } = rows[0] ?? {};
  return { shared, own: Number(version ?? 0), oldestCode: oldest == null ? null : Number(oldest) };
}

/** Returns true if a table or schema does not exist. */
function isMissing(error: unknown): boolean {
  return ['42P01', '3F000'].includes(sqlState(error) ?? '');
}

/** Reads the migration state, and checks that the numbers have the same meaning as in Holdfast. */
async function readChecked(run: Run, where: string): Promise<MigrationState> {
  for (;;) {
    const state = await readState(run);
    if (state.shared >= 100) return state;
    const facts = await readCatalog(run);
    // If the lock has no effect, another migrator may have raised the version between the two queries.
    if ((await readState(run)).shared !== state.shared) continue;
    checkNumbering(state, facts, where);
    return state;
  }
}

/**
 * Reads columns and indexes from the catalog, because information_schema hides objects on which the role has no rights.
 */
async function readCatalog(run: Run): Promise<Set<string>> {
  const { rows } = await run.client.query(
    `select c.relname || '.' || a.attname as fact
       from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
      where n.nspname = $1 and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
     union all
     select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = $1 and c.relkind = 'i'`,
    [run.ddl.schema],
  );
  return new Set(rows.map((row) => row.fact as string));
}

async function applyAll(run: Run, from: MigrationState, lock: MigrationLock): Promise<void> {
  const started = performance.now();
  // A server or role may limit statements to seconds; an index over millions of rows takes longer.
  await run.client.query('set statement_timeout = 0');
  try {
    // No other process can use tables that do not exist yet, so their indexes may block writers.
    const how = from.shared === 0 ? 'fresh' : lock === 'held' ? 'online' : 'blocking';
    if (from.shared < target.shared) await applyCounter(run, sharedCounter, how);
    await applyCounter(run, ownCounter, how);
  } finally {
    await run.client.query('reset statement_timeout').catch(() => {});
  }
  run.logger.info(
    `migrated schema "${run.ddl.schema}" from ${from.shared}/${from.own} to ` +
      `${Math.max(from.shared, target.shared)}/${target.own} in ${Math.round(performance.now() - started)} ms`,
  );
}

async function applyCounter(run: Run, counter: Counter, how: 'fresh' | 'online' | 'blocking'): Promise<void> {
  await createCounter(run, counter);
  for (const migration of counter.migrations) {
    if (!isOnline(migration) || how === 'fresh') await applyAtOnce(run, counter, migration);
    else if (how === 'online') await applyOnline(run, counter, migration);
    else await applyBlocking(run, counter, migration);
  }
}

/**
 * Creates the counter table with its only row, at 0. The process that creates the table also inserts the row, so there
 * is never a second row.
 */
async function createCounter(run: Run, counter: Counter): Promise<void> {
  const { client, ddl } = run;
  const table = ddl.table(counter.table);
  const { rows } = await client.query(
    'select exists (select 1 from pg_namespace where nspname = $1) as schema, to_regclass($2) is not null as counter',
    [ddl.schema, table],
  );
  if (rows[0].counter) {
    await client.query(`insert into ${table} (version) select 0 where not exists (select 1 from ${table})`);
    return;
  }
  // `create schema if not exists` would need the right to create a schema even if the schema exists.
  const schema = rows[0].schema ? '' : `create schema ${ddl.table('').slice(0, -1)}; `;
  try {
    await client.query(
      `begin; ${schema}create table ${table} (version bigint not null primary key); ` +
        `insert into ${table} (version) values (0); commit`,
    );
  } catch (error) {
    await client.query('rollback');
    // Another migrator was first: the schema (42P06), the table (42P07), its type (42710) or a catalog row (23505)
    // exists.
    if (!['42P06', '42P07', '42710', '23505'].includes(sqlState(error) ?? '')) throw error;
    await createCounter(run, counter);
  }
}

/** Applies the change and sets the version in one transaction. */
async function applyAtOnce(run: Run, counter: Counter, migration: Migration): Promise<void> {
  await withCounterLock(run, counter, migration, async () => {
    const isPresent = migration.unless && (await run.client.query(migration.unless(run.ddl))).rows.length > 0;
    return [...(isPresent ? [] : plainStatements(run.ddl, migration)), setVersion(run, counter, migration)];
  });
}

/** Applies the change, then builds the indexes. Sets the version only when the indexes are valid. */
async function applyOnline(run: Run, counter: Counter, migration: Migration): Promise<void> {
  const ran = await withCounterLock(run, counter, migration, async () => migration.change?.(run.ddl) ?? []);
  if (!ran) return;
  await buildIndexes(run.client, run.ddl, migration, true);
  await withCounterLock(run, counter, migration, async () => [setVersion(run, counter, migration)]);
}

/** Applies the change and builds the indexes in one transaction, which blocks other migrators and also writers. */
async function applyBlocking(run: Run, counter: Counter, migration: Migration): Promise<void> {
  await withCounterLock(run, counter, migration, async () => {
    for (const statement of migration.change?.(run.ddl) ?? []) await run.client.query(statement);
    await buildIndexes(run.client, run.ddl, migration, false);
    return [setVersion(run, counter, migration)];
  });
}

function setVersion(run: Run, counter: Counter, migration: Migration): string {
  const oldest = oldestCodeAt(counter.migrations, migration.version);
  const oldestCode = oldest === null ? '' : `, oldest_code = ${oldest}`;
  return `update ${run.ddl.table(counter.table)} set version = ${migration.version}${oldestCode}`;
}

/**
 * Runs statements in a transaction that locks the counter, unless the counter has already passed this migration.
 * Returns true if the statements ran.
 *
 * A change of a table waits for the transactions that use the table, and all other statements on the table wait behind
 * the change. Therefore the change gives up after two seconds and retries later, which lets the other statements
 * continue.
 */
async function withCounterLock(
  run: Run,
  counter: Counter,
  migration: Migration,
  statements: () => Promise<readonly string[]>,
): Promise<boolean> {
  const { client, ddl } = run;
  for (;;) {
    try {
      const results = (await client.query(
        `begin; set local lock_timeout = '2s'; select version from ${ddl.table(counter.table)} for update`,
      )) as unknown as pg.QueryResult[];
      const version = Number(results.at(-1)?.rows[0]?.version ?? 0);
      if (version >= migration.version) {
        await client.query('rollback');
        return false;
      }
      await client.query([...(await statements()), 'commit'].join(';\n'));
      return true;
    } catch (error) {
      await client.query('rollback').catch(() => {});
      // A lock was not released in time, or two migrators deadlocked because the advisory lock has no effect.
      if (!['55P03', '40P01'].includes(sqlState(error) ?? '')) throw error;
      run.logger.warn(`migration ${migration.version} (${migration.name}) waits for a table in use`);
      await run.pause(1000);
    }
  }
}
