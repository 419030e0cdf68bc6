import { existsSync } from 'node:fs';
import { describeError, HoldfastError, isErrorNamed, isHoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { unusable } from '../contract/failure.js';
import type { StatementProbe } from '../contract/probe.js';
import {
  type BatchStatement,
  type Database,
  type Failure,
  type ListenerCallbacks,
  type Listening,
  preparedName,
  type Row,
  type Statement,
} from '../database.js';
import { target } from '../migrations/migration-state.js';
import { watchChanges } from './changes.js';
import { isSqlite, sqliteCode } from './codes.js';
import {
  type LoadedDriver,
  type SqliteConnection,
  type SqliteDriver,
  type SqliteStatement,
  transact,
} from './connection.js';
import { openAlone } from './copies.js';
import { sqliteDialect } from './dialect.js';
import { loadDriver } from './drivers.js';
import { checkLayout } from './layout.js';
import { migrateSqlite } from './migrate.js';
import { OpenFile } from './replaced.js';
import { Turns } from './turns.js';

export interface SqliteOptions {
  /** A file path or `:memory:`. */
  readonly path: string;
  /** Undefined: what this Node has. */
  readonly driver?: SqliteDriver | undefined;
  /** Said where the file cannot be opened: the path that the URL may have been meant for. */
  readonly pathHint: string;
  readonly migrate: boolean;
  readonly logger: Logger;
  readonly probe?: StatementProbe;
}

/** SQLite waits for a lock by blocking the event loop: only briefly, the rest of the waiting is ours. */
const blockingWaitMs = 20;
const longestWaitMs = 60_000;

/** Other processes write for milliseconds. One that holds the file for longer is worth a line, and then a line now and then. */
const worthALineMs = 1_000;
const nextLineMs = 5_000;

export async function openSqlite(options: SqliteOptions): Promise<Database> {
  if (!options.migrate) checkExists(options);
  const db = openFile(await loadDriver(options.driver), options);
  try {
    migrateSqlite(db, options);
    checkLayout(db);
    db.exec(`pragma busy_timeout = ${blockingWaitMs}`);
    return new SqliteDatabase(db, options.logger, options.probe);
  } catch (error) {
    db.close();
    throw sqliteCode(error) === 'SQLITE_ERROR' ? unusable('migrate', error) : error;
  }
}

/** Opening a file that is not there would create it: for whoever only verifies, a mistyped path must leave no trace. */
function checkExists({ path, pathHint }: SqliteOptions): void {
  if (path === ':memory:' || existsSync(path)) return;
  throw new HoldfastError(
    'MIGRATION_REQUIRED',
    `The database file ${path} does not exist. Check its path. To create it, call migrate({ database }) once, or start one ` +
      `process with \`migrate: true\` (the default).${pathHint}`,
    { details: { found: { shared: 0, own: 0 }, needed: target } },
  );
}

/** Others may be opening or migrating the file, and there is no other work yet to be kept from. */
const openingWaitMs = 10_000;

function openFile(driver: LoadedDriver, { path, pathHint }: SqliteOptions): SqliteConnection {
  let db: SqliteConnection | undefined;
  try {
    db = openAlone(driver, path);
    db.exec(`pragma busy_timeout = ${openingWaitMs}; pragma journal_mode = wal; pragma synchronous = full`);
    // Node's own default for the cache, 2 MB, is less than the index pages of a large table.
    db.exec('pragma foreign_keys = on; pragma cache_size = -16000');
    return db;
  } catch (cause) {
    db?.close();
    if (isHoldfastError(cause)) throw cause;
    throw new HoldfastError(
      'DATABASE_UNREACHABLE',
      `The SQLite file "${path}" could not be opened (${describeError(cause)}). ` +
        `Check that its folder exists, that this process may write there, and that it is a SQLite database.${pathHint}`,
      { cause, details: { path } },
    );
  }
}

class SqliteDatabase implements Database {
  readonly dialect = sqliteDialect;
  readonly writeLanes = 1;
  private readonly prepared = new Map<string, SqliteStatement>();
  private notedAt = Number.NEGATIVE_INFINITY;
  private readonly file: OpenFile;
  private readonly turns = new Turns();
  private replaced: HoldfastError | undefined;

  constructor(
    private readonly db: SqliteConnection,
    private readonly logger: Logger,
    private readonly probe: StatementProbe | undefined,
  ) {
    this.file = new OpenFile(db.path);
  }

  query(statement: Statement, params: readonly unknown[]): Promise<Row[]> {
    return this.execute(statement, () => this.run(statement, params));
  }

  batch<T extends object>(
    statement: BatchStatement<T>,
    shared: readonly unknown[],
    rows: readonly T[],
  ): Promise<Row[]> {
    if (rows.length === 0) return Promise.resolve([]);
    const columns = Object.keys(statement.columns) as (keyof T)[];
    const each = (): Row[] =>
      rows.flatMap((row) => this.runWithAlso(statement, [...shared, ...columns.map((column) => row[column])]));
    const guarded = (guard: string): Row[] =>
      this.changes(statement.name, guard, shared) ? [...each(), { held: true }] : [];
    const work = statement.guard === undefined ? each : guarded.bind(undefined, statement.guard);
    return this.execute(statement, () => (statement.reads ? work() : transact(this.db, 'begin immediate', work)));
  }

  classify(error: unknown): Failure {
    if (isSqlite(error, 'SQLITE_CONSTRAINT', 'SQLITE_TOOBIG', 'SQLITE_MISMATCH')) return 'refused';
    // At a commit it may be the very last thing that failed: whoever next opens the file might find the commit in its log.
    if (isSqlite(error, 'SQLITE_IOERR')) return 'lost';
    // No such table or column. SQLite has the one code for all that is wrong with a statement itself.
    if (sqliteCode(error) === 'SQLITE_ERROR') return 'unusable';
    // Everything else (busy, disk full) leaves the transaction rolled back: there is no network to be unsure of.
    return isErrorNamed(error, 'TypeError', 'RangeError') ? 'refused' : 'retry';
  }

  now(): Promise<number> {
    return Promise.resolve(Date.now());
  }

  checkPlace(): void {
    const wasReplaced = this.replaced !== undefined;
    this.replaced = this.file.isReplaced ? replacedError(this.db.path) : undefined;
    if (!this.replaced) return;
    if (!wasReplaced) this.logger.error(this.replaced.message);
    throw this.replaced;
  }

  changeCounter(): number {
    return this.run({ name: 'changes', text: 'pragma data_version' }, [])[0]?.data_version as number;
  }

  breaks(): number {
    return 0;
  }

  /** A commit is its own announcement. */
  async announce(): Promise<void> {}

  listen(hearing: ListenerCallbacks): Listening {
    return watchChanges(() => (this.db.isOpen() ? this.changeCounter() : 0), hearing);
  }

  async close(): Promise<void> {
    this.db.close();
  }

  private async execute(statement: Statement, work: () => Row[]): Promise<Row[]> {
    const turn = this.turns.wait();
    if (turn !== undefined) await turn;
    if (this.replaced) throw this.replaced;
    const reached = this.probe?.(statement.name);
    try {
      const rows = await untilNotBusy(work, (waitedMs) => this.noteWait(waitedMs));
      reached?.('after-apply');
      await Promise.resolve();
      reached?.('after-reply');
      return rows;
    } catch (error) {
      reached?.('failed');
      throw error;
    }
  }

  private noteWait(waitedMs: number): void {
    const now = performance.now();
    if (waitedMs < worthALineMs || now - this.notedAt < nextLineMs) return;
    this.notedAt = now;
    this.logger.warn(
      `Another process has been writing to the SQLite file for ${Math.floor(waitedMs / 1000)} s, and is waited for.`,
    );
  }

  private runWithAlso({ also = [], ...statement }: Statement & { also?: readonly string[] }, params: unknown[]): Row[] {
    const found = this.run(statement, params);
    if (also.length > 0 && found.some((row) => row.landed)) {
      for (const [i, text] of also.entries()) this.run({ name: `${preparedName(statement)}.also${i}`, text }, params);
    }
    return found;
  }

  private changes(name: string, text: string, params: readonly unknown[]): boolean {
    return this.run({ name: `${name}.guard`, text: `${text} returning 1` }, params).length > 0;
  }

  private run(statement: Statement, params: readonly unknown[]): Row[] {
    return this.prepare(statement).all(params);
  }

  private prepare(statement: Statement): SqliteStatement {
    if (statement.unprepared) return this.db.prepare(statement.text);
    let prepared = this.prepared.get(preparedName(statement));
    if (!prepared) {
      prepared = this.db.prepare(statement.text);
      this.prepared.set(preparedName(statement), prepared);
    }
    return prepared;
  }
}

function replacedError(path: string): HoldfastError {
  return new HoldfastError(
    'DATABASE_UNREACHABLE',
    `The SQLite file "${path}" was moved away, deleted or replaced while it was open. This process writes nothing more to the ` +
      'one that it has open. Restart it: it will go on from what the file at that path has on record.',
    { details: { path } },
  );
}

/** Another process is writing: wait for it without blocking this one's event loop. */
async function untilNotBusy<R>(work: () => R, onWait: (waitedMs: number) => void): Promise<R> {
  const startedAt = performance.now();
  for (let attempt = 0; ; attempt++) {
    try {
      return work();
    } catch (error) {
      const busy = isSqlite(error, 'SQLITE_BUSY');
      const waitedMs = performance.now() - startedAt;
      if (!busy || waitedMs > longestWaitMs) throw error;
      onWait(waitedMs);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(50, 2 ** attempt)));
    }
  }
}
