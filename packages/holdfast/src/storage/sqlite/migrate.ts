import type { Database } from 'better-sqlite3';
import type { Logger } from '../../model/logger.js';
import { holdfastMigrations } from '../migrations/holdfast.js';
import { type Migration, oldestCodeAt, plainStatements } from '../migrations/migration.js';
import { sharedMigrations } from '../migrations/shared.js';
import {
  checkNumbering,
  isBeyond,
  isCurrent,
  migrationRequired,
  type Standing,
  target,
  warnIfBeyond,
} from '../migrations/standing.js';
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

export function migrateSqlite(db: Database, options: MigrateOptions): void {
  const started = performance.now();
  const where = `The database file ${db.name}`;
  const standing = patiently(() => readStanding(db));
  if (isCurrent(standing)) {
    warnIfBeyond(standing, where, options.logger);
    return;
  }
  if (!options.migrate) throw migrationRequired(standing, where);
  // In one transaction, because another process may be migrating: its version and its columns belong together.
  const check = db.transaction(() => checkNumbering(readStanding(db), readFacts(db), where));
  patiently(() => check.deferred());
  if (standing.shared < target.shared) applyCounter(db, 'dbos_migrations', sharedMigrations);
  applyCounter(db, 'holdfast_migrations', holdfastMigrations);
  // A newer Holdfast may have been at it at the same time, and have gone further.
  isCurrent(patiently(() => readStanding(db)));
  options.logger.info(
    `migrated ${db.name} from ${standing.shared}/${standing.own} to ${target.shared}/${target.own} in ` +
      `${Math.round(performance.now() - started)} ms`,
  );
}

function readStanding(db: Database): Standing {
  const standing = { shared: readVersion(db, 'dbos_migrations'), own: readVersion(db, 'holdfast_migrations') };
  return isBeyond(standing) ? { ...standing, ...readBeyond(db) } : standing;
}

/** In one statement, because a migrator may be moving both on. */
function readBeyond(db: Database): Pick<Standing, 'own' | 'oldestCode'> {
  const row = db.prepare('select * from holdfast_migrations').get() as { version: number; oldest_code?: number | null };
  return { own: row.version, oldestCode: row.oldest_code ?? null };
}

function readVersion(db: Database, counter: string): number {
  const exists = db.prepare("select 1 from sqlite_master where type = 'table' and name = ?").get(counter);
  if (!exists) return 0;
  return db.prepare(`select coalesce(max(version), 0) from ${counter}`).pluck().get() as number;
}

function readFacts(db: Database): Set<string> {
  const facts = db
    .prepare(
      `select m.name || '.' || c.name from sqlite_master m join pragma_table_info(m.name) c where m.type = 'table'
       union all select name from sqlite_master where type = 'index'`,
    )
    .pluck()
    .all() as string[];
  return new Set(facts);
}

function applyCounter(db: Database, counter: string, migrations: readonly Migration[]): void {
  for (const migration of migrations) {
    const apply = db.transaction(() => {
      if (readVersion(db, counter) >= migration.version) return;
      for (const statement of plainStatements(sqliteDdl, migration)) db.exec(statement);
      db.exec(`create table if not exists ${counter} (version integer not null primary key)`);
      db.exec(`delete from ${counter}`);
      const oldest = oldestCodeAt(migrations, migration.version);
      const [columns, values] = oldest === null ? ['version', '?'] : ['version, oldest_code', '?, ?'];
      const row = [migration.version, oldest].slice(0, oldest === null ? 1 : 2);
      db.prepare(`insert into ${counter} (${columns}) values (${values})`).run(...row);
    });
    patiently(() => apply.immediate());
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
      if (!isBusy(error) || performance.now() > until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5 + Math.random() * 20);
    }
  }
}

function isBusy(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : '';
  return typeof code === 'string' && (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED'));
}
