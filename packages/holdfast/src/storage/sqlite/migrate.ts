import type { Logger } from '../../model/logger.js';
import { holdfastMigrations } from '../migrations/holdfast-migrations.js';
import { type Migration, oldestCodeAt, plainStatements } from '../migrations/migration.js';
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
import { isSqlite } from './codes.js';
import { column, type SqliteConnection, scalar, transact } from './connection.js';
import { sqliteDdl } from './ddl.js';

/**
 * Migrates a SQLite file to the layout that this version of Holdfast needs, or verifies that the file has this layout.
 * The version numbers are those of Postgres; migrations that only Postgres needs are skipped.
 *
 * A migration and its version commit together under `begin immediate`, which also separates processes: there is one
 * writer at a time, and each writer reads the version again after it has become the writer.
 */
export interface MigrateOptions {
  /** False: only verifies. */
  readonly migrate: boolean;
  readonly logger: Logger;
}

export function migrateSqlite(db: SqliteConnection, options: MigrateOptions): void {
  const started = performance.now();
  const where = `The database file ${db.path}`;
  const state = retryWhileBusy(() => readState(db));
  if (isCurrent(state)) {
    warnIfNewer(state, where, options.logger);
    return;
  }
  if (!options.migrate) throw migrationRequired(state, where);
  // One transaction for both reads, because another process may be migrating: the version and the columns must belong
  // together.
  retryWhileBusy(() => transact(db, 'begin', () => checkNumbering(readState(db), readNames(db), where)));
  if (state.shared < target.shared) applyCounter(db, 'dbos_migrations', sharedMigrations);
  applyCounter(db, 'holdfast_migrations', holdfastMigrations);
  // A newer Holdfast may have migrated the file further at the same time. `isCurrent` throws if this code cannot work
  // with the result.
  isCurrent(retryWhileBusy(() => readState(db)));
  options.logger.info(
    `migrated ${db.path} from ${state.shared}/${state.own} to ${target.shared}/${target.own} in ` +
      `${Math.round(performance.now() - started)} ms`,
  );
}

function readState(db: SqliteConnection): MigrationState {
  const state = { shared: readVersion(db, 'dbos_migrations'), own: readVersion(db, 'holdfast_migrations') };
  return isNewer(state) ? { ...state, ...readBeyond(db) } : state;
}

/** Reads both values in one statement, because another process may be migrating and change both. */
function readBeyond(db: SqliteConnection): Pick<MigrationState, 'own' | 'oldestCode'> {
  const [row] = db.prepare('select * from holdfast_migrations').all();
  return { own: Number(row?.version), oldestCode: (row?.oldest_code as number | undefined) ?? null };
}

function readVersion(db: SqliteConnection, counter: string): number {
  const exists = scalar(db, "select 1 from sqlite_master where type = 'table' and name = $1", [counter]);
  return exists ? Number(scalar(db, `select coalesce(max(version), 0) from ${counter}`)) : 0;
}

function readNames(db: SqliteConnection): Set<string> {
  const text =
    "select m.name || '.' || c.name from sqlite_master m join pragma_table_info(m.name) c where m.type = 'table' " +
    "union all select name from sqlite_master where type = 'index'";
  return new Set(column(db, text).map(String));
}

function applyCounter(db: SqliteConnection, counter: string, migrations: readonly Migration[]): void {
  for (const migration of migrations) {
    const apply = (): void => {
      if (readVersion(db, counter) >= migration.version) return;
      for (const statement of plainStatements(sqliteDdl, migration)) db.exec(statement);
      db.exec(`create table if not exists ${counter} (version integer not null primary key)`);
      db.exec(`delete from ${counter}`);
      const oldest = oldestCodeAt(migrations, migration.version);
      const [columns, values] = oldest === null ? ['version', '$1'] : ['version, oldest_code', '$1, $2'];
      db.prepare(`insert into ${counter} (${columns}) values (${values})`).all([migration.version, oldest]);
    };
    retryWhileBusy(() => transact(db, 'begin immediate', apply));
  }
}

/** How long to retry if other processes keep the file locked, in addition to the waiting of the driver. */
const maxRetryMs = 60_000;

/**
 * Runs `attempt`, and retries while the file is busy. SQLite does not queue its writers, so one of many processes can
 * lose the lock again and again. An attempt that failed as busy has changed nothing.
 */
function retryWhileBusy<T>(attempt: () => T): T {
  const until = performance.now() + maxRetryMs;
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if (!isSqlite(error, 'SQLITE_BUSY', 'SQLITE_LOCKED') || performance.now() > until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5 + Math.random() * 20);
    }
  }
}
