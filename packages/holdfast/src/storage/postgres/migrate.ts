import type pg from 'pg';
import type { Logger } from '../../model/logger.js';
import { holdfastMigrations } from '../migrations/holdfast.js';
import { isOnline, type Migration, oldestCodeAt, plainStatements } from '../migrations/migration.js';
import {
  checkNumbering,
  isBeyond,
  isCurrent,
  type MigrationState,
  migrationRequired,
  target,
  warnIfBeyond,
} from '../migrations/migration-state.js';
import { sharedMigrations } from '../migrations/shared.js';
import {
  type Adopted,
  adoptedColumns,
  canBeCompleted,
  createMissing,
  dropMessagesTriggers,
  isComplete,
  mayNotCreate,
  refuseWithoutLocks,
  toAdopted,
  warnOfMissing,
} from './adopted.js';
import { postgresDdl } from './ddl.js';
import { sqlState } from './failures.js';
import { type MigrationLock, withMigrationLock } from './migration-lock.js';
import { buildIndexes } from './online-index.js';

/**
 * Brings a schema to the layout that this version of Holdfast works with, or verifies that it is there.
 *
 * 1. A schema that is current costs one statement and no lock. It says too whether the trigger and functions are there.
 * 2. One process migrates at a time, under an advisory lock; the others wait for it and then find nothing to do.
 * 3. A migration begins by locking its counter and commits with it. Where the advisory lock means nothing (a server
 *    without one, a pooler that shares sessions), this alone keeps two migrators from applying one version twice.
 * 4. Indexes on tables in use are built without blocking writers, outside a transaction, and can be begun again. Where
 *    there is no advisory lock they are built inside it: two builders outside would take each other's half-built
 *    indexes for the leftovers of a dead one, and drop them.
 */
export interface MigrateOptions {
  readonly schema: string;
  /** False: only verify. */
  readonly migrate: boolean;
  /** False: works without the trigger that announces messages, and creates none. */
  readonly triggers?: boolean;
  readonly logger: Logger;
  /** Waits; tests put their own in its place. */
  readonly pause?: (ms: number) => Promise<void>;
}

/** Returns what was found, or made, besides tables. */
export async function migratePostgres(client: pg.ClientBase, options: MigrateOptions): Promise<Adopted> {
  const run: Run = {
    client,
    ddl: postgresDdl(options.schema),
    logger: options.logger,
    pause: options.pause ?? ((ms) => new Promise((resolve) => setTimeout(resolve, ms))),
    adopted: undefined,
  };
  const { triggers = true } = options;
  const where = `The schema "${options.schema}"`;
  const standing = await readStanding(run);
  if (isCurrent(standing)) {
    warnIfBeyond(standing, where, run.logger);
    return complete(run, { triggers, mayCreate: options.migrate });
  }
  if (!options.migrate) throw migrationRequired(standing, where);
  const isDone = (found: MigrationState): boolean => {
    const isIt = isCurrent(found);
    if (isIt) warnIfBeyond(found, where, run.logger);
    return isIt;
  };
  await withMigrationLock({ ...run, done: async () => isDone(await readStanding(run)) }, async (lock) => {
    // Looked at again under the lock: another process may have migrated since, or be half-way no longer.
    const found = await readChecked(run, where);
    if (isDone(found)) return;
    await applyAll(run, found, lock);
    if (found.shared === 0 && !triggers) await dropMessagesTriggers(client, run.ddl);
  });
  await readStanding(run);
  return complete(run, { triggers, mayCreate: true });
}

/** Of a schema whose version is right. What this role may not create is missed by nobody but in time. */
async function complete(
  run: Run,
  { triggers, mayCreate }: { readonly triggers: boolean; readonly mayCreate: boolean },
): Promise<Adopted> {
  const { client, ddl, logger } = run;
  const look = async (): Promise<Adopted> => {
    await readStanding(run);
    return run.adopted ?? { trigger: 'missing', ownTrigger: 'missing', functions: [], locks: [] };
  };
  let found = run.adopted ?? (await look());
  if (isComplete(found, triggers)) return found;
  let failure: unknown;
  if (mayCreate && canBeCompleted(ddl, found, triggers)) {
    const isDone = async (): Promise<boolean> => !canBeCompleted(ddl, await look(), triggers);
    await withMigrationLock({ ...run, done: isDone }, async () => {
      await createMissing(client, ddl, await look(), triggers).catch(async (error) => {
        await client.query('rollback').catch(() => {});
        if (!mayNotCreate(error)) throw error;
        failure = error;
      });
    });
    found = await look();
  }
  refuseWithoutLocks(ddl, found, failure);
  if (!isComplete(found, triggers)) {
    warnOfMissing(ddl, triggers ? found : { ...found, trigger: 'present', ownTrigger: 'present' }, failure, logger);
  }
  return found;
}

interface Run {
  readonly client: pg.ClientBase;
  readonly ddl: ReturnType<typeof postgresDdl>;
  readonly logger: Logger;
  readonly pause: (ms: number) => Promise<void>;
  /** What the last look at the standing of a complete schema has found besides. */
  adopted: Adopted | undefined;
}

interface Counter {
  readonly table: 'dbos_migrations' | 'holdfast_migrations';
  readonly migrations: readonly Migration[];
}

