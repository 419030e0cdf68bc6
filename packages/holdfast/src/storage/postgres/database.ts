import type pg from 'pg';
import { HoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import {
  type BatchStatement,
  type Database,
  type Dialect,
  type Failure,
  type Hearing,
  type Listening,
  preparedName,
  type Query,
  type Row,
  type Statement,
} from '../database.js';
import type { StatementProbe } from '../probe.js';
import { columnLiteral } from './array-literal.js';
import { connect, type PostgresOptions } from './connect.js';
import { ensureDatabase, missingDatabase } from './create-database.js';
import { postgresDialect } from './dialect.js';
import { classifyPostgres, sqlState } from './failures.js';
import { migratePostgres } from './migrate.js';
import { PostgresSignals } from './signals.js';

/** Connections that only ever run batches. Each kind of batch has at most one statement under way. */
const writerConnections = 4;
const defaultPoolSize = 10;

/** An unanswered statement is given up after this long, and its connection with it. What it did is then read back. */
const defaultAnswerTimeoutMs = 30_000;

/**
 * The server gives up a little earlier, by itself: a statement that waits for a lock must not be applied long after
 * nobody waits for its answer any more, when what it claimed is no longer looked for.
 */
const serverPart = 0.8;

/**
 * Batch statements are prepared while tables may be empty and never analysed, and keep the plan they get. On their
 * own connections the planner is held to index probes, which is right for every one of them at every size.
 */
const writerSettings = [
  'set enable_seqscan = off',
  'set enable_hashjoin = off',
  'set enable_mergejoin = off',
  'set enable_bitmapscan = off',
  'set plan_cache_mode = force_generic_plan',
].join('; ');

export async function openPostgres(options: PostgresOptions): Promise<Database> {
  const driver = await loadDriver();
  const first = await connect(driver, options).catch(async (error) => {
    if (sqlState((error as Error).cause) !== '3D000') throw error;
    if (!options.migrate) throw missingDatabase(options.url, '`migrate: false` creates nothing', error);
    await ensureDatabase(options.url, (url) => connect(driver, { ...options, url }));
    return connect(driver, options);
  });
  try {
    await migratePostgres(first, options);
  } finally {
    await first.end();
  }
  return new PostgresDatabase(driver, options);
}

async function loadDriver(): Promise<typeof pg> {
  try {
    return (await import('pg')).default;
  } catch (cause) {
    throw new HoldfastError('DRIVER_MISSING', 'A postgres:// URL needs the package "pg". Run: npm install pg', {
      cause,
    });
  }
}

class PostgresDatabase implements Database {
  readonly dialect: Dialect;
  readonly writeLanes = 2;
  private readonly general: pg.Pool;
  private readonly writers: pg.Pool;
  private readonly probe: StatementProbe | undefined;
  private readonly signals: PostgresSignals;
  private isDeaf = false;

  constructor(driver: typeof pg, options: PostgresOptions) {
    const size = Math.max(2, options.poolSize ?? defaultPoolSize);
    const writers = Math.min(writerConnections, size - 1);
    this.dialect = postgresDialect(options.schema);
    this.probe = options.probe;
    this.signals = new PostgresSignals(options.schema, {
      connect: () => connect(driver, options),
      query: (statement, params) => this.query(statement, params),
      onDeaf: (isDeaf) => this.noteDeafness(options.logger, isDeaf),
    });
    this.general = createPool(driver, options, size - writers);
    this.writers = createPool(driver, options, writers, writerSettings);
  }

  query(statement: Statement, params: readonly unknown[]): Promise<Row[]> {
    return this.execute(statement.pinned ? this.writers : this.general, statement, params);
  }

  async batch<T extends object>(
    statement: BatchStatement<T>,
    shared: readonly unknown[],
    rows: readonly T[],
  ): Promise<Row[]> {
    if (rows.length === 0) return [];
    const columns = Object.keys(statement.columns) as (keyof T)[];
    const arrays = columns.map((column) => columnLiteral(rows, column));
    return this.execute(this.writers, statement, [...shared, ...arrays]);
  }

  classify(error: unknown): Failure {
    return classifyPostgres(error);
  }

  async now(): Promise<number> {
    const [row] = await this.query(
      { name: 'now', text: 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now' },
      [],
    );
    return Number(row?.now);
  }

  changeCounter(): null {
    return null;
  }

  async announce(topics: readonly string[], query?: Query): Promise<void> {
    await this.signals.announce(topics, query);
  }

  hear(hearing: Hearing): Listening {
    return this.signals.hear(hearing);
  }

  private noteDeafness(logger: Logger, isDeaf: boolean): void {
    if (isDeaf === this.isDeaf) return;
    this.isDeaf = isDeaf;
    if (!isDeaf) logger.info('Notifications from Postgres arrive again.');
    else {
      logger.warn(
        'LISTEN does not work on this connection: a notification to oneself did not arrive. A pooler in transaction mode ' +
          'does that. Everything still works, by polling; with a direct connection, or a pooler in session mode, it is faster.',
      );
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.general.end(), this.writers.end()]);
  }

  private async execute(pool: pg.Pool, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    // Under way from here on: a connection may have to be opened first.
    const reached = this.probe?.(statement.name);
    const client = await pool.connect().catch((error) => {
      reached?.('failed');
      throw error;
    });
    const name = statement.unprepared ? undefined : preparedName(statement);
    const unwatch = reached && watchReply(client, () => reached('after-apply'));
    try {
      if (statement.first) await client.query('begin');
      if (statement.first) await client.query({ text: statement.first, values: values as unknown[] });
      const result = await client.query({ ...(name && { name }), text: statement.text, values: values as unknown[] });
      if (statement.first) await client.query('commit');
      reached?.('after-reply');
      client.release();
      return result.rows;
    } catch (error) {
      // A connection that failed under a statement may still get its late reply, or be in the middle of a transaction:
      // it must not serve another one.
      client.release(statement.first !== undefined || classifyPostgres(error) === 'lost');
      reached?.('failed');
      throw error;
    } finally {
      unwatch?.();
    }
  }
}

function createPool(driver: typeof pg, options: PostgresOptions, max: number, settings?: string): pg.Pool {
  const { answerTimeoutMs = defaultAnswerTimeoutMs } = options;
  const pool = new driver.Pool({
    connectionString: options.url,
    application_name: `holdfast ${options.applicationName}`.slice(0, 63),
    max,
    connectionTimeoutMillis: 10_000,
    query_timeout: answerTimeoutMs,
    keepAlive: true,
    types: { getTypeParser: (oid, format) => parserFor(driver, oid, format) },
  });
  // A connection that breaks, idle or under a statement, is replaced on its next use. The pool listens to idle ones
  // only, and an error event that nobody listens to ends the process.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', (error) => logLostConnection(options.logger, error)));
  // Not as a startup parameter, which poolers refuse.
  const all = [`set statement_timeout = ${Math.ceil(answerTimeoutMs * serverPart)}`, ...(settings ? [settings] : [])];
  pool.on('connect', (client) => void client.query(all.join('; ')).catch(() => {}));
  return pool;
}

const int8Oid = 20;

function parserFor(driver: typeof pg, oid: number, format: unknown): (value: string) => unknown {
  if (oid === int8Oid) return Number; // Instants and counters: far below 2^53.
  return driver.types.getTypeParser(oid, format as 'text');
}

function logLostConnection(logger: Logger, error: Error): void {
  logger.debug(`A connection to Postgres broke and will be replaced: ${error.message}`);
}

/** Calls `applied` when the raw reply that ends a committed statement arrives, before the driver parses it. */
function watchReply(client: pg.PoolClient, applied: () => void): () => void {
  const { stream } = (client as unknown as { connection: { stream: NodeJS.EventEmitter } }).connection;
  const onData = (chunk: Buffer): void => {
    // A reply ends with ReadyForQuery: 'Z', length 5, status. Earlier chunks come before the commit.
    if (chunk.length >= 6 && chunk[chunk.length - 6] === 0x5a && chunk[chunk.length - 2] === 5) applied();
  };
  stream.prependListener('data', onData);
  return () => stream.removeListener('data', onData);
}
