import type { Logger } from '../../model/logger.js';
import type { Failure } from '../../storage/contract/failure-kind.js';
import { Backoff } from './backoff.js';
import { type BatchKind, type Entry, maxRows, maxWeight, refusal, writeBatch } from './batch-kind.js';

export interface LockConflictOptions {
  readonly logger: Logger;
  classify(error: unknown): Failure;
  /** Called when no entry is left. */
  onEmpty(): void;
}

/** The waiting entries of one key, in order. */
interface KeyQueue<T, R> {
  readonly key: string;
  readonly entries: Entry<T, R>[];
  /**
   * How many keys may share a statement with this one. The number shrinks each time a statement of several keys
   * fails.
   */
  maxKeys: number;
  /** How many entries of this key may share a statement. */
  maxEntries: number;
  /** True during the pause before a retry of a key that is still locked or slow. */
  isPaused: boolean;
  /** Present while attempts for this key alone fail. */
  backoff?: Backoff;
}

/** The pause is short, because no notification arrives when another session releases a lock. */
const maxPauseMs = 1_000;

/**
 * Writes the rows that another session has locked, apart from all other rows. A session that was left in the middle of
 * a transaction therefore delays only the workflow whose row it has locked. Rows that take the database long are
 * written here too, so that only their own workflows wait for them.
 *
 * A batch that met a lock or took too long is moved here as a whole, because the error does not name the row. Its rows
 * are then written by one statement at a time, and each statement waits only briefly for locks. The first statements
 * take many keys each, and write nearly all rows. After that, each key that is still locked is tried alone, with
 * growing pauses.
 *
 * **Invariant:** while an entry of a key is here, all entries of that key are written from here, in order.
 */
export class LockConflicts<T, R> {
  private readonly queues = new Map<string, KeyQueue<T, R>>();
  private readonly outage: Backoff;
  private writing: readonly Entry<T, R>[] = [];
  private working = false;
  private closed = false;
  private closedWith: Error | undefined;
  private wake: (() => void) | undefined;

  constructor(
    private readonly kind: BatchKind<T, R>,
    private readonly options: LockConflictOptions,
  ) {
    this.outage = new Backoff(`Writing ${kind.name}`, options.logger);
  }

  get isEmpty(): boolean {
    return this.queues.size === 0 && this.writing.length === 0;
  }

  /** Takes over a batch that met a lock or took too long. */
  add(batch: readonly Entry<T, R>[]): void {
    const added: KeyQueue<T, R>[] = [];
    for (const entry of batch) {
      const key = this.kind.key(entry.item);
      const queue = this.queues.get(key) ?? this.addQueue(key);
      if (queue.entries.push(entry) === 1) added.push(queue);
    }
    for (const queue of added) queue.maxKeys = fewerKeys(added.length);
    this.wake?.();
    if (!this.working) void this.work();
  }

  /** Keeps the entries whose keys are here already, so that they do not overtake others. Returns the other entries. */
  keepBehind(entries: readonly Entry<T, R>[]): readonly Entry<T, R>[] {
    if (this.queues.size === 0) return entries;
    return entries.filter((entry) => {
      const queue = this.queues.get(this.kind.key(entry.item));
      queue?.entries.push(entry);
      return queue === undefined;
    });
  }

  /** Stops all attempts. Entries that are not written reject with the error; without an error they never settle. */
  close(error?: Error): void {
    this.closed = true;
    this.closedWith = error;
    const writing = new Set(this.writing);
    for (const queue of this.queues.values()) this.giveUp(queue.entries.filter((entry) => !writing.has(entry)));
    this.queues.clear();
    this.wake?.();
  }

  private giveUp(entries: readonly Entry<T, R>[]): void {
    if (this.closedWith) for (const entry of entries) entry.reject(this.closedWith);
  }

  private addQueue(key: string): KeyQueue<T, R> {
    const queue: KeyQueue<T, R> = { key, entries: [], maxKeys: 1, maxEntries: maxRows, isPaused: false };
    this.queues.set(key, queue);
    return queue;
  }

