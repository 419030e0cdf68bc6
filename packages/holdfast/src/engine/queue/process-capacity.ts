import type { Clock, Timer } from '../../model/clock.js';
import { outside } from '../execution/scope-storage.js';

/** With more busy executions of its queues than this, a process takes no more, unless it is launched with another number. */
export const defaultMaxRunning = 1_000;

/**
 * What is taken although there is no room, when for so long none has come free: what keeps the process busy may wait for
 * work that is still on a queue. For twice as long each time that this changes nothing.
 */
const exception = { most: 50, firstMs: 1_000, longestMs: 60_000 };

/** How soon it is looked again whether there is room: that an execution waits now is nobody's news. */
const lookMs = 100;

/** Under a lower limit than this, each slot that comes free is filled by itself. Otherwise pages are of half of it. */
const worthPages = 200;
/** Of a first page, however many share it. */
const minShare = 10;

/** What is counted: an execution, and not what is left of one at rest. */
export interface Occupant {
  idleUntil(): number | undefined;
}

/** Called when room may have come; with true if executions have ended since the seeker came. */
export type CapacityWaiter = (haveEnded: boolean) => void;

/**
 * How much more of all its queues together a process takes into its hands. What it has is lost time, and an attempt, when it
 * dies, and nobody else can take it meanwhile.
 *
 * An execution that only waits takes no room: parents would keep out the children that they wait for. It may also wait in
 * the middle of a step, where nobody sees it, for work that is on a queue. Therefore a little more is taken when nothing has
 * come free for a while, and all that is queued begins in the end.
 */
export class ProcessCapacity {
  /** Set at launch. */
  limit = defaultMaxRunning;
  private readonly occupants = new Set<Occupant>();
  /** Their code has ended, and their outcomes are being written. As many as may run, so that a slow database stops it all. */
  private readonly settling = new Set<Occupant>();
  /** Of claims that are under way. */
  private reserved = 0;
  private excess = 0;
  private patienceMs = exception.firstMs;
  private fullSince: number | undefined;
  private ended = 0;
  /** In the order of their coming, with the number of ends when each came and the number that each waits for. */
  private readonly waiters = new Map<CapacityWaiter, { readonly since: number; readonly at: number }>();
  private soonest = Number.POSITIVE_INFINITY;
  private scheduled = false;
  /** With so many ends fewer than they wait for, seekers are woken all the same. */
  private leniency = 0;
  private timer: Timer | undefined;

  constructor(private readonly clock: Pick<Clock, 'now' | 'at'>) {}

  enter(occupant: Occupant): void {
    this.occupants.add(occupant);
  }

  /** Not in memory any more, but not over either. */
  rest(occupant: Occupant): void {
    this.occupants.delete(occupant);
  }

  /** Its code has ended. What comes next may be claimed while its outcome is being written. */
  settle(occupant: Occupant): void {
    if (this.settling.size >= this.limit || !this.occupants.has(occupant)) return;
    this.settling.add(occupant);
    this.vacate(occupant);
  }

  leave(occupant: Occupant): void {
    if (!this.settling.delete(occupant)) this.vacate(occupant);
  }

  private vacate(occupant: Occupant): void {
    if (!this.occupants.delete(occupant)) return;
    this.ended++;
    if (this.ended >= this.soonest) this.wakeSoon();
  }

  /** How many more may begin. */
  free(): number {
    if (this.limit === Number.POSITIVE_INFINITY) return this.limit;
    const taken = this.busy() + this.reserved;
    if (taken < this.limit) [this.excess, this.patienceMs] = [0, exception.firstMs];
    const now = this.clock.now();
    const free = this.limit + this.excess - taken;
    if (free > 0) {
      this.fullSince = undefined;
      return free;
    }
    this.fullSince ??= now;
    if (now - this.fullSince < this.patienceMs) return 0;
    this.fullSince = undefined;
    this.patienceMs = Math.min(exception.longestMs, 2 * this.patienceMs);
    this.excess = taken - this.limit + exception.most;
    return exception.most;
  }

  /** Keeps so much for a claim that is about to be made, until the function that it returns is called. */
  reserve(count: number): () => void {
    this.reserved += count;
    return () => {
      this.reserved -= count;
      // Less may have been there to claim. Nothing has ended, but who would have taken it found no room meanwhile.
      if (this.ended + 1 >= this.soonest) this.wakeSoon(1);
    };
  }

  /** How much to take at first: a short backlog is for all who share it. */
  firstPage(most: number, peers: number): number {
    return Math.max(minShare, Math.ceil(most / (1 + peers)));
  }

  /** After a full page: how many executions are to end before the next, for the sake of larger pages and of the others. */
  endsBeforeNext(page: number, peers: number): number {
    const least = this.limit < worthPages ? 1 : Math.min(page, Math.ceil(this.limit / 2));
    return Math.max(least - this.free(), peers > 0 ? this.busy() - (page >> 1) : 0);
  }

  /** When so many executions have ended, or when there is room in a moment. Who waits already waits anew. */
  waitForCapacity(seeker: CapacityWaiter, ends: number): void {
    this.stopWaiting(seeker);
    const at = this.ended + Math.max(1, ends);
    this.waiters.set(seeker, { since: this.ended, at });
    this.soonest = Math.min(this.soonest, at);
    this.lookSoon();
  }

  stopWaiting(seeker: CapacityWaiter): void {
    this.waiters.delete(seeker);
    if (this.waiters.size === 0) this.timer?.cancel();
    if (this.waiters.size === 0) this.timer = undefined;
  }

  private busy(): number {
    let busy = 0;
    for (const occupant of this.occupants) if (occupant.idleUntil() === undefined) busy++;
    return busy;
  }

  private lookSoon(): void {
    if (this.timer || this.waiters.size === 0) return;
    const look = (): void => {
      this.timer = undefined;
      this.wake(() => true);
      this.lookSoon();
    };
    this.timer = outside(() => this.clock.at(this.clock.now() + lookMs, look, 'background'));
  }

  /** At the end of this turn of the event loop: what ends with one commit makes room together. */
  private wakeSoon(leniency = 0): void {
    this.leniency = Math.max(this.leniency, leniency);
    if (this.scheduled) return;
    this.scheduled = true;
    outside(() =>
      setImmediate(() => {
        const until = this.ended + this.leniency;
        [this.scheduled, this.leniency] = [false, 0];
        this.wake((at) => at <= until);
      }),
    );
  }

  /** No more of them than there is room for; the others keep their places. */
  private wake(isDue: (at: number) => boolean): void {
    let free = this.waiters.size > 0 ? this.free() : 0;
    this.soonest = Number.POSITIVE_INFINITY;
    for (const [seeker, { since, at }] of this.waiters) {
      if (free <= 0 || !isDue(at)) {
        this.soonest = Math.min(this.soonest, at);
        continue;
      }
      free--;
      this.stopWaiting(seeker);
      seeker(this.ended > since);
    }
  }
}
