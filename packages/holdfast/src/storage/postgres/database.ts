import type pg from 'pg';
import { HoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import type { StatementProbe } from '../contract/probe.js';
import type {
  Database,
  Dialect,
  Failure,
  ListenerCallbacks,
  Listening,
  Query,
  Row,
  Statement,
  Statements,
} from '../database.js';
import type { DatabaseSource } from '../database-option.js';
import { howToInstall } from '../install-advice.js';
import type { Compat } from '../migrations/compat.js';
import { columnLiteral } from './array-literal.js';
import { connect } from './connect.js';
import { ensureDatabase, missingDatabase, onceByHand } from './create-database.js';
import { postgresDialect } from './dialect.js';
import { classifyPostgres, isUnprepared, sqlState, standsWrong } from './failures.js';
import { Pools, type Use } from './pools.js';
import { sessionName } from './prepared-names.js';
import { readyTables } from './ready-tables.js';
import { credentialsOf, Server } from './server.js';
import { PostgresSignals } from './signals.js';

/** An unanswered statement is given up after this long, and its connection with it. What it did is then read back. */
const defaultAnswerTimeoutMs = 30_000;

/**
 * The server gives up a little earlier, by itself: a statement that waits for a lock must not be applied long after
 * nobody waits for its answer any more, when what it claimed is no longer looked for.
 */
const serverPart = 0.8;

/**
 * A batch waits this part of the time for a lock: long past what statements of ours hold one for. Whoever holds it longer
 * (a session that someone left in the middle of a transaction) must not hold up the other rows of the batch.
 */
const lockPart = 0.1;

/**
 * After one has waited in vain, the others wait this long, until nothing was held up for a while: there may be more that
 * is locked, and more kinds of batches that want it than there are connections.
 */
const warnedLockMs = 100;
const warnedForMs = 10_000;

/** What is known to be held up waits this long: longer than most statements of ours hold a lock for. */
const impatientLockMs = 20;

/**
 * Each statement of a transaction has to see what was committed while the one before it waited for a lock, or a queue is deleted
 * under the work that was put on it meanwhile. The default of a database or a role may be another.
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
  /** On Postgres: the layout of the tables. Absent: as it is. */
  readonly compat?: Compat | undefined;
  /** Whether a layout that was chosen before may be changed. */
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
  const first = await connect(server, options).catch(async (error) => {
    if (sqlState((error as Error).cause) !== '3D000') throw error;
    const { database } = server;
    if (!options.migrate) throw missingDatabase(database, '`migrate: false` creates nothing', onceByHand, error);
    await ensureDatabase(database, (other) => connect(server, { ...options, database: other }));
    return connect(server, options);
  });
  const silentMessages = await readyTables(server, first, options).finally(() => first.end().catch(() => {}));
  const adopted = { ...options, silentMessages };
  if (listenUrl === undefined) return new PostgresDatabase(driver, server, adopted);
  const listening = new Server(driver, {
    ...settings,
    config: { ...credentialsOf(settings), connectionString: listenUrl },
  });
  // Later it would only be a connection that does not come up, among others that do.
  await (await connect(listening, options)).end();
  return new PostgresDatabase(driver, server, adopted, listening);
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
  readonly impatient: Statements;
  readonly silentMessages: boolean;
  private readonly pools: Pools;
  private readonly probe: StatementProbe | undefined;
  private readonly signals: PostgresSignals;
  private isDeaf = false;
  /** Until when writers are warned of locks, and which of them have it in their settings. */
  private warnedUntil = 0;
  private readonly warned = new WeakSet<pg.PoolClient>();
  /** Connections whose server has said that it takes no more writes. */
  private readonly turned = new WeakSet<pg.ClientBase>();
  private broken = 0;
  private prepares = true;

  constructor(
    driver: typeof pg,
    private readonly server: Server,
    private readonly options: PostgresOptions & Pick<Database, 'silentMessages'>,
    listening: Server = server,
  ) {
    const { answerTimeoutMs = defaultAnswerTimeoutMs } = options;
    this.dialect = postgresDialect(options.schema);
    this.silentMessages = options.silentMessages === true;
    this.probe = options.probe;
    this.signals = new PostgresSignals(options.schema, {
      connect: async () => (await connect(listening, options)).on('error', () => this.broken++),
      query: (statement, params) => this.query(statement, params),
      onDeaf: (isDeaf) => this.noteDeafness(options.logger, isDeaf),
    });
    this.pools = new Pools(driver, server, {
      ...options,
      answerTimeoutMs,
      statementTimeoutMs: Math.ceil(answerTimeoutMs * serverPart),
      lockTimeout: lockTimeout(options),
      onOpened: (client) => {
        onReadOnly(client, () => this.turned.add(client));
        // Also of one that nobody uses at the moment.
        client.on('error', () => this.broken++);
      },
    });
    const { query, batch } = this.through('writing');
    [this.query, this.batch] = [query, batch];
    this.impatient = this.through('locked');
  }

  /** Statements whose batches go by these connections. */
  private through(writers: 'writing' | 'locked'): Statements {
    return {
      query: (statement, params) => this.execute(useOf(statement, writers), statement, params),
      batch: async (statement, shared, rows) => {
        if (rows.length === 0) return [];
        const columns = Object.keys(statement.columns) as (keyof (typeof rows)[number])[];
        const valuesOf = (list: typeof rows) => [...shared, ...columns.map((column) => columnLiteral(list, column))];
        const runPortions = async (client: pg.PoolClient): Promise<void> => {
          const { text, lists } = statement.portions ?? { text: '', lists: () => [] };
          for (const list of lists()) await client.query({ text, values: valuesOf(list) });
        };
        const use = useOf({ ...statement, pinned: true }, writers);
        return this.execute(use, statement, valuesOf(rows), statement.portions && runPortions);
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

  breaks(): number {
    return this.broken;
  }

  async announce(topics: readonly string[], query?: Query): Promise<void> {
    await this.signals.announce(topics, query);
  }

  listen(hearing: ListenerCallbacks): Listening {
    return this.signals.hear(hearing);
  }

  private noteDeafness(logger: Logger, isDeaf: boolean): void {
    if (isDeaf === this.isDeaf) return;
    this.isDeaf = isDeaf;
    if (!isDeaf) logger.info('Notifications from Postgres arrive again.');
    else {
      logger.warn(
        'LISTEN does not work on this connection: a notification to oneself did not arrive. A pooler in transaction mode ' +
          'does that. Everything still works, by polling; with a direct connection, for all or only to listen by ' +
          '(`database: { url, listen }`, both of the same database), or a pooler in session mode, it is faster.',
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
  ): Promise<Row[]> {
    // Under way from here on: a connection may have to be opened first.
    const reached = this.probe?.(statement.name);
    const { client, kind, release } = await this.pools.take(use).catch((error) => {
      this.noteWhere(error);
      reached?.('failed');
      throw this.server.tell(error);
    });
    const name = statement.unprepared || !this.prepares ? undefined : sessionName(statement);
    // For the one transaction: behind a pooler the next one on this session may be anybody's.
    const isImpatient = kind === 'locked';
    const spansSeveral = statement.first !== undefined || runPortions !== undefined;
    const begin = isImpatient ? `${beginText}; set local lock_timeout = ${impatientLockMs}` : spansSeveral && beginText;
    const unwatch = reached && watchReply(client, () => reached('after-apply'));
    try {
      if (kind === 'writing') await this.warn(client);
      if (begin) await client.query(begin);
      if (statement.first) await client.query({ text: statement.first, values: values as unknown[] });
      const result = await client.query({ ...(name && { name }), text: statement.text, values: values as unknown[] });
      await runPortions?.(client);
      if (begin) await client.query('commit');
      // What was read may be long past. What was written, if anything was, is read back elsewhere.
      if (this.turned.has(client)) throw new Error('the server has become read-only');
      reached?.('after-reply');
      release();
      return result.rows;
    } catch (error) {
      if (classifyPostgres(error) === 'locked') this.warnedUntil = performance.now() + warnedForMs;
      this.noteWhere(error, this.turned.has(client));
      const isOver = !begin || (classifyPostgres(error) === 'locked' && (await rollsBack(client)));
      // A connection that failed under a statement may still get its late reply, or be in the middle of a transaction, or
      // lead to a server that was the primary once: it must not serve another one.
      release(!isOver || classifyPostgres(error) === 'lost' || standsWrong(error));
      reached?.('failed');
      if (name === undefined || !isUnprepared(error)) throw error;
    } finally {
      unwatch?.();
    }
    this.prepareNoMore();
    return this.execute(use, statement, values, runPortions);
  }

  private noteWhere(error: unknown, isTurned = false): void {
    const isWrong = isTurned || standsWrong(error);
    if (isWrong) this.pools.moved();
    // Given up by this process, perhaps, and not closed by the other side. Or another server is to answer from now on.
    if (isWrong || classifyPostgres(error) === 'lost') this.broken++;
  }

  private async warn(writer: pg.PoolClient): Promise<void> {
    const isWarned = performance.now() < this.warnedUntil;
    if (isWarned === this.warned.has(writer)) return;
    await writer.query(isWarned ? `set lock_timeout = ${warnedLockMs}` : lockTimeout(this.options));
    if (isWarned) this.warned.add(writer);
    else this.warned.delete(writer);
  }

  /** What is prepared belongs to a session, and a pooler may lend each statement another one. */
  private prepareNoMore(): void {
    if (!this.prepares) return;
    this.prepares = false;
    this.options.logger.warn(
      'Prepared statements do not last on this connection: a pooler in transaction mode does that. Everything still works, ' +
        'without them; with a direct connection, or a pooler that keeps track of them (PgBouncer from 1.21 on, with ' +
        'max_prepared_statements), it is faster.',
    );
  }
}

/** The connections that a statement may use; `writers` are those for what is pinned. */
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
  return `set lock_timeout = ${Math.ceil(answerTimeoutMs * lockPart)}`;
}

/** What a server (from Postgres 14 on) reports of itself, with the reply to the first statement that it is true of. */
const readOnlyReports: ReadonlySet<string> = new Set(['default_transaction_read_only', 'in_hot_standby']);

function onReadOnly(client: pg.PoolClient, turned: () => void): void {
  const { connection } = client as unknown as { connection: NodeJS.EventEmitter };
  connection.on('parameterStatus', (report: { parameterName: string; parameterValue: string }) => {
    if (readOnlyReports.has(report.parameterName) && report.parameterValue === 'on') turned();
  });
}

/** Calls `applied` when the raw reply that ends a committed statement arrives, before the driver parses it. */
function watchReply(client: pg.PoolClient, applied: () => void): () => void {
  const { stream } = (client as unknown as { connection: { stream: NodeJS.EventEmitter } }).connection;
  const onData = (chunk: Buffer): void => {
    // A reply ends with ReadyForQuery: 'Z', length 5, status. Earlier chunks come before the commit, and so does a reply
    // with another status than 'I': the session is in a transaction then.
    const end = chunk.subarray(-6);
    if (end[0] === 0x5a && end[4] === 5 && end[5] === 0x49) applied();
  };
  stream.prependListener('data', onData);
  return () => stream.removeListener('data', onData);
}
