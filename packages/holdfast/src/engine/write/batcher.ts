import type { Logger } from '../../model/logger.js';
import type { Failure } from '../../storage/database.js';
import { Backoff } from './backoff.js';
import { type BatchKind, type Entry, maxRows, maxWeight, refusal, writeBatch } from './batch-kind.js';
import { LockConflicts } from './lock-conflicts.js';

const worthSharing = 40;

export interface BatcherOptions {
  readonly logger: Logger;
  classify(error: unknown): Failure;
}

/**
 * Group commit for one kind of write. Whatever is waiting goes out as one statement while the previous one commits:
 * no timer, no added latency at low load, hundreds of rows per commit at high load.
 *
 * **Invariant:** an item's promise settles only after its own row is committed (or certainly never will be).
 * **Invariant:** a row that the database refuses fails alone, never its batch.
 * **Invariant:** a row that another session has locked, or that takes the database long, waits alone, never its batch (lock-conflicts.ts).
 */
export class Batcher<T, R> {
  private waiting: Entry<T, R>[] = [];
  private sending = 0;
  /** How many of those that are sending may not, at the moment. */
  private held = 0;
  private scheduled = false;
  /** Whether the database refuses to write anything of this kind. */
  private isRefused = false;
  private closed = false;
  private closedWith: Error | undefined;
  private readonly backoff: Backoff;
  private readonly idleWaiters: (() => void)[] = [];
  private readonly locked: LockConflicts<T, R>;
  private end = (): void => {};
  private readonly ended = new Promise<void>((resolve) => {
    this.end = resolve;
  });

  constructor(
    private readonly kind: BatchKind<T, R>,
    private readonly options: BatcherOptions,
  ) {
    this.backoff = new Backoff(`Writing ${kind.name}`, options.logger);
    this.locked = new LockConflicts(kind, { ...options, onEmpty: () => this.tellIfIdle() });
  }

  submit(item: T): Promise<R> {
    return new Promise((resolve, reject) => {
      if (this.closedWith) return reject(this.closedWith);
      if (this.closed) return;
      this.waiting.push({ item, resolve, reject });
      this.schedule();
    });
  }

  /** Resolves when nothing is waiting or under way, or what is may not be written at the moment. */
  idle(): Promise<void> {
    if (this.isIdle) return Promise.resolve();
    return new Promise((resolve) => this.idleWaiters.push(resolve));
  }

  get isIdle(): boolean {
    return this.sending === this.held && (this.waiting.length === 0 || this.held > 0) && this.locked.isEmpty;
  }

  /** Gives up retrying: what the database has not confirmed fails with this error, or without one never settles. */
  close(error?: Error): void {
    this.closed = true;
    this.closedWith = error;
    this.end();
    this.locked.close(error);
    this.giveUp(this.waiting);
    this.waiting = [];
    this.tellIfIdle();
  }

  private giveUp(entries: readonly Entry<T, R>[]): void {
    if (this.closedWith) for (const entry of entries) entry.reject(this.closedWith);
  }

  private schedule(): void {
    if (this.scheduled || this.sending >= (this.kind.lanes ?? 1)) return;
    this.scheduled = true;
    // At the end of this turn of the event loop, so that everything submitted in it shares one commit.
    setImmediate(() => {
      this.scheduled = false;
      void this.drain();
    });
  }

  private async drain(): Promise<void> {
    this.sending++;
    while (this.waiting.length > 0 && !this.closed) {
      const batch = this.takeBatch();
      this.schedule(); // What is left, if anything, is for another lane.
      await this.send(batch);
    }
    this.sending--;
    this.tellIfIdle();
  }

  private tellIfIdle(): void {
    if (this.isIdle) for (const resolve of this.idleWaiters.splice(0)) resolve();
  }

  /**
   * Much waiting is shared out between the free lanes. In one statement for all, everybody would move in step: the
   * database would stand still while this process works, and this process while the database does.
   */
  private share(): number {
    const free = (this.kind.lanes ?? 1) - this.sending + 1;
    return this.waiting.length < worthSharing ? maxRows : Math.ceil(this.waiting.length / free);
  }

  private takeBatch(): Entry<T, R>[] {
    const most = Math.min(maxRows, this.share());
    let rows = 0;
    let weight = 0;
    for (const entry of this.waiting) {
      weight += this.kind.weigh(entry.item);
      if (rows === most || (rows > 0 && weight > maxWeight)) break;
      rows++;
    }
    if (rows < this.waiting.length) return this.waiting.splice(0, rows);
    const all = this.waiting;
    this.waiting = [];
    return all;
  }

  private async send(given: readonly Entry<T, R>[]): Promise<void> {
    let batch = given;
    while (!this.closed) {
      // Each time: an earlier part of the batch, or another lane, may have been held up since.
      batch = this.setLongApart(this.locked.keepBehind(batch));
      if (batch.length === 0) return;
      const hold = this.kind.untilAllowed?.();
      if (hold !== undefined) {
        await this.holdBack(hold);
        continue;
      }
      try {
        await writeBatch(this.kind, batch);
        this.backoff.reset();
        this.permit();
        return;
      } catch (error) {
        const failure = this.options.classify(error);
        if (failure === 'unusable') batch = this.refuse(batch, error);
        // A lock, or a value, is looked at only after the rights.
        else if (failure !== 'lost' && failure !== 'retry') this.permit();
        if (batch.length === 0) return;
        if (failure === 'refused') return this.isolate(batch, error);
        if (failure !== 'locked' && failure !== 'slow') await this.backoff.pause(error);
        else if (!this.closed) return this.locked.add(batch);
      }
    }
    this.giveUp(batch);
  }

  /** Nothing of their keys is under way, because this is the only lane. What is of the same keys keeps its order. */
  private setLongApart(batch: readonly Entry<T, R>[]): readonly Entry<T, R>[] {
    const { kind } = this;
    const long = batch.filter((entry) => kind.takesLong?.(entry.item));
    if (long.length === 0) return batch;
    const keys = new Set(long.map((entry) => kind.key(entry.item)));
    const isApart = (entry: Entry<T, R>): boolean => keys.has(kind.key(entry.item));
    this.locked.add(batch.filter(isApart));
    return batch.filter((entry) => !isApart(entry));
  }

  private async holdBack(hold: Promise<void>): Promise<void> {
    this.held++;
    this.tellIfIdle();
    await Promise.race([hold, this.ended]);
    this.held--;
  }

  private permit(): void {
    if (!this.isRefused) return;
    this.isRefused = false;
    this.kind.refused?.(null);
  }

  /**
   * The role lacks a right, or a table is missing. Callers outside of workflows are told, also those who came since: they
   * would otherwise wait behind the others. Returns the others, which wait.
   */
  private refuse(batch: readonly Entry<T, R>[], error: unknown): readonly Entry<T, R>[] {
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

  /** Halves a refused batch until the row at fault stands alone. */
  private async isolate(batch: readonly Entry<T, R>[], cause: unknown): Promise<void> {
    if (batch.length > 1) {
      const middle = batch.length >> 1;
      await this.send(batch.slice(0, middle));
      return this.send(batch.slice(middle));
    }
    batch[0]?.reject(refusal(this.kind.name, cause));
  }
}