  private async work(): Promise<void> {
    this.working = true;
    while (this.queues.size > 0) {
      const queues = this.nextQueues();
      if (queues.length > 0) await this.attempt(queues);
      else await new Promise<void>((resolve) => (this.wake = resolve));
    }
    this.working = false;
    this.options.onEmpty();
  }

  /**
   * Returns the keys for the next statement. Keys with the highest `maxKeys` come first, because they are the least
   * likely to be locked.
   */
  private nextQueues(): KeyQueue<T, R>[] {
    const ready = [...this.queues.values()].filter((queue) => !queue.isPaused);
    const maxKeys = ready.reduce((max, queue) => Math.max(max, queue.maxKeys), 0);
    return ready.filter((queue) => queue.maxKeys === maxKeys).slice(0, maxKeys);
  }

  private async attempt(queues: readonly KeyQueue<T, R>[]): Promise<void> {
    await this.kind.untilAllowed?.();
    if (this.closed) return;
    const batch = this.firstEntries(queues);
    this.writing = batch;
    try {
      await writeBatch(this.kind, batch, true);
      this.writing = [];
      this.outage.reset();
      this.settled(queues, batch);
    } catch (error) {
      this.writing = [];
      if (this.closed) this.giveUp(batch);
      else await this.failed(queues, batch, error);
    }
  }

  private firstEntries(queues: readonly KeyQueue<T, R>[]): Entry<T, R>[] {
    const batch: Entry<T, R>[] = [];
    let weight = 0;
    for (const entry of queues.flatMap((queue) => queue.entries.slice(0, queue.maxEntries))) {
      weight += this.kind.weigh(entry.item);
      if (batch.length === maxRows || (batch.length > 0 && weight > maxWeight)) break;
      batch.push(entry);
    }
    return batch;
  }

  private settled(queues: readonly KeyQueue<T, R>[], batch: readonly Entry<T, R>[]): void {
    const settled = new Set(batch);
    for (const queue of queues) {
      const left = queue.entries.findIndex((entry) => !settled.has(entry));
      queue.entries.splice(0, left === -1 ? queue.entries.length : left);
      queue.maxEntries = Math.min(maxRows, queue.maxEntries * 2);
      delete queue.backoff;
      if (queue.entries.length === 0) this.queues.delete(queue.key);
    }
  }

  private async failed(
    queues: readonly KeyQueue<T, R>[],
    batch: readonly Entry<T, R>[],
    error: unknown,
  ): Promise<void> {
    const failure = this.options.classify(error);
    const isReported = failure === 'unusable' && batch.every(({ item }) => this.kind.failsFast?.(item));
    if (failure === 'lost' || failure === 'retry' || (failure === 'unusable' && !isReported))
      return this.outage.pause(error);
    const [queue] = queues;
    const [entry] = batch;
    // The batch is split into smaller statements, until the faulty entry is alone.
    if (queues.length > 1) for (const each of queues) each.maxKeys = fewerKeys(queues.length);
    else if (queue && batch.length > 1) queue.maxEntries = batch.length >> 1;
    else if (failure === 'refused' || failure === 'unusable') {
      entry?.reject(refusal(this.kind.name, error));
      this.settled(queues, batch);
    } else if (queue) this.pause(queue, failure, error);
  }

  private pause(queue: KeyQueue<T, R>, failure: 'locked' | 'slow', error: unknown): void {
    const why = failure === 'slow' ? 'which takes the database too long' : 'which another session has locked';
    const what = `Writing ${this.kind.name} of "${queue.key}", ${why},`;
    queue.backoff ??= new Backoff(what, this.options.logger, maxPauseMs);
    queue.isPaused = true;
    // The key moves to the end, so that other keys are tried first.
    this.queues.delete(queue.key);
    this.queues.set(queue.key, queue);
    const resume = (): void => {
      queue.isPaused = false;
      this.wake?.();
    };
    setTimeout(resume, queue.backoff.nextPause(error)).unref();
  }
}

/**
 * Returns how many keys may share a statement after a statement with this many keys failed. The result is the square
 * root, and not half, because each failed attempt has waited for a lock.
 */
function fewerKeys(queues: number): number {
  return queues > 8 ? Math.floor(Math.sqrt(queues)) : 1;
}