const sharedCounter: Counter = { table: 'dbos_migrations', migrations: sharedMigrations };
const ownCounter: Counter = { table: 'holdfast_migrations', migrations: holdfastMigrations };

/** Both counters in one statement; only when a table is missing does it take more to find out which. */
async function readStanding(run: Run): Promise<MigrationState> {
  const { client, ddl } = run;
  const highest = (table: string): string => `(select coalesce(max(version), 0) from ${ddl.table(table)})`;
  try {
    const both = `select ${highest('dbos_migrations')} as shared, ${highest('holdfast_migrations')} as own`;
    const { rows } = await client.query(`${both}, ${adoptedColumns(ddl)}`);
    run.adopted = toAdopted(rows[0]);
    const standing = { shared: Number(rows[0].shared), own: Number(rows[0].own) };
    return isBeyond(standing) ? await readBeyond(run, standing.shared) : standing;
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

/** As a record, because the column may not be there; and together, because a migrator may be moving both on. */
async function readBeyond({ client, ddl }: Run, shared: number): Promise<MigrationState> {
  const { rows } = await client.query(
    `select version, to_jsonb(m) ->> 'oldest_code' as oldest from ${ddl.table('holdfast_migrations')} m`,
  );
  const { version, oldest } = rows[0] ?? {};
  return { shared, own: Number(version ?? 0), oldestCode: oldest == null ? null : Number(oldest) };
}

/** No such table, no such schema. */
function isMissing(error: unknown): boolean {
  return ['42P01', '3F000'].includes(sqlState(error) ?? '');
}

/** The standing, once it is certain that its number means what we mean by it. */
async function readChecked(run: Run, where: string): Promise<MigrationState> {
  for (;;) {
    const standing = await readStanding(run);
    if (standing.shared >= 100) return standing;
    const facts = await readFacts(run);
    // Where the lock keeps nobody out, another migrator may have moved on between the two looks.
    if ((await readStanding(run)).shared !== standing.shared) continue;
    checkNumbering(standing, facts, where);
    return standing;
  }
}

/** From the catalog itself: information_schema hides what this role has no rights on. */
async function readFacts(run: Run): Promise<Set<string>> {
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
    // Nobody can be using tables that we are about to make, so indexes need no care then.
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

/** A counter table with its one row, at 0. Whoever creates the table also inserts the row, so there is never a second. */
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
  // Not `create schema if not exists`: that needs the right to create one even where an operator already has.
  const schema = rows[0].schema ? '' : `create schema ${ddl.table('').slice(0, -1)}; `;
  try {
    await client.query(
      `begin; ${schema}create table ${table} (version bigint not null primary key); ` +
        `insert into ${table} (version) values (0); commit`,
    );
  } catch (error) {
    await client.query('rollback');
    // Another migrator was first: the schema (42P06), the table (42P07), its type (42710) or an entry in the catalog (23505).
    if (!['42P06', '42P07', '42710', '23505'].includes(sqlState(error) ?? '')) throw error;
    await createCounter(run, counter);
  }
}

/** The change, and with it the version, in one transaction. */
async function applyAtOnce(run: Run, counter: Counter, migration: Migration): Promise<void> {
  await inTurn(run, counter, migration, async () => {
    const already = migration.unless && (await run.client.query(migration.unless(run.ddl))).rows.length > 0;
    return [...(already ? [] : plainStatements(run.ddl, migration)), setVersion(run, counter, migration)];
  });
}

/** First what the indexes need, then the indexes, and only when they are valid the version. */
async function applyOnline(run: Run, counter: Counter, migration: Migration): Promise<void> {
  const due = await inTurn(run, counter, migration, async () => migration.change?.(run.ddl) ?? []);
  if (!due) return;
  await buildIndexes(run.client, run.ddl, migration, true);
  await inTurn(run, counter, migration, async () => [setVersion(run, counter, migration)]);
}

/** The same in one transaction, which keeps other migrators out and writers waiting. */
async function applyBlocking(run: Run, counter: Counter, migration: Migration): Promise<void> {
  await inTurn(run, counter, migration, async () => {
    for (const statement of migration.change?.(run.ddl) ?? []) await run.client.query(statement);
    await buildIndexes(run.client, run.ddl, migration, false);
    return [setVersion(run, counter, migration)];
  });
}

function setVersion(run: Run, counter: Counter, migration: Migration): string {
  const oldest = oldestCodeAt(counter.migrations, migration.version);
  const besides = oldest === null ? '' : `, oldest_code = ${oldest}`;
  return `update ${run.ddl.table(counter.table)} set version = ${migration.version}${besides}`;
}

/**
 * Runs statements in a transaction that holds the counter, unless the counter has already passed this migration.
 * Returns whether it ran.
 *
 * A change of a table waits for the transactions that use it, and everybody else then waits behind the change. So it
 * gives up after a moment and tries again, which lets them through.
 */
async function inTurn(
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
      // A lock did not come free in time, or two migrators had each what the other wanted (where no lock keeps them apart).
      if (!['55P03', '40P01'].includes(sqlState(error) ?? '')) throw error;
      run.logger.warn(`migration ${migration.version} (${migration.name}) waits for a table in use`);
      await run.pause(1000);
    }
  }
}
