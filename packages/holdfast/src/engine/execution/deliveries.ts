import type { StepRecord } from '../../storage/contract/storage.js';
import { isSleepUnderWay } from './sleep-record.js';

/**
 * Delivers results to a workflow's code in completion order, one per macrotask. In a first run, results arrive as they
 * are committed. In a replay, results arrive in their recorded order, and live results only after all recorded results.
 *
 * This order is what makes a replay exact. Two branches of `Promise.all` or `race` continue in the order in which their
 * steps completed. If two results could arrive in one macrotask, or in another order, the branches could call their
 * next steps in another order. Each branch would then receive the result of the other branch.
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
  /**
   * The place (`completionSeq`) of the last delivered result; -1 before the first result, and after a result without a
   * place.
   */
  lastSeq = -1;

  constructor(
    private readonly macrotasks: Macrotasks,
    history: readonly StepRecord[],
    private readonly onHeldUp: () => void = () => {},
  ) {
    if (history.length === 0) {
      [this.recorded, this.replayed, this.nextSeq, this.nextLive] = [noSteps, noDeliveries, 0, 0];
      return;
    }
    this.replayed = new Map();
    const ended = history.filter((step) => !isSleepUnderWay(step)).sort(byCompletion);
    this.recorded = ended;
    this.nextSeq = ended.reduce((highest, step) => Math.max(highest, step.completionSeq ?? -1), -1) + 1;
    this.nextLive = this.nextSeq;
  }

  /**
   * Takes the next place in the completion order for a live result. The place is taken when the result is known, before
   * the result is written.
   */
  takeSeq(): number {
    return this.nextSeq++;
  }

  /** The code has asked for a recorded result. The result arrives after all recorded results before it. */
  replay(stepNumber: number, delivery: Delivery): void {
    this.replayed.set(stepNumber, delivery);
    this.request();
  }

  /** A live result is committed. The result arrives after all results before it. */
  commit(seq: number, delivery: Delivery): void {
    if (this.live === noDeliveries) this.live = new Map();
    this.live.set(seq, delivery);
    this.request();
  }

  /** No result will have this place, so later results do not wait for it. */
  skip(seq: number): void {
    this.commit(seq, skippedPlace);
  }

  /** True while recorded results of earlier executions are still to be delivered. */
  get replaying(): boolean {
    return this.cursor < this.recorded.length;
  }

  /** Known results that have not been delivered. */
  undelivered(): Delivery[] {
    return [...this.replayed.values(), ...this.live.values()];
  }

  /**
   * The recorded step whose result is next, if other results wait behind it and the code has not asked for it.
   * Undefined if no result waits.
   */
  get blockedBy(): number | undefined {
    if (this.stopped || !this.replaying || this.next() || this.replayed.size + this.live.size === 0) return undefined;
    return this.recorded[this.cursor]?.stepNumber;
  }

  /**
   * Gives a sleep that DBOS began its place among the results that DBOS recorded, if the sleep ended before some of
   * them. DBOS records only the wake time. A later result shows that the sleep ended, and that the code will ask for
   * that result. The place is given when the code asks for the sleep, not before: the timeout of a receive is recorded
   * in the same form, and the code never asks for it.
   */
  placeDbosSleep(sleep: StepRecord): boolean {
    const wakeAt = Number(sleep.output ?? sleep.completedAt);
    const isLater = (step: StepRecord, n: number): boolean =>
      n >= this.cursor && step.completionSeq === null && (step.completedAt ?? 0) >= wakeAt;
    const place = this.recorded.findIndex(isLater);
    if (place >= 0) this.recorded.splice(place, 0, sleep);
    return place >= 0;
  }

  stop(): void {
    this.stopped = true;
    // The shared empty map must not be changed.
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
      // A skipped place is not recorded, so a replay will not know it.
      if (delivery !== skippedPlace) this.lastSeq = this.nextLive;
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

// Shared empty collections for an execution without a history or without a result. They are never written to. They save
// memory, because most executions are first runs, and many executions only wait.
const noSteps: StepRecord[] = [];
const noDeliveries = new Map<number, Delivery>();
const skippedPlace: Delivery = { deliver: () => {}, cancelled: () => {} };

export interface Delivery {
  /** Hands the result to the code that waits for it. */
  deliver(): void;
  /** The workflow was cancelled before the result was delivered. */
  cancelled(error: Error): void;
}

/**
 * Compares two steps by completion order. Rows that DBOS wrote have no place in that order, so their completion time is
 * compared instead.
 */
export function byCompletion(a: StepRecord, b: StepRecord): number {
  if (a.completionSeq !== null && b.completionSeq !== null) return a.completionSeq - b.completionSeq;
  if (a.completionSeq !== null) return 1;
  if (b.completionSeq !== null) return -1;
  return (a.completedAt ?? 0) - (b.completedAt ?? 0) || a.stepNumber - b.stepNumber;
}

/**
 * Schedules the macrotasks that deliver results. Several workflows share a macrotask: they cannot observe each other's
 * order, and one macrotask per workflow would cost more than the rest of a step.
 */
export class Macrotasks {
  private due = new Set<Deliveries>();
  private scheduled = false;

  /** `beforeResolve` runs just before user code receives a result. It is a crash point for tests. */
  constructor(private readonly beforeResolve?: () => void) {}

  request(deliveries: Deliveries): void {
    this.due.add(deliveries);
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => this.run());
  }

  /** True if no result is about to be delivered. */
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
