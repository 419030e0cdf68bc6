import { AsyncResource } from 'node:async_hooks';
import type pg from 'pg';
import { describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { applicationName, checkWritable } from './connect.js';
import type { Server } from './server.js';

/** Connections that only ever run batches. Each kind of batch has at most one statement under way. */
const writerConnections = 4;
const defaultPoolSize = 10;

/**
 * How long a statement that shares connections waits for a free one before it opens another. In an idle process, long
 * enough for several background statements that become due at the same moment: they need one connection. In a process
 * that works, a moment.
 */
const idlePatienceMs = 250;
const busyPatienceMs = 25;

/** How long any other statement waits while a connection is being opened that it could use, or one that others may free. */
const openingPatienceMs = 50;

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

/**
 * Which connections a statement may use.
 *
 * - `general`: those with the planner as it is.
 * - `writing`: those that are held to index probes.
 * - `shared`: whichever of both is free. `shared writing`: the second, where one is free.
 * - `held-up`: one apart from the others, which is open only while it is needed.
 */
export type Use = 'general' | 'writing' | 'shared' | 'shared writing' | 'locked';

/** A connection in use. */
export interface Lease {
  readonly client: pg.PoolClient;
  readonly kind: 'general' | 'writing' | 'locked';
  /** A broken one is closed, and so is one that has not been needed for the idle time. */
  release(isBroken?: boolean): void;
}

export interface PoolsOptions {
  readonly logger: Logger;
  readonly applicationName: string;
  readonly poolSize?: number;
  readonly answerTimeoutMs: number;
  /** An unanswered statement is given up by the server after this long. */
  readonly statementTimeoutMs: number;
  /** What a writing session waits for a lock. */
  readonly lockTimeout: string;
  /** Called with each connection that was opened. */
  onOpened(client: pg.PoolClient): void;
}

/**
 * The connections to one database. It keeps open as many of each kind as were used at the same time in the last idle time
 * (10 s, or `idleTimeoutMillis` of the settings), not counting statements that share connections, and at least one.
 *
 * So a process without work has one: its background statements wait for each other. One that begins to work opens one
 * connection of a kind at a time: a thousand processes that news wakes at the same moment do not ask for thousands.
 */
export class Pools {
  private readonly general: pg.Pool;
  private readonly writers: pg.Pool;
  /** One connection, apart from the others and only while it is needed: whatever is locked, it keeps none of them. */
  private readonly forLocked: pg.Pool;
  /** When a server was last found to be read-only, and when each connection was opened. */
  private movedAt = Number.NEGATIVE_INFINITY;
  private readonly openedAt = new WeakMap<pg.ClientBase, number>();
  /** How many connections each pool is opening. */
  private readonly opening = new Map<pg.Pool, number>();
  private readonly demand: ReadonlyMap<pg.Pool, Demand>;
  /** Those who wait for a connection that comes free. Each says whether it took one. */
  private readonly waiting = new Set<() => boolean>();
  /**
   * What connections belong to: the opening of this database, and not whatever asks for one that is yet to be opened. A
   * socket holds on to the context that it was made in for as long as it lasts, and with it to the workflow of that context.
   */
  private readonly opened = new AsyncResource('HoldfastPostgres');

  constructor(driver: typeof pg, server: Server, options: PoolsOptions) {
    const { poolSize: size = defaultPoolSize } = options;
    const writers = Math.min(writerConnections, size - 1);
    const create = (max: number, more: string) => createPool(driver, server, options, max, more);
    this.general = create(size - writers, '');
    this.writers = create(writers, `; ${writerSettings}; ${options.lockTimeout}`);
    this.forLocked = create(1, `; ${writerSettings}`);
    this.demand = new Map(this.all().map((pool) => [pool, new Demand(pool.options.idleTimeoutMillis)]));
    for (const pool of this.all()) {
      pool.on('connect', (client) => {
        this.openedAt.set(client, performance.now());
        options.onOpened(client);
      });
      // The pool has it only after this.
      pool.on('release', () => this.wakeNext());
    }
  }

  /**
   * After a failover, connections from before it may still lead to the old primary. It refuses what is written there, and
   * answers what is read: with a past in which steps that are on record by now are not. So none of them is used again.
   */
  async take(use: Use): Promise<Lease> {
    for (;;) {
      const lease = await this.reach(use);
      if ((this.openedAt.get(lease.client) ?? 0) > this.movedAt) return lease;
      lease.release(true);
    }
  }

  /** Another server is to answer from now on: connections that are open by now may lead to the wrong one. */
  moved(): void {
    this.movedAt = performance.now();
  }

  async close(): Promise<void> {
    await Promise.all(this.all().map((pool) => pool.end()));
  }

  private all(): pg.Pool[] {
    return [this.general, this.writers, this.forLocked];
  }

  /** Chooses and connects without a pause between them, so that no two take one connection for theirs. */
  private reach(use: Use): Promise<Lease> {
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
      // Whoever waited in vain needs another connection, and the next one will.
      const timer = setTimeout(() => take(this.another(use), true), this.patienceFor(isShared));
      this.waiting.add(attempt);
    });
  }

  private patienceFor(isShared: boolean): number {
    if (!isShared) return openingPatienceMs;
    return [...this.demand.values()].some(({ inUse }) => inUse > 0) ? busyPatienceMs : idlePatienceMs;
  }

  /** Where there is a connection for it, or one may be opened. Undefined: it is to wait a moment for one. */
  private choose(use: Use): pg.Pool | undefined {
    const pools = this.poolsFor(use);
    const free = pools.find(isFree);
    if (free) return free;
    if (use.startsWith('shared')) return pools.every((pool) => pool.totalCount === 0) ? pools[0] : undefined;
    return pools.find((pool) => isFull(pool) || !this.opening.has(pool));
  }

  /** Where another connection is opened, or waited for, by whoever has waited for long enough. */
  private another(use: Use): pg.Pool {
    const pools = this.poolsFor(use).reverse();
    return pools.find((pool) => !isFull(pool)) ?? (pools[0] as pg.Pool);
  }

  /** The first one is used first, so that the other becomes idle. */
  private poolsFor(use: Use): pg.Pool[] {
    if (use === 'shared') return [this.writers, this.general];
    if (use === 'locked') return [this.forLocked];
    return use === 'general' ? [this.general] : [this.writers];
  }

  /** Whether it is `needed`: what shares connections needs none of its own. */
  private async connect(pool: pg.Pool, isNeeded: boolean): Promise<Lease> {
    const opens = !isFree(pool) && !isFull(pool);
    if (opens) this.opening.set(pool, (this.opening.get(pool) ?? 0) + 1);
    const demand = this.demand.get(pool) as Demand;
    if (isNeeded) demand.begin();
    const kind = pool === this.general ? 'general' : pool === this.writers ? 'writing' : 'locked';
    try {
      const client = await this.opened.runInAsyncScope(() => pool.connect());
      const release = (isBroken?: boolean): void => {
        if (isNeeded) demand.end();
        client.release(isBroken || pool.totalCount > Math.max(demand.most(), pool === this.writers ? 1 : 0));
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

  /** One after the other: who is woken takes the connection before the next one looks. */
  private wakeNext(): void {
    if (this.waiting.size === 0) return;
    setImmediate(() => {
      for (const attempt of this.waiting) {
        if (attempt()) return this.wakeNext();
      }
    });
  }
}

/** How many connections of a pool were needed at the same time, at most, in the last idle time and up to twice as long ago. */
class Demand {
  inUse = 0;
  private since = performance.now();
  private peak = 0;
  private earlier = 0;

  private readonly idleMs: number;

  /** As pg has it: ten seconds if nothing is said. Null or zero: for ever. */
  constructor(idleMs: number | null | undefined = 10_000) {
    this.idleMs = idleMs ?? 0;
  }

  begin(): void {
    this.inUse++;
    this.most();
    this.peak = Math.max(this.peak, this.inUse);
  }

  end(): void {
    this.most();
    this.inUse--;
  }

  most(): number {
    if (this.idleMs === 0) return Number.POSITIVE_INFINITY;
    const passed = performance.now() - this.since;
    if (passed > this.idleMs) {
      this.earlier = passed > 2 * this.idleMs ? this.inUse : this.peak;
      this.peak = this.inUse;
      this.since = performance.now();
    }
    return Math.max(this.peak, this.earlier);
  }
}

/** Whether a connection is open that nobody uses, and nobody is about to. */
function isFree(pool: pg.Pool): boolean {
  return pool.idleCount > pool.waitingCount;
}

function isFull(pool: pg.Pool): boolean {
  return pool.totalCount >= pool.options.max;
}

function createPool(driver: typeof pg, server: Server, options: PoolsOptions, max: number, more: string): pg.Pool {
  const { answerTimeoutMs, statementTimeoutMs } = options;
  // Not as a startup parameter, which poolers refuse.
  const settings =
    // A server with LLVM compiles what it expects to be expensive at every execution, for seconds. Statements of ours are
    // short: compiling never pays. Where this setting does not hold (a pooler loses it, a transaction is the user's),
    // their estimated costs are too low for it: test/storage/statement-estimates.
    'set jit = off; ' +
    // Where a role or a database has a stricter default, claims that meet would fail instead of waiting for each other.
    "set default_transaction_isolation = 'read committed'; " +
    `set statement_timeout = ${statementTimeoutMs}; ` +
    // If this process stands still in the middle of a transaction, others need not wait for it.
    `set idle_in_transaction_session_timeout = ${answerTimeoutMs}${more}; `;
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
  // A connection that breaks, idle or under a statement, is replaced on its next use. The pool listens to idle ones
  // only, and an error event that nobody listens to ends the process.
  pool.on('error', () => {});
  pool.on('connect', (client) => {
    client.on('error', (error) => {
      const told = describeError(server.tell(error));
      options.logger.debug(`A connection to Postgres broke and will be replaced: ${told}`);
    });
  });
  return pool;
}

const int8Oid = 20;

function parserFor(driver: typeof pg, oid: number, format: unknown): (value: string) => unknown {
  if (oid === int8Oid) return Number; // Instants and counters: far below 2^53.
  return driver.types.getTypeParser(oid, format as 'text');
}
