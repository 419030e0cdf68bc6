import { existsSync } from 'node:fs';
import { describeError, HoldfastError, isErrorNamed, isHoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { unusableError } from '../contract/failure.js';
import type { Failure } from '../contract/failure-kind.js';
import type { ListenerCallbacks, Listening } from '../contract/listening.js';
import type { StatementProbe } from '../contract/probe.js';
import { type BatchStatement, countable, type Database, preparedName, type Row, type Statement } from '../database.js';
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
import { openExclusively } from './copies.js';
import { sqliteDialect } from './dialect.js';
import { loadDriver } from './drivers.js';
import { checkLayout } from './layout.js';
import { migrateSqlite } from './migrate.js';
import { OpenFile } from './replaced.js';
import { EventLoopTurns } from './turns.js';

export interface SqliteOptions {
  /** A file path or `:memory:`. */
  readonly path: string;
  /** Undefined: the SQLite of this Node if there is one, otherwise better-sqlite3. */
  readonly driver?: SqliteDriver | undefined;
  /** A hint for the error if the file cannot be opened. It names the path that the user may have meant. */
  readonly pathHint: string;
  readonly migrate: boolean;
  readonly logger: Logger;
  readonly probe?: StatementProbe;
}

/**
 * SQLite waits for a lock by blocking the event loop. Therefore SQLite waits only briefly, and the rest of the waiting
 * is asynchronous.
 */
const blockingWaitMs = 20;
const longestWaitMs = 60_000;

/**
 * Other processes normally write for milliseconds. If a process locks the file for longer, the wait is logged, and
 * logged again at intervals.
 */
const logAfterMs = 1_000;
const logIntervalMs = 5_000;

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
    throw sqliteCode(error) === 'SQLITE_ERROR' ? unusableError('migrate', error) : error;
  }
}

/**
 * Opening a missing file would create it. A caller that only verifies must leave no file behind if the path is
 * mistyped.
 */
function checkExists({ path, pathHint }: SqliteOptions): void {
  if (path === ':memory:' || existsSync(path)) return;
  throw new HoldfastError(
    'MIGRATION_REQUIRED',
    `The database file ${path} does not exist. Check its path. To create it, call migrate({ database }) once, or ` +
      `start one process with \`migrate: true\` (the default).${pathHint}`,
    { details: { found: { shared: 0, own: 0 }, needed: target } },
  );
}

/**
 * Other processes may be opening or migrating the file. Blocking the event loop is acceptable here, because this
 * process does no other work yet.
 */
const openingWaitMs = 10_000;

function openFile(driver: LoadedDriver, { path, pathHint }: SqliteOptions): SqliteConnection {
  let db: SqliteConnection | undefined;
  try {
    db = openExclusively(driver, path);
    db.exec(`pragma busy_timeout = ${openingWaitMs}; pragma journal_mode = wal; pragma synchronous = full`);
    // Node's default cache of 2 MB is smaller than the index pages of a large table.
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
  private loggedAt = Number.NEGATIVE_INFINITY;
  private readonly openFile: OpenFile;
  private readonly turns = new EventLoopTurns();
  private replaced: HoldfastError | undefined;

  constructor(
    private readonly db: SqliteConnection,
    private readonly logger: Logger,
    private readonly probe: StatementProbe | undefined,
  ) {
    this.openFile = new OpenFile(db.path);
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
    const runRows = (): Row[] =>
      rows.flatMap((row) => this.runWithAlso(statement, [...shared, ...columns.map((column) => row[column])]));
    const runGuarded = (guard: string): Row[] =>
      this.changesRow(statement.name, guard, shared) ? [...runRows(), { held: true }] : [];
    const work = statement.guard === undefined ? runRows : runGuarded.bind(undefined, statement.guard);
    return this.execute(statement, () => (statement.reads ? work() : transact(this.db, 'begin immediate', work)));
  }

  async write<T extends object>(
    statement: BatchStatement<T>,
    shared: readonly unknown[],
    rows: readonly T[],
  ): Promise<number> {
    return (await this.batch(countable(statement), shared, rows)).length;
  }

  classify(error: unknown): Failure {
    if (isSqlite(error, 'SQLITE_CONSTRAINT', 'SQLITE_TOOBIG', 'SQLITE_MISMATCH')) return 'refused';
    // If the commit itself failed, the next process that opens the file may still find the commit in the log.
    if (isSqlite(error, 'SQLITE_IOERR')) return 'lost';
    // The statement names a missing table or column. SQLite has one code for all errors in the text of a statement.
    if (sqliteCode(error) === 'SQLITE_ERROR') return 'unusable';
    // After all other errors (busy, disk full) the transaction is rolled back. There is no network that could lose the
    // reply.
    return isErrorNamed(error, 'TypeError', 'RangeError') ? 'refused' : 'retry';
  }

  now(): Promise<number> {
    return Promise.resolve(Date.now());
  }

  checkFile(): void {
    const wasReplaced = this.replaced !== undefined;
    this.replaced = this.openFile.isReplaced ? replacedError(this.db.path) : undefined;
    if (!this.replaced) return;
    if (!wasReplaced) this.logger.error(this.replaced.message);
    throw this.replaced;
  }

  changeCounter(): number {
    return this.run({ name: 'changes', text: 'pragma data_version' }, [])[0]?.data_version as number;
  }

  lostConnections(): number {
    return 0;
  }

  /** Nothing to do: other processes notice the commit itself. */
  async announce(): Promise<void> {}

  listen(callbacks: ListenerCallbacks): Listening {
    return watchChanges(() => (this.db.isOpen() ? this.changeCounter() : 0), callbacks);
  }

  async close(): Promise<void> {
    this.db.close();
  }

  private async execute(statement: Statement, work: () => Row[]): Promise<Row[]> {
    // The statement is reported before the wait for a turn: a test clock must not move while the statement waits.
    const report = this.probe?.(statement.name);
    try {
      const turn = this.turns.wait();
      if (turn !== undefined) await turn;
      if (this.replaced) throw this.replaced;
      const rows = await untilNotBusy(work, (waitedMs) => this.logWait(waitedMs));
      report?.('after-apply');
      await Promise.resolve();
      report?.('after-reply');
      return rows;
    } catch (error) {
      report?.('failed');
      throw error;
    }
  }

  private logWait(waitedMs: number): void {
    const now = performance.now();
    if (waitedMs < logAfterMs || now - this.loggedAt < logIntervalMs) return;
    this.loggedAt = now;
    this.logger.warn(
      `Another process has been writing to the SQLite file for ${Math.floor(waitedMs / 1000)} s. ` +
        'This process waits for it.',
    );
  }

  private runWithAlso({ also = [], ...statement }: Statement & { also?: readonly string[] }, params: unknown[]): Row[] {
    const found = this.run(statement, params);
    if (also.length > 0 && found.some((row) => row.landed)) {
      for (const [i, text] of also.entries()) this.run({ name: `${preparedName(statement)}.also${i}`, text }, params);
    }
    return found;
  }

  private changesRow(name: string, text: string, params: readonly unknown[]): boolean {
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
    `The SQLite file "${path}" was moved away, deleted or replaced while it was open. This process no longer writes ` +
      'to the file that it has open. Restart this process: it then continues with the file at that path.',
    { details: { path } },
  );
}

/** Runs `work` again while another process writes, without blocking the event loop of this process. */
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
