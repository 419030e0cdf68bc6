import type { Logger } from '../../model/logger.js';
import type { Failure } from '../../storage/database.js';
import { Backoff } from './backoff.js';
import { type BatchKind, type Entry, maxRows, maxWeight, refusal, writeBatch } from './batch-kind.js';

export interface LockConflictOptions {
  readonly logger: Logger;
  classify(error: unknown): Failure;
  /** Called when nothing is left here. */
  onEmpty(): void;
}

/** What waits of one key, in order. */
interface KeyQueue<T, R> {
  readonly key: string;
  readonly entries: Entry<T, R>[];
  /** How many lines may share a statement with it: fewer each time that one of them holds the statement up. */
  within: number;
  /** How many of its entries may share a statement. */
  most: number;
  /** After a lock was still there. */
  rests: boolean;
  /** Since the last attempt that failed for this line alone. */
  backoff?: Backoff;
}

/** Short: nobody tells when a lock is let go of. */
const longestPauseMs = 1_000;

/**
 * What could not be written because someone holds a lock, apart from the batches of everything else: a session that was
 * left in the middle of a transaction holds up the one workflow whose row it has locked, and no other. In the same way, rows
 * that take the database long are written here, so that only their own workflows wait for them.
 *
 * A batch that ran into a lock, or was cancelled because it took too long, comes here as a whole, since nobody says which
 * of its rows it was. Its statements from then
 * on wait for locks a moment only, one at a time: first some for many keys each, which lets go of nearly all of them, then
 * each key that is held up by itself, in turn, with growing pauses.
 *
 * **Invariant:** as long as something of a key is here, only from here is anything of that key written, in order.
 */
export class LockConflicts<T, R> {
  private readonly lines = new Map<string, KeyQueue<T, R>>();
  private readonly outage: Backoff;
  private underWay: readonly Entry<T, R>[] = [];
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
    return this.lines.size === 0 && this.underWay.length === 0;
  }

  /** Takes a batch that was held up. */
  add(batch: readonly Entry<T, R>[]): void {
    const fresh: KeyQueue<T, R>[] = [];
    for (const entry of batch) {
      const key = this.kind.key(entry.item);
      const line = this.lines.get(key) ?? this.newLine(key);
      if (line.entries.push(entry) === 1) fresh.push(line);
    }
    for (const line of fresh) line.within = fewer(fresh.length);
    this.wake?.();
    if (!this.working) void this.work();
  }

  /** Keeps those that would overtake one that is here, and returns the others. */
  keepBehind(entries: readonly Entry<T, R>[]): readonly Entry<T, R>[] {
    if (this.lines.size === 0) return entries;
    return entries.filter((entry) => {
      const line = this.lines.get(this.kind.key(entry.item));
      line?.entries.push(entry);
      return line === undefined;
    });
  }

  /** For good: what is not written fails with this error, or without one never settles. */
  close(error?: Error): void {
    this.closed = true;
    this.closedWith = error;
    const underWay = new Set(this.underWay);
    for (const line of this.lines.values()) this.giveUp(line.entries.filter((entry) => !underWay.has(entry)));
    this.lines.clear();
    this.wake?.();
  }

  private giveUp(entries: readonly Entry<T, R>[]): void {
    if (this.closedWith) for (const entry of entries) entry.reject(this.closedWith);
  }

  private newLine(key: string): KeyQueue<T, R> {
    const line: KeyQueue<T, R> = { key, entries: [], within: 1, most: maxRows, rests: false };
    this.lines.set(key, line);
    return line;
  }

  private async work(): Promise<void> {
    this.working = true;
    while (this.lines.size > 0) {
      const lines = this.next();
      if (lines.length > 0) await this.attempt(lines);
      else await new Promise<void>((resolve) => (this.wake = resolve));
    }
    this.working = false;
    this.options.onEmpty();
  }

  /** Those first that may go with the most others: they are the least likely to be held up themselves. */
  private next(): KeyQueue<T, R>[] {
    const ready = [...this.lines.values()].filter((line) => !line.rests);
    const within = ready.reduce((most, line) => Math.max(most, line.within), 0);
    return ready.filter((line) => line.within === within).slice(0, within);
  }

  private async attempt(lines: readonly KeyQueue<T, R>[]): Promise<void> {
    await this.kind.untilAllowed?.();
    if (this.closed) return;
    const batch = this.headsOf(lines);
    this.underWay = batch;
    try {
      await writeBatch(this.kind, batch, true);
      this.underWay = [];
      this.outage.reset();
      this.settled(lines, batch);
    } catch (error) {
      this.underWay = [];
      if (this.closed) this.giveUp(batch);
      else await this.failed(lines, batch, error);
    }
  }

  private headsOf(lines: readonly KeyQueue<T, R>[]): Entry<T, R>[] {
    const batch: Entry<T, R>[] = [];
    let weight = 0;
    for (const entry of lines.flatMap((line) => line.entries.slice(0, line.most))) {
      weight += this.kind.weigh(entry.item);
      if (batch.length === maxRows || (batch.length > 0 && weight > maxWeight)) break;
      batch.push(entry);
    }
    return batch;
  }

  private settled(lines: readonly KeyQueue<T, R>[], batch: readonly Entry<T, R>[]): void {
    const settled = new Set(batch);
    for (const line of lines) {
      const left = line.entries.findIndex((entry) => !settled.has(entry));
      line.entries.splice(0, left === -1 ? line.entries.length : left);
      line.most = Math.min(maxRows, line.most * 2);
      delete line.backoff;
      if (line.entries.length === 0) this.lines.delete(line.key);
    }
  }

  private async failed(lines: readonly KeyQueue<T, R>[], batch: readonly Entry<T, R>[], error: unknown): Promise<void> {
    const failure = this.options.classify(error);
    const isTold = failure === 'unusable' && batch.every(({ item }) => this.kind.failsFast?.(item));
    if (failure === 'lost' || failure === 'retry' || (failure === 'unusable' && !isTold))
      return this.outage.pause(error);
    const [line] = lines;
    const [entry] = batch;
    // Taken apart, until what is at fault stands alone.
    if (lines.length > 1) for (const each of lines) each.within = fewer(lines.length);
    else if (line && batch.length > 1) line.most = batch.length >> 1;
    else if (failure === 'refused' || failure === 'unusable') {
      entry?.reject(refusal(this.kind.name, error));
      this.settled(lines, batch);
    } else if (line) this.rest(line, failure, error);
  }

  private rest(line: KeyQueue<T, R>, failure: 'locked' | 'slow', error: unknown): void {
    const why = failure === 'slow' ? 'which takes the database too long' : 'which another session has locked';
    const what = `Writing ${this.kind.name} of "${line.key}", ${why},`;
    line.backoff ??= new Backoff(what, this.options.logger, longestPauseMs);
    line.rests = true;
    // The others have their turn before it.
    this.lines.delete(line.key);
    this.lines.set(line.key, line);
    const goOn = (): void => {
      line.rests = false;
      this.wake?.();
    };
    setTimeout(goOn, line.backoff.nextPause(error)).unref();
  }
}

/** In how many lines to go on of so many. Not by halves: each attempt that fails has waited for a lock. */
function fewer(lines: number): number {
  return lines > 8 ? Math.floor(Math.sqrt(lines)) : 1;
}
