import type { StepRecord } from '../../storage/contract/storage.js';

/**
 * Gives results to a workflow's code in completion order, one per macrotask: in the first run as they are committed,
 * in a replay as they are on record, and live ones only after all recorded ones.
 *
 * This order is what makes a replay exact. Two branches of `Promise.all` or `race` continue in the order in which
 * their steps completed; if two results could arrive in one macrotask, or in another order, the branches could call
 * their next steps in another order and would receive each other's results.
 *
 * **Invariant:** a result is delivered only after its row, and the rows of all results before it, are committed.
 */
export class Deliveries {
  private readonly recorded: StepRecord[];
  private cursor = 0;
  private readonly replayed: Map<number, Delivery>;
  private live: Map<number, Delivery> = noDeliveries;
  private nextSeq: number;
  private nextLive: number;
  private stopped = false;
  /** The place of the last result that the code was given; -1 before the first, and after those that have no place. */
  lastSeq = -1;

  constructor(
    private readonly macrotasks: Macrotasks,
    history: readonly StepRecord[],
    private readonly onHeldUp: () => void = () => {},
  ) {
    if (history.length === 0) {
      [this.recorded, this.replayed, this.nextSeq, this.nextLive] = [none, noDeliveries, 0, 0];
      return;
    }
    this.replayed = new Map();
    const ended = history.filter((step) => step.completionSeq !== null || !isBegunOnly(step)).sort(byCompletion);
    this.recorded = ended;
    this.nextSeq = ended.reduce((highest, step) => Math.max(highest, step.completionSeq ?? -1), -1) + 1;
    this.nextLive = this.nextSeq;
  }

  /** The place of a live result among all of this workflow's results. Taken when it is known, before it is written. */
  takeSeq(): number {
    return this.nextSeq++;
  }

  /** The result of a recorded step is wanted now; it arrives when its turn comes. */
  replay(stepNumber: number, delivery: Delivery): void {
    this.replayed.set(stepNumber, delivery);
    this.request();
  }

  /** A live result is committed; it arrives when those before it have. */
  commit(seq: number, delivery: Delivery): void {
    if (this.live === noDeliveries) this.live = new Map();
    this.live.set(seq, delivery);
    this.request();
  }

  /** A place that was taken in vain: those after it need not wait for it. */
  skip(seq: number): void {
    this.commit(seq, nothing);
  }

  /** Whether results of an earlier execution are still to come. */
  get replaying(): boolean {
    return this.cursor < this.recorded.length;
  }

  /** Results that are known but have not arrived yet. */
  undelivered(): Delivery[] {
    return [...this.replayed.values(), ...this.live.values()];
  }

  /** The recorded step whose result is next while others wait behind it, if the code has yet to ask for it. */
  get heldUpBy(): number | undefined {
    if (this.stopped || !this.replaying || this.next() || this.replayed.size + this.live.size === 0) return undefined;
    return this.recorded[this.cursor]?.stepNumber;
  }

  /**
   * Gives a sleep that DBOS began its place among what DBOS recorded, if it ended before some of that. DBOS notes the wake
   * time only, so a sleep ended if a result came after that time; and then the code goes on to ask for that result.
   * Not before the code asks for the sleep: the time limit of a receive has the same form, and nobody asks for it.
   */
  placeSleep(sleep: StepRecord): boolean {
    const wakeAt = Number(sleep.output ?? sleep.completedAt);
    const isLater = (step: StepRecord, n: number): boolean =>
      n >= this.cursor && step.completionSeq === null && (step.completedAt ?? 0) >= wakeAt;
    const place = this.recorded.findIndex(isLater);
    if (place >= 0) this.recorded.splice(place, 0, sleep);
    return place >= 0;
  }

  stop(): void {
    this.stopped = true;
    // Not the one that all share.
    if (this.replayed !== noDeliveries) this.replayed.clear();
    if (this.live !== noDeliveries) this.live.clear();
  }

  /** Called by {@link Macrotasks} once per macrotask. */
  deliverOne(): void {
    const delivery = this.next();
    if (!delivery) return;
    if (this.replaying) {
      const { stepNumber, completionSeq } = this.recorded[this.cursor++] as StepRecord;
      this.replayed.delete(stepNumber);
      this.lastSeq = completionSeq ?? -1;
    } else {
      // A place that was taken in vain is not on record, so that a replay will not know of it.
      if (delivery !== nothing) this.lastSeq = this.nextLive;
      this.live.delete(this.nextLive++);
    }
    delivery.deliver();
    this.request();
  }

  private next(): Delivery | undefined {
    if (this.stopped) return undefined;
    const recorded = this.recorded[this.cursor];
    return recorded ? this.replayed.get(recorded.stepNumber) : this.live.get(this.nextLive);
  }

  private request(): void {
    if (this.next()) this.macrotasks.request(this);
    else if (this.replaying) this.onHeldUp();
  }
}

// What a first run has, and one without a result so far: shared and never written to, because most executions are
// first runs, and many only wait.
const none: StepRecord[] = [];
const noDeliveries = new Map<number, Delivery>();
const nothing: Delivery = { deliver: () => {}, cancelled: () => {} };

export interface Delivery {
  /** Hands the result to the code that waits for it. */
  deliver(): void;
  /** The workflow was cancelled before the result's turn came. */
  cancelled(error: Error): void;
}

/** A sleep writes its wake time when it begins and gets its place in the order when it ends. */
export const sleepName = 'DBOS.sleep';

function isBegunOnly(step: StepRecord): boolean {
  return step.name === sleepName;
}

/** Rows that DBOS wrote have no completion order; their time of completion is the best there is. */
export function byCompletion(a: StepRecord, b: StepRecord): number {
  if (a.completionSeq !== null && b.completionSeq !== null) return a.completionSeq - b.completionSeq;
  if (a.completionSeq !== null) return 1;
  if (b.completionSeq !== null) return -1;
  return (a.completedAt ?? 0) - (b.completedAt ?? 0) || a.stepNumber - b.stepNumber;
}

/**
 * The macrotasks in which results are delivered. Different workflows share one: they cannot see each other's order,
 * and a macrotask each would cost more than the rest of a step.
 */
export class Macrotasks {
  private due = new Set<Deliveries>();
  private scheduled = false;

  /** `beforeResolve` is the last moment before user code learns of a result: a crash point. */
  constructor(private readonly beforeResolve?: () => void) {}

  request(deliveries: Deliveries): void {
    this.due.add(deliveries);
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => this.run());
  }

  /** Whether no result is on its way to user code. */
  get idle(): boolean {
    return !this.scheduled;
  }

  private run(): void {
    const due = this.due;
    this.due = new Set();
    this.scheduled = false;
    for (const deliveries of due) {
      this.beforeResolve?.();
      deliveries.deliverOne();
    }
  }
}
