import type { Clock, Timer } from '../../model/clock.js';
import { runOutsideScope } from '../execution/scope-storage.js';

/** Default limit of a process: with this many busy executions of its queues, it takes no more work. */
export const defaultMaxRunning = 1_000;

/**
 * How many workflows are taken beyond the limit if no capacity has become free for some time. The busy executions may
 * wait for work that is still on a queue. The time doubles each time that the extra work frees no capacity.
 */
const overflow = { max: 50, firstMs: 1_000, longestMs: 60_000 };

/** How often waiters check the capacity. No notification announces that an execution has begun to wait. */
const pollMs = 100;

/** Below this limit, each free slot is filled at once. Otherwise a claim waits until half of the limit is free. */
const minPagedLimit = 200;
/** Minimum size of a first page, even if many processes share the work. */
const minFirstPage = 10;

/** An execution that is counted. Suspended workflows are not counted. */
export interface Occupant {
  idleUntil(): number | undefined;
}

/** Called when there may be capacity. `haveEnded` is true if executions have ended since the waiter was added. */
export type CapacityWaiter = (haveEnded: boolean) => void;

/**
 * Limits how much work a process takes from all its queues together. If the process dies, its work loses time and one
 * attempt. Until then no other process can take this work.
 *
 * An execution that only waits needs no capacity, because otherwise parents would block the children that they wait
 * for. An execution may also wait for queued work in the middle of a step, where the engine does not notice the wait.
 * Therefore a process takes some extra work when no capacity has become free for a while, so that all queued work
 * starts in the end.
 */
export class ProcessCapacity {
  private readonly occupants = new Set<Occupant>();
  /**
   * Executions whose code has ended and whose outcomes are being written. Their number is limited, so that a slow
   * database stops claims.
   */
  private readonly settling = new Set<Occupant>();
  /** Number of workflows that open claims may return. */
  private reserved = 0;
  private overflowCount = 0;
  private overflowDelayMs = overflow.firstMs;
  private fullSince: number | undefined;
  private endedCount = 0;
  /**
   * The waiters in the order of their calls. `endedBefore` is the number of ended executions at the call, `wakeCount`
   * the number that the waiter waits for.
   */
  private readonly waiters = new Map<CapacityWaiter, { readonly endedBefore: number; readonly wakeCount: number }>();
  private minWakeCount = Number.POSITIVE_INFINITY;
  private scheduled = false;
  /** Waiters are woken even if this many ends are missing. */
  private tolerance = 0;
  private timer: Timer | undefined;

  constructor(
    private readonly clock: Pick<Clock, 'now' | 'at'>,
    /** Maximum number of busy executions. */
    readonly limit: number = defaultMaxRunning,
  ) {}

  enter(occupant: Occupant): void {
    this.occupants.add(occupant);
  }

  /** Stops counting an execution that was suspended. This does not count as an end. */
  suspend(occupant: Occupant): void {
    this.occupants.delete(occupant);
  }

  /** Notes that the code of an execution has ended. Its capacity is free while its outcome is being written. */
  settle(occupant: Occupant): void {
    if (this.settling.size >= this.limit || !this.occupants.has(occupant)) return;
    this.settling.add(occupant);
    this.remove(occupant);
  }

  leave(occupant: Occupant): void {
    if (!this.settling.delete(occupant)) this.remove(occupant);
  }

  private remove(occupant: Occupant): void {
    if (!this.occupants.delete(occupant)) return;
    this.endedCount++;
    if (this.endedCount >= this.minWakeCount) this.wakeSoon();
  }

  /** Returns how many more executions may start. */
  free(): number {
    if (this.limit === Number.POSITIVE_INFINITY) return this.limit;
    const used = this.busy() + this.reserved;
    if (used < this.limit) [this.overflowCount, this.overflowDelayMs] = [0, overflow.firstMs];
    const now = this.clock.now();
    const free = this.limit + this.overflowCount - used;
    if (free > 0) {
      this.fullSince = undefined;
      return free;
    }
    this.fullSince ??= now;
    if (now - this.fullSince < this.overflowDelayMs) return 0;
    this.fullSince = undefined;
    this.overflowDelayMs = Math.min(overflow.longestMs, 2 * this.overflowDelayMs);
    this.overflowCount = used - this.limit + overflow.max;
    return overflow.max;
  }

  /** Reserves capacity for a claim. Returns a function that releases the reservation. */
  reserve(count: number): () => void {
    this.reserved += count;
    return () => {
      this.reserved -= count;
      // The claim may have returned less work. No execution has ended, but other waiters found no capacity meanwhile.
      if (this.endedCount + 1 >= this.minWakeCount) this.wakeSoon(1);
    };
  }

  /** Returns the size of the first page, so that a short backlog is divided between this process and its peers. */
  firstPage(max: number, peers: number): number {
    return Math.max(minFirstPage, Math.ceil(max / (1 + peers)));
  }

  /**
   * Returns how many executions must end before the next claim after a full page. This gives larger pages, and leaves
   * work for other processes.
   */
  endsBeforeNext(page: number, peers: number): number {
    const min = this.limit < minPagedLimit ? 1 : Math.min(page, Math.ceil(this.limit / 2));
    return Math.max(min - this.free(), peers > 0 ? this.busy() - (page >> 1) : 0);
  }

  /**
   * Calls the waiter after this many ends, or when a poll finds capacity. If the waiter is already waiting, its count
   * of ends starts again.
   */
  waitForCapacity(waiter: CapacityWaiter, ends: number): void {
    this.stopWaiting(waiter);
    const wakeCount = this.endedCount + Math.max(1, ends);
    this.waiters.set(waiter, { endedBefore: this.endedCount, wakeCount });
    this.minWakeCount = Math.min(this.minWakeCount, wakeCount);
    this.pollSoon();
  }

  stopWaiting(waiter: CapacityWaiter): void {
    this.waiters.delete(waiter);
    if (this.waiters.size === 0) this.timer?.cancel();
    if (this.waiters.size === 0) this.timer = undefined;
  }

  private busy(): number {
    let busy = 0;
    for (const occupant of this.occupants) if (occupant.idleUntil() === undefined) busy++;
    return busy;
  }

  private pollSoon(): void {
    if (this.timer || this.waiters.size === 0) return;
    const poll = (): void => {
      this.timer = undefined;
      this.wake(() => true);
      this.pollSoon();
    };
    this.timer = runOutsideScope(() => this.clock.at(this.clock.now() + pollMs, poll, 'background'));
  }

  /**
   * Wakes waiters at the end of the event loop turn, so that all executions that end with one commit count together.
   */
  private wakeSoon(tolerance = 0): void {
    this.tolerance = Math.max(this.tolerance, tolerance);
    if (this.scheduled) return;
    this.scheduled = true;
    runOutsideScope(() =>
      setImmediate(() => {
        const until = this.endedCount + this.tolerance;
        [this.scheduled, this.tolerance] = [false, 0];
        this.wake((wakeCount) => wakeCount <= until);
      }),
    );
  }

  /** Wakes waiters in order, but not more than there is capacity for. The other waiters keep their places. */
  private wake(isDue: (wakeCount: number) => boolean): void {
    let free = this.waiters.size > 0 ? this.free() : 0;
    this.minWakeCount = Number.POSITIVE_INFINITY;
    for (const [waiter, { endedBefore, wakeCount }] of this.waiters) {
      if (free <= 0 || !isDue(wakeCount)) {
        this.minWakeCount = Math.min(this.minWakeCount, wakeCount);
        continue;
      }
      free--;
      this.stopWaiting(waiter);
      waiter(this.endedCount > endedBefore);
    }
  }
}
