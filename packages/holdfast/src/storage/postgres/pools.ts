import { AsyncResource } from 'node:async_hooks';
import type pg from 'pg';
import { describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { applicationName, checkWritable } from './connect.js';
import type { Server } from './server.js';

/** The number of connections that run only batches. Each kind of batch has at most one statement in progress. */
const writerConnections = 4;
const defaultPoolSize = 10;

/**
 * How long a shared statement waits for a free connection before it opens another one. In an idle process the wait is
 * long enough for several background statements that become due at the same time to use one connection. In a busy
 * process the wait is short.
 */
const idleWaitMs = 250;
const busyWaitMs = 25;

/** How long any other statement waits for a connection that is being opened, or that another statement may release. */
const openingWaitMs = 50;

/**
 * Batch statements may be prepared while tables are empty and not yet analyzed, and they keep their first plan. On
 * separate connections the planner is restricted to index probes, which suit every batch statement at every table size.
 */
const writerSettings = [
  'set enable_seqscan = off',
  'set enable_hashjoin = off',
  'set enable_mergejoin = off',
  'set enable_bitmapscan = off',
  'set plan_cache_mode = force_generic_plan',
].join('; ');

/**
 * The connections that a statement may use.
 *
 * - `general`: connections with the default planner settings.
 * - `writing`: connections whose planner is restricted to index probes.
 * - `shared`: any free connection of these two kinds.
 * - `shared writing`: a free `writing` connection.
 * - `locked`: one separate connection for rows that other sessions have locked. It is open only while it is needed.
 */
export type Use = 'general' | 'writing' | 'shared' | 'shared writing' | 'locked';

/** A connection in use. */
export interface Lease {
  readonly client: pg.PoolClient;
  readonly kind: 'general' | 'writing' | 'locked';
  /**
   * Returns the connection to its pool. Closes the connection if it is broken or was not needed during the idle time.
   */
  release(isBroken?: boolean): void;
}

export interface PoolsOptions {
  readonly logger: Logger;
  readonly applicationName: string;
  readonly poolSize?: number;
  readonly answerTimeoutMs: number;
  /** The server cancels a statement after this time. */
  readonly statementTimeoutMs: number;
  /** The statement that sets how long a writing session waits for a lock. */
  readonly lockTimeout: string;
  /** Called with each new connection. */
  onOpened(client: pg.PoolClient): void;
}

/**
 * The connections to one database. For each kind, as many connections are open as were in use at the same time during
 * the last idle time. The idle time is 10 s, or `idleTimeoutMillis` of the settings. Shared statements do not count. At
 * least one connection stays open.
 *
 * An idle process therefore has one connection, and its background statements wait for each other. A process that
 * becomes busy opens one connection of each kind at a time. Otherwise a notification that wakes a thousand processes
 * would make them open thousands of connections at once.
 */
export class Pools {
  private readonly general: pg.Pool;
  private readonly writers: pg.Pool;
  /** One separate connection, open only while it is needed. Locked rows therefore never block the other connections. */
  private readonly forLocked: pg.Pool;
  /** When a server was last found to be read-only. Connections that were opened before that time are not used again. */
  private failoverAt = Number.NEGATIVE_INFINITY;
  private readonly openedAt = new WeakMap<pg.ClientBase, number>();
  /** How many connections each pool is opening. */
  private readonly opening = new Map<pg.Pool, number>();
  private readonly demand: ReadonlyMap<pg.Pool, Demand>;
  /** Attempts of statements that wait for a free connection. An attempt returns true if it took a connection. */
  private readonly waiting = new Set<() => boolean>();
  /**
   * Connections are opened in the async context of this object, and not in the context of the statement that needs one.
   * A socket keeps the async context of its creation in memory while it is open, and with it the workflow of that
   * context.
   */
  private readonly asyncContext = new AsyncResource('HoldfastPostgres');

  constructor(driver: typeof pg, server: Server, options: PoolsOptions) {
    const { poolSize: size = defaultPoolSize } = options;
    const writers = Math.min(writerConnections, size - 1);
    const create = (max: number, extraSettings: string) => createPool(driver, server, options, max, extraSettings);
    this.general = create(size - writers, '');
    this.writers = create(writers, `; ${writerSettings}; ${options.lockTimeout}`);
    this.forLocked = create(1, `; ${writerSettings}`);
    this.demand = new Map(this.all().map((pool) => [pool, new Demand(pool.options.idleTimeoutMillis)]));
    for (const pool of this.all()) {
      pool.on('connect', (client) => {
        this.openedAt.set(client, performance.now());
        options.onOpened(client);
      });
      // The pool emits 'release' before it has the connection back. `wakeNext` therefore waits one event loop turn.
      pool.on('release', () => this.wakeNext());
    }
  }

  /**
   * Returns a connection for the statement. After a failover, older connections may still lead to the old primary. The
   * old primary refuses writes but answers reads, and its answers lack steps that have been recorded since. Therefore
   * connections from before the failover are closed instead of used.
   */
  async take(use: Use): Promise<Lease> {
    for (;;) {
      const lease = await this.acquire(use);
      if ((this.openedAt.get(lease.client) ?? 0) > this.failoverAt) return lease;
      lease.release(true);
    }
  }

  /** Reports a failover. Connections that are already open may lead to the old primary. */
  noteFailover(): void {
    this.failoverAt = performance.now();
  }

  async close(): Promise<void> {
    await Promise.all(this.all().map((pool) => pool.end()));
  }

  private all(): pg.Pool[] {
    return [this.general, this.writers, this.forLocked];
  }

  /**
   * Chooses a pool and connects without an await in between, so that two statements never choose the same connection.
   */
  private acquire(use: Use): Promise<Lease> {
    const isShared = use.startsWith('shared');
    const chosen = this.choose(use);
    if (chosen) return this.connect(chosen, !isShared);
    return new Promise((resolve) => {
      const take = (pool: pg.Pool, isNeeded: boolean): void => {
        clearTimeout(timer);
        this.waiting.delete(attempt);
        resolve(this.connect(pool, isNeeded));
      };
      const attempt = (): boolean => {
        const pool = this.choose(use);
        if (pool) take(pool, !isShared);
        return pool !== undefined;
      };
      // A statement that got no connection in time needs another connection, and so will the next statement. Therefore
      // even a shared statement counts as demand then.
      const timer = setTimeout(() => take(this.poolAfterWait(use), true), this.waitMsFor(isShared));
      this.waiting.add(attempt);
    });
  }

  private waitMsFor(isShared: boolean): number {
    if (!isShared) return openingWaitMs;
    return [...this.demand.values()].some(({ inUse }) => inUse > 0) ? busyWaitMs : idleWaitMs;
  }

  /**
   * Returns a pool with a free connection, or a pool that may open one.
   * Returns undefined if the statement has to wait for a connection.
   */
  private choose(use: Use): pg.Pool | undefined {
    const pools = this.poolsFor(use);
    const free = pools.find(isFree);
    if (free) return free;
    if (use.startsWith('shared')) return pools.every((pool) => pool.totalCount === 0) ? pools[0] : undefined;
    return pools.find((pool) => isFull(pool) || !this.opening.has(pool));
  }

  /** Returns the pool in which a statement opens a connection, or queues for one, when its wait is over. */
  private poolAfterWait(use: Use): pg.Pool {
    const pools = this.poolsFor(use).reverse();
    return pools.find((pool) => !isFull(pool)) ?? (pools[0] as pg.Pool);
  }

  /** Returns the pools that a statement may use. The first pool is preferred, so that the other becomes idle. */
  private poolsFor(use: Use): pg.Pool[] {
    if (use === 'shared') return [this.writers, this.general];
    if (use === 'locked') return [this.forLocked];
    return use === 'general' ? [this.general] : [this.writers];
  }

  /** Takes a connection of the pool. `isNeeded` counts it as demand, which a shared statement normally does not. */
  private async connect(pool: pg.Pool, isNeeded: boolean): Promise<Lease> {
    const opens = !isFree(pool) && !isFull(pool);
    if (opens) this.opening.set(pool, (this.opening.get(pool) ?? 0) + 1);
    const demand = this.demand.get(pool) as Demand;
    if (isNeeded) demand.begin();
    const kind = pool === this.general ? 'general' : pool === this.writers ? 'writing' : 'locked';
    try {
      const client = await this.asyncContext.runInAsyncScope(() => pool.connect());
      const release = (isBroken?: boolean): void => {
        if (isNeeded) demand.end();
        client.release(isBroken || pool.totalCount > Math.max(demand.peak(), pool === this.writers ? 1 : 0));
      };
      return { client, kind, release };
    } catch (error) {
      if (isNeeded) demand.end();
      throw error;
    } finally {
      if (opens) this.noteOpened(pool);
    }
  }

  private noteOpened(pool: pg.Pool): void {
    const left = (this.opening.get(pool) ?? 1) - 1;
    if (left > 0) this.opening.set(pool, left);
    else this.opening.delete(pool);
    this.wakeNext();
  }

  /** Wakes waiting statements one by one: each takes its connection before the next one checks the pools. */
  private wakeNext(): void {
    if (this.waiting.size === 0) return;
    setImmediate(() => {
      for (const attempt of this.waiting) {
        if (attempt()) return this.wakeNext();
      }
    });
  }
}

/** The highest number of connections of a pool in use at the same time, in the last idle time and in the one before. */
class Demand {
  inUse = 0;
  private since = performance.now();
  private currentPeak = 0;
  private previousPeak = 0;

  private readonly idleMs: number;

  /** Follows the rules of pg: the default is ten seconds, and with null or zero connections never become idle. */
  constructor(idleMs: number | null | undefined = 10_000) {
    this.idleMs = idleMs ?? 0;
  }

  begin(): void {
    this.inUse++;
    this.peak();
    this.currentPeak = Math.max(this.currentPeak, this.inUse);
  }

  end(): void {
    this.peak();
    this.inUse--;
  }

  peak(): number {
    if (this.idleMs === 0) return Number.POSITIVE_INFINITY;
    const passed = performance.now() - this.since;
    if (passed > this.idleMs) {
      this.previousPeak = passed > 2 * this.idleMs ? this.inUse : this.currentPeak;
      this.currentPeak = this.inUse;
      this.since = performance.now();
    }
    return Math.max(this.currentPeak, this.previousPeak);
  }
}

/** Returns true if the pool has an idle connection for which no statement waits. */
function isFree(pool: pg.Pool): boolean {
  return pool.idleCount > pool.waitingCount;
}

function isFull(pool: pg.Pool): boolean {
  return pool.totalCount >= pool.options.max;
}

function createPool(
  driver: typeof pg,
  server: Server,
  options: PoolsOptions,
  max: number,
  extraSettings: string,
): pg.Pool {
  const { answerTimeoutMs, statementTimeoutMs } = options;
  // The settings are sent as a statement, because poolers refuse them as startup parameters.
  const settings =
    // A server with LLVM compiles a statement with high estimated costs at every execution, which takes seconds.
    // Statements of Holdfast are short, so compiling never pays. The setting can be missing: a pooler loses it, or the
    // transaction belongs to the user. Then the estimated costs are too low for JIT: test/storage/statement-estimates.
    'set jit = off; ' +
    // With a stricter default of the role or database, concurrent claims fail instead of waiting for each other.
    "set default_transaction_isolation = 'read committed'; " +
    `set statement_timeout = ${statementTimeoutMs}; ` +
    // If this process freezes inside a transaction, other processes do not have to wait for it.
    `set idle_in_transaction_session_timeout = ${answerTimeoutMs}${extraSettings}; `;
  const pool = server.pool({
    application_name: applicationName(options.applicationName),
    max,
    connectionTimeoutMillis: Math.min(10_000, answerTimeoutMs * 10),
    query_timeout: answerTimeoutMs,
    keepAlive: true,
    verify: (client, done) =>
      void server
        .prepare(client)
        .then(() => checkWritable(client, settings))
        .then(() => done(), done),
    types: { getTypeParser: (oid, format) => parserFor(driver, oid, format) },
  });
  // A broken connection is replaced at its next use, whether it broke idle or during a statement. The pool listens only
  // to idle connections, and an 'error' event without a listener ends the process.
  pool.on('error', () => {});
  pool.on('connect', (client) => {
    client.on('error', (error) => {
      const reason = describeError(server.tell(error));
      options.logger.debug(`A connection to Postgres broke and will be replaced: ${reason}`);
    });
  });
  return pool;
}

const int8Oid = 20;

function parserFor(driver: typeof pg, oid: number, format: unknown): (value: string) => unknown {
  if (oid === int8Oid) return Number; // Instants and counters: far below 2^53.
  return driver.types.getTypeParser(oid, format as 'text');
}
