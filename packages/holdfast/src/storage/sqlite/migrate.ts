import type { Logger } from '../../model/logger.js';
import { holdfastMigrations } from '../migrations/holdfast.js';
import { type Migration, oldestCodeAt, plainStatements } from '../migrations/migration.js';
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
import { isSqlite } from './codes.js';
import { column, type SqliteConnection, scalar, transact } from './connection.js';
import { sqliteDdl } from './ddl.js';

/**
 * Brings a SQLite file to the layout that this version of Holdfast works with, or verifies that it is there. The
 * versions are those of Postgres: what only Postgres has is passed over.
 *
 * A migration and its version commit together under `begin immediate`, which is also what keeps processes apart:
 * there is one writer, and each reads the counter again once it is that writer.
 */
export interface MigrateOptions {
  /** False: only verify. */
  readonly migrate: boolean;
  readonly logger: Logger;
}

export function migrateSqlite(db: SqliteConnection, options: MigrateOptions): void {
  const started = performance.now();
  const where = `The database file ${db.path}`;
  const standing = patiently(() => readStanding(db));
  if (isCurrent(standing)) {
    warnIfBeyond(standing, where, options.logger);
    return;
  }
  if (!options.migrate) throw migrationRequired(standing, where);
  // In one transaction, because another process may be migrating: its version and its columns belong together.
  patiently(() => transact(db, 'begin', () => checkNumbering(readStanding(db), readFacts(db), where)));
  if (standing.shared < target.shared) applyCounter(db, 'dbos_migrations', sharedMigrations);
  applyCounter(db, 'holdfast_migrations', holdfastMigrations);
  // A newer Holdfast may have been at it at the same time, and have gone further.
  isCurrent(patiently(() => readStanding(db)));
  options.logger.info(
    `migrated ${db.path} from ${standing.shared}/${standing.own} to ${target.shared}/${target.own} in ` +
      `${Math.round(performance.now() - started)} ms`,
  );
}

function readStanding(db: SqliteConnection): MigrationState {
  const standing = { shared: readVersion(db, 'dbos_migrations'), own: readVersion(db, 'holdfast_migrations') };
  return isBeyond(standing) ? { ...standing, ...readBeyond(db) } : standing;
}

/** In one statement, because a migrator may be moving both on. */
function readBeyond(db: SqliteConnection): Pick<MigrationState, 'own' | 'oldestCode'> {
  const [row] = db.prepare('select * from holdfast_migrations').all();
  return { own: Number(row?.version), oldestCode: (row?.oldest_code as number | undefined) ?? null };
}

function readVersion(db: SqliteConnection, counter: string): number {
  const exists = scalar(db, "select 1 from sqlite_master where type = 'table' and name = $1", [counter]);
  return exists ? Number(scalar(db, `select coalesce(max(version), 0) from ${counter}`)) : 0;
}

function readFacts(db: SqliteConnection): Set<string> {
  const facts = `select m.name || '.' || c.name from sqlite_master m join pragma_table_info(m.name) c where m.type = 'table'
    union all select name from sqlite_master where type = 'index'`;
  return new Set(column(db, facts).map(String));
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
    patiently(() => transact(db, 'begin immediate', apply));
  }
}

/** How long to go on when others keep the file locked, on top of the driver's own waiting. */
const patienceMs = 60_000;

/**
 * SQLite does not queue its writers: with many processes one can lose its turn again and again. What failed for being
 * busy has done nothing, so it is simply tried again.
 */
function patiently<T>(attempt: () => T): T {
  const until = performance.now() + patienceMs;
  for (;;) {
    try {
      return attempt();
    } catch (error) {
      if (!isSqlite(error, 'SQLITE_BUSY', 'SQLITE_LOCKED') || performance.now() > until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5 + Math.random() * 20);
    }
  }
}
