import type pg from 'pg';
import { HoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import type { DatabaseSource } from '../contract/database-source.js';
import type { Failure } from '../contract/failure-kind.js';
import type { ListenerCallbacks, Listening } from '../contract/listening.js';
import type { StatementProbe } from '../contract/probe.js';
import type { BatchStatement, Database, Dialect, Query, Statement, Statements } from '../database.js';
import { howToInstall } from '../install-advice.js';
import type { Compat } from '../migrations/compat.js';
import { columnLiterals } from './array-literal.js';
import { connect } from './connect.js';
import { ensureDatabase, migrateOnceAdvice, missingDatabase } from './create-database.js';
import { postgresDialect } from './dialect.js';
import { classifyPostgres, isReadOnlyServer, isUnprepared, sqlState } from './failures.js';
import { Pools, type Use } from './pools.js';
import { sessionName } from './prepared-names.js';
import { prepareTables } from './ready-tables.js';
import { credentialsOf, Server } from './server.js';
import { PostgresSignals } from './signals.js';

/**
 * After this time the process gives up an unanswered statement and closes its connection. It then reads from the
 * database what the statement changed.
 */
const defaultAnswerTimeoutMs = 30_000;

/**
 * The server cancels a statement after this part of the time, a little before the process gives it up. Otherwise a
 * statement that waits for a lock could be applied long after the process gave up. Then no process would look for the
 * workflows that the statement claimed.
 */
const serverTimeoutShare = 0.8;

/**
 * A batch waits this part of the time for a lock, which is much longer than statements of Holdfast hold a lock. A
 * session that holds the lock longer (somebody left it in the middle of a transaction) must not block the other rows of
 * the batch.
 */
const lockTimeoutShare = 0.1;

/**
 * After a batch has waited for a lock without success, all batches wait only this long. The usual wait returns when no
 * batch has failed to get a lock for a while. More rows may be locked, and the kinds of batches that need these rows
 * may outnumber the connections.
 */
const shortLockTimeoutMs = 100;
const shortLockPeriodMs = 10_000;

/** A row that is known to be locked waits this long: longer than most statements of Holdfast hold a lock. */
const impatientLockMs = 20;

/**
 * Each statement of a transaction must see what committed while the previous statement waited for a lock. Otherwise a
 * queue could be deleted although work was enqueued meanwhile. The default isolation level of a database or role may
 * differ.
 */
const beginText = 'begin isolation level read committed';

const nowStatement = {
  name: 'now',
  shared: true as const,
  text: 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now',
};

export interface PostgresOptions extends DatabaseSource {
  readonly schema: string;
  readonly migrate: boolean;
  readonly triggers?: boolean;
  readonly checksRights?: boolean;
  /** The layout of the tables. Absent: the layout stays as it is. */
  readonly compat?: Compat | undefined;
  /** True if a layout that was chosen before may be changed. */
  readonly mayChangeCompat?: boolean;
  readonly logger: Logger;
  readonly applicationName: string;
  readonly poolSize?: number;
  readonly answerTimeoutMs?: number;
  readonly probe?: StatementProbe;
}

export async function openPostgres(options: PostgresOptions): Promise<Database> {
  const driver = await loadDriver();
  const { settings = { config: { connectionString: options.url } }, listenUrl } = options;
  const server = new Server(driver, settings);
  const client = await connect(server, options).catch(async (error) => {
    if (sqlState((error as Error).cause) !== '3D000') throw error;
    const { database } = server;
    if (!options.migrate) throw missingDatabase(database, '`migrate: false` creates nothing', migrateOnceAdvice, error);
    await ensureDatabase(database, (other) => connect(server, { ...options, database: other }));
    return connect(server, options);
  });
  const silentMessages = await prepareTables(server, client, options).finally(() => client.end().catch(() => {}));
  const databaseOptions = { ...options, silentMessages };
  if (listenUrl === undefined) return new PostgresDatabase(driver, server, databaseOptions);
  const listenServer = new Server(driver, {
    ...settings,
    config: { ...credentialsOf(settings), connectionString: listenUrl },
  });
  // A wrong URL fails the launch here. Later, the listener would only retry the connection again and again.
  await (await connect(listenServer, options)).end();
  return new PostgresDatabase(driver, server, databaseOptions, listenServer);
}

async function loadDriver(): Promise<typeof pg> {
  try {
    return (await import('pg')).default;
  } catch (cause) {
    throw new HoldfastError('DRIVER_MISSING', `Postgres needs the package "pg". ${howToInstall('pg')}`, { cause });
  }
}

class PostgresDatabase implements Database {
  readonly dialect: Dialect;
  readonly writeLanes = 2;
  readonly query: Statements['query'];
  readonly batch: Statements['batch'];
  readonly write: Statements['write'];
  readonly impatient: Statements;
  readonly silentMessages: boolean;
  private readonly pools: Pools;
  private readonly probe: StatementProbe | undefined;
  private readonly signals: PostgresSignals;
  private isUndelivered = false;
  /** Until this time, writers use the short lock timeout. The set holds the connections with that setting. */
  private shortLockUntil = 0;
  private readonly hasShortLock = new WeakSet<pg.PoolClient>();
  /** Connections whose server has reported that it is read-only. */
  private readonly readOnlyClients = new WeakSet<pg.ClientBase>();
  private breakCount = 0;
  private usesPrepared = true;

  constructor(
    driver: typeof pg,
    private readonly server: Server,
    private readonly options: PostgresOptions & Pick<Database, 'silentMessages'>,
    listenServer: Server = server,
  ) {
    const { answerTimeoutMs = defaultAnswerTimeoutMs } = options;
    this.dialect = postgresDialect(options.schema);
    this.silentMessages = options.silentMessages === true;
    this.probe = options.probe;
    this.signals = new PostgresSignals(options.schema, {
      connect: async () => (await connect(listenServer, options)).on('error', () => this.breakCount++),
      query: (statement, params) => this.query(statement, params),
      onDeaf: (isUndelivered) => this.noteDelivery(options.logger, isUndelivered),
    });
    this.pools = new Pools(driver, server, {
      ...options,
      answerTimeoutMs,
      statementTimeoutMs: Math.ceil(answerTimeoutMs * serverTimeoutShare),
      lockTimeout: lockTimeout(options),
      onOpened: (client) => {
        onReadOnly(client, () => this.readOnlyClients.add(client));
        // An idle connection can break, too.
        client.on('error', () => this.breakCount++);
      },
    });
    const { query, batch, write } = this.statementsOn('writing');
    [this.query, this.batch, this.write] = [query, batch, write];
    this.impatient = this.statementsOn('locked');
  }

  /** Returns statements whose batches use the given kind of connection. */
  private statementsOn(writers: 'writing' | 'locked'): Statements {
    return {
      query: async (statement, params) => (await this.execute(useOf(statement, writers), statement, params)).rows,
      write: async (statement, shared, rows) => {
        if (rows.length === 0) return 0;
        const use = useOf({ ...statement, pinned: true }, writers);
        const { rowCount } = await this.execute(use, statement, valuesOf(statement, shared, rows));
        return rowCount ?? 0;
      },
      batch: async (statement, shared, rows) => {
        if (rows.length === 0) return [];
        const runPortions = async (client: pg.PoolClient): Promise<void> => {
          const { text, lists } = statement.portions ?? { text: '', lists: () => [] };
          for (const list of lists()) await client.query({ text, values: valuesOf(statement, shared, list) });
        };
        const use = useOf({ ...statement, pinned: true }, writers);
        return (
          await this.execute(use, statement, valuesOf(statement, shared, rows), statement.portions && runPortions)
        ).rows;
      },
    };
  }

  classify(error: unknown): Failure {
    return classifyPostgres(error);
  }

  async now(): Promise<number> {
    const [row] = await this.query(nowStatement, []);
    return Number(row?.now);
  }

  changeCounter(): null {
    return null;
  }

  lostConnections(): number {
    return this.breakCount;
  }

  async announce(topics: readonly string[], query?: Query): Promise<void> {
    await this.signals.announce(topics, query);
  }

  listen(callbacks: ListenerCallbacks): Listening {
    return this.signals.hear(callbacks);
  }

  private noteDelivery(logger: Logger, isUndelivered: boolean): void {
    if (isUndelivered === this.isUndelivered) return;
    this.isUndelivered = isUndelivered;
    if (!isUndelivered) logger.info('Notifications from Postgres arrive again.');
    else {
      logger.warn(
        'LISTEN does not work on this connection: a test notification of this process to itself did not arrive. ' +
          'A pooler in transaction mode causes this. Holdfast continues by polling, which is slower. ' +
          'For faster wake-ups use a pooler in session mode, or a direct connection for all statements or only for ' +
          'LISTEN (`database: { url, listen }`, both for the same database).',
      );
    }
  }

  async close(): Promise<void> {
    await this.pools.close();
  }

  private async execute(
    use: Use,
    statement: Statement,
    values: readonly unknown[],
    runPortions?: (client: pg.PoolClient) => Promise<void>,
  ): Promise<Pick<pg.QueryResult, 'rows' | 'rowCount'>> {
    // The statement counts as in progress from here on, although the pool may first have to open a connection.
    const reached = this.probe?.(statement.name);
    const { client, kind, release } = await this.pools.take(use).catch((error) => {
      this.noteFailure(error);
      reached?.('failed');
      throw this.server.tell(error);
    });
    const name = statement.unprepared || !this.usesPrepared ? undefined : sessionName(statement);
    // The lock timeout is set for this transaction only: behind a pooler the next transaction of the session may belong
    // to another client.
    const isImpatient = kind === 'locked';
    const spansSeveral = statement.first !== undefined || runPortions !== undefined;
    const begin = isImpatient ? `${beginText}; set local lock_timeout = ${impatientLockMs}` : spansSeveral && beginText;
    const unwatch = reached && watchReply(client, () => reached('after-apply'));
    try {
      if (kind === 'writing') await this.adjustLockTimeout(client);
      if (begin) await client.query(begin);
      if (statement.first) await client.query({ text: statement.first, values: values as unknown[] });
      const result = await client.query({ ...(name && { name }), text: statement.text, values: values as unknown[] });
      await runPortions?.(client);
      if (begin) await client.query('commit');
      // A read from this server may be outdated. The caller reads back what a write changed, if it changed anything.
      if (this.readOnlyClients.has(client)) throw new Error('the server has become read-only');
      reached?.('after-reply');
      release();
      return result;
    } catch (error) {
      if (classifyPostgres(error) === 'locked') this.shortLockUntil = performance.now() + shortLockPeriodMs;
      this.noteFailure(error, this.readOnlyClients.has(client));
      const isOver = !begin || (classifyPostgres(error) === 'locked' && (await rollsBack(client)));
      // After a failed statement the connection may still receive the late reply, be inside a transaction, or lead to
      // an old primary. Such a connection must not run another statement.
      release(!isOver || classifyPostgres(error) === 'lost' || isReadOnlyServer(error));
      reached?.('failed');
      if (name === undefined || !isUnprepared(error)) throw error;
    } finally {
      unwatch?.();
    }
    this.stopPreparing();
    return this.execute(use, statement, values, runPortions);
  }

  private noteFailure(error: unknown, isReadOnly = false): void {
    const isWrongServer = isReadOnly || isReadOnlyServer(error);
    if (isWrongServer) this.pools.noteFailover();
    // There may be no 'error' event that counts the break: this process gave up the connection itself, or another
    // server must be used from now on.
    if (isWrongServer || classifyPostgres(error) === 'lost') this.breakCount++;
  }

  private async adjustLockTimeout(writer: pg.PoolClient): Promise<void> {
    const isShort = performance.now() < this.shortLockUntil;
    if (isShort === this.hasShortLock.has(writer)) return;
    await writer.query(isShort ? `set lock_timeout = ${shortLockTimeoutMs}` : lockTimeout(this.options));
    if (isShort) this.hasShortLock.add(writer);
    else this.hasShortLock.delete(writer);
  }

  /** A prepared statement belongs to a session, and a pooler may run each statement in another session. */
  private stopPreparing(): void {
    if (!this.usesPrepared) return;
    this.usesPrepared = false;
    this.options.logger.warn(
      'Prepared statements do not last on this connection: a pooler in transaction mode causes this. ' +
        'Holdfast continues without prepared statements, which is slower. For more speed connect directly, or ' +
        'through a pooler that tracks prepared statements (PgBouncer 1.21 or later, with max_prepared_statements).',
    );
  }
}

function valuesOf<T extends object>(statement: BatchStatement<T>, shared: readonly unknown[], rows: readonly T[]) {
  return [...shared, ...columnLiterals(rows, Object.keys(statement.columns) as (keyof T)[])];
}

/** Returns the connections that a statement may use. `writers` is the kind of connection for pinned statements. */
function useOf({ pinned, shared }: Statement, writers: 'writing' | 'locked'): Use {
  if (!shared) return pinned ? writers : 'general';
  if (!pinned) return 'shared';
  return writers === 'writing' ? 'shared writing' : writers;
}

async function rollsBack(client: pg.PoolClient): Promise<boolean> {
  return client.query('rollback').then(
    () => true,
    () => false,
  );
}

function lockTimeout({ answerTimeoutMs = defaultAnswerTimeoutMs }: PostgresOptions): string {
  return `set lock_timeout = ${Math.ceil(answerTimeoutMs * lockTimeoutShare)}`;
}

/** Parameters that a server (Postgres 14 or later) reports with the reply to the first statement after a change. */
const readOnlyReports: ReadonlySet<string> = new Set(['default_transaction_read_only', 'in_hot_standby']);

function onReadOnly(client: pg.PoolClient, onReport: () => void): void {
  const { connection } = client as unknown as { connection: NodeJS.EventEmitter };
  connection.on('parameterStatus', (report: { parameterName: string; parameterValue: string }) => {
    if (readOnlyReports.has(report.parameterName) && report.parameterValue === 'on') onReport();
  });
}

/** Calls `applied` when the raw reply that ends a committed statement arrives, before the driver parses it. */
function watchReply(client: pg.PoolClient, applied: () => void): () => void {
  const { stream } = (client as unknown as { connection: { stream: NodeJS.EventEmitter } }).connection;
  const onData = (chunk: Buffer): void => {
    // A reply ends with ReadyForQuery: 'Z', length 5, status. Chunks without this end arrive before the commit. A
    // status other than 'I' means that the session is inside a transaction, so the reply arrives before the commit,
    // too.
    const end = chunk.subarray(-6);
    if (end[0] === 0x5a && end[4] === 5 && end[5] === 0x49) applied();
  };
  stream.prependListener('data', onData);
  return () => stream.removeListener('data', onData);
}
