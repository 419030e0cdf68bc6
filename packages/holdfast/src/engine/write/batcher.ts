import type { Logger } from '../../model/logger.js';
import type { Failure } from '../../storage/contract/failure-kind.js';
import { Backoff } from './backoff.js';
import { type BatchKind, type Entry, maxRows, maxWeight, refusal, writeBatch } from './batch-kind.js';
import { LockConflicts } from './lock-conflicts.js';

/** With fewer waiting rows than this, one statement takes all of them. */
const minShared = 40;

export interface BatcherOptions {
  readonly logger: Logger;
  classify(error: unknown): Failure;
}

/**
 * Group commit for one kind of write. Rows wait while a statement commits, and then leave together as the next
 * statement. There is no timer: no added latency at low load, and hundreds of rows per commit at high load.
 *
 * **Invariant:** the promise of an item settles only after its row is committed, or after it is certain that the row
 * never will be.
 *
 * **Invariant:** a row that the database refuses fails alone; the rest of its batch is written.
 *
 * **Invariant:** a row that another session has locked, or that takes the database long, waits alone
 * (lock-conflicts.ts). The rest of its batch is written.
 */
export class Batcher<T, R> {
  private waiting: Entry<T, R>[] = [];
  private activeLanes = 0;
  /** Number of active lanes that wait because `untilAllowed` forbids statements at the moment. */
  private pausedLanes = 0;
  private scheduled = false;
  /** True while the database refuses all writes of this kind. */
  private isRefused = false;
  private closed = false;
  private closedWith: Error | undefined;
  private readonly backoff: Backoff;
  private readonly idleWaiters: (() => void)[] = [];
  private readonly locked: LockConflicts<T, R>;
  private signalClosing = (): void => {};
  private readonly closing = new Promise<void>((resolve) => {
    this.signalClosing = resolve;
  });

  constructor(
    private readonly kind: BatchKind<T, R>,
    private readonly options: BatcherOptions,
  ) {
    this.backoff = new Backoff(`Writing ${kind.name}`, options.logger);
    this.locked = new LockConflicts(kind, { ...options, onEmpty: () => this.notifyIfIdle() });
  }

  submit(item: T): Promise<R> {
    return new Promise((resolve, reject) => {
      if (this.closedWith) return reject(this.closedWith);
      if (this.closed) return;
      this.waiting.push({ item, resolve, reject });
      this.schedule();
    });
  }

  /** Resolves when no item is waiting or being written, or statements are not allowed at the moment. */
  idle(): Promise<void> {
    if (this.isIdle) return Promise.resolve();
    return new Promise((resolve) => this.idleWaiters.push(resolve));
  }

  get isIdle(): boolean {
    const isPaused = this.pausedLanes > 0;
    return this.activeLanes === this.pausedLanes && (this.waiting.length === 0 || isPaused) && this.locked.isEmpty;
  }

  /**
   * Stops retrying. Items that the database has not confirmed reject with the error; without an error they never
   * settle.
   */
  close(error?: Error): void {
    this.closed = true;
    this.closedWith = error;
    this.signalClosing();
    this.locked.close(error);
    this.giveUp(this.waiting);
    this.waiting = [];
    this.notifyIfIdle();
  }

  private giveUp(entries: readonly Entry<T, R>[]): void {
    if (this.closedWith) for (const entry of entries) entry.reject(this.closedWith);
  }

  private schedule(): void {
    if (this.scheduled || this.activeLanes >= (this.kind.lanes ?? 1)) return;
    this.scheduled = true;
    // The batch is taken at the end of the event loop turn, so that all items submitted in one turn share one commit.
    setImmediate(() => {
      this.scheduled = false;
      void this.drain();
    });
  }

  private async drain(): Promise<void> {
    this.activeLanes++;
    while (this.waiting.length > 0 && !this.closed) {
      const batch = this.takeBatch();
      this.schedule(); // Another lane takes the remaining items.
      await this.send(batch);
    }
    this.activeLanes--;
    this.notifyIfIdle();
  }

  private notifyIfIdle(): void {
    if (this.isIdle) for (const resolve of this.idleWaiters.splice(0)) resolve();
  }

  /**
   * Returns the number of rows for the next statement. Many waiting rows are divided between the free lanes. If one
   * statement took all of them, the database would be idle while this process works, and this process while the
   * database works.
   */
  private share(): number {
    const free = (this.kind.lanes ?? 1) - this.activeLanes + 1;
    return this.waiting.length < minShared ? maxRows : Math.ceil(this.waiting.length / free);
  }

  private takeBatch(): Entry<T, R>[] {
    const max = Math.min(maxRows, this.share());
    let rows = 0;
    let weight = 0;
    for (const entry of this.waiting) {
      weight += this.kind.weigh(entry.item);
      if (rows === max || (rows > 0 && weight > maxWeight)) break;
      rows++;
    }
    if (rows < this.waiting.length) return this.waiting.splice(0, rows);
    const all = this.waiting;
    this.waiting = [];
    return all;
  }

  private async send(entries: readonly Entry<T, R>[]): Promise<void> {
    let batch = entries;
    while (!this.closed) {
      // The batch is checked before each attempt: an earlier part of the batch, or another lane, may have met a lock
      // since.
      batch = this.separateLong(this.locked.keepBehind(batch));
      if (batch.length === 0) return;
      const allowed = this.kind.untilAllowed?.();
      if (allowed !== undefined) {
        await this.pauseUntil(allowed);
        continue;
      }
      try {
        await writeBatch(this.kind, batch);
        this.backoff.reset();
        this.noteAccepted();
        return;
      } catch (error) {
        const failure = this.options.classify(error);
        if (failure === 'unusable') batch = this.handleUnusable(batch, error);
        // The database checks rights before locks and values, so after this failure the rights are sufficient.
        else if (failure !== 'lost' && failure !== 'retry') this.noteAccepted();
        if (batch.length === 0) return;
        if (failure === 'refused') return this.isolate(batch, error);
        if (failure !== 'locked' && failure !== 'slow') await this.backoff.pause(error);
        else if (!this.closed) return this.locked.add(batch);
      }
    }
    this.giveUp(batch);
  }

  /**
   * Moves items that take long, and other items with their keys, to `locked`. No item with one of these keys is being
   * written, because kinds with long items have one lane. Items with one key keep their order.
   */
  private separateLong(batch: readonly Entry<T, R>[]): readonly Entry<T, R>[] {
    const { kind } = this;
    const long = batch.filter((entry) => kind.takesLong?.(entry.item));
    if (long.length === 0) return batch;
    const keys = new Set(long.map((entry) => kind.key(entry.item)));
    const isSeparate = (entry: Entry<T, R>): boolean => keys.has(kind.key(entry.item));
    this.locked.add(batch.filter(isSeparate));
    return batch.filter((entry) => !isSeparate(entry));
  }

  private async pauseUntil(allowed: Promise<void>): Promise<void> {
    this.pausedLanes++;
    this.notifyIfIdle();
    await Promise.race([allowed, this.closing]);
    this.pausedLanes--;
  }

  private noteAccepted(): void {
    if (!this.isRefused) return;
    this.isRefused = false;
    this.kind.refused?.(null);
  }

  /**
   * Handles a missing right or table. Items of callers outside of workflows fail, including items that were submitted
   * after this batch. Otherwise these later items would wait behind the others. Returns the other items, which wait.
   */
  private handleUnusable(batch: readonly Entry<T, R>[], error: unknown): readonly Entry<T, R>[] {
    const [waiting, left] = [this.waiting, batch].map((entries) =>
      entries.filter((entry) => {
        const fails = this.kind.failsFast?.(entry.item) === true;
        if (fails) entry.reject(error);
        return !fails;
      }),
    ) as [Entry<T, R>[], Entry<T, R>[]];
    this.waiting = waiting;
    if (left.length > 0 && !this.isRefused) {
      this.isRefused = true;
      this.kind.refused?.(error as Error);
    }
    return left;
  }

  /** Halves a refused batch until the faulty row is alone. */
  private async isolate(batch: readonly Entry<T, R>[], cause: unknown): Promise<void> {
    if (batch.length > 1) {
      const middle = batch.length >> 1;
      await this.send(batch.slice(0, middle));
      return this.send(batch.slice(middle));
    }
    batch[0]?.reject(refusal(this.kind.name, cause));
  }
}
