import type { Engine } from '../engine/engine.js';
import { newToken, type WorkAnswer, type WorkCall } from '../engine/wait/work-signals.js';
import type { Timer } from '../model/clock.js';
import type { Fleet } from './fleet.js';
import { delayOfPlace, rankAmong } from './places.js';

/**
 * Decides which processes check a queue after work was announced on it: few processes, and not always the same ones.
 *
 * A call carries a random token. Each process orders the living executors of its application and version that work on
 * the queue. The order is that of a hash of token and incarnation, so each process finds its own place. The first
 * `wanted` places check the queue at once. The other places check it later, in groups that double in size, and only if
 * no process has answered the call by then. A dead, stopped or busy first place costs some tens of milliseconds.
 * A process without capacity passes the call on: it repeats the call for twice as many places.
 *
 * A process checks first for the work that it announces itself. It calls the others only for work that is left over.
 *
 * Only speed depends on calls. Processes may disagree about which executors are alive, and calls and answers may be
 * lost: the poll of the dispatcher finds the work that waits.
 */

/** The result of one check of a queue. */
export interface CheckResult {
  /** How many workflows the check claimed. */
  readonly taken: number;
  /**
   * The state in which the check left the queue:
   * - `nothing`: no work waits on the queue.
   * - `barred`: work waits, and no process may take it now because of a fleet-wide limit or a pause. Another
   *   notification follows when that changes.
   * - `full`: this process has no capacity for more.
   * - `unfit`: no work that this process can take. Other processes may have taken the remaining work, or may still.
   * - `failed`: unknown.
   */
  readonly left: 'nothing' | 'barred' | 'full' | 'unfit' | 'failed';
}

/** A call and its state in this process. */
interface Entry extends Pick<WorkCall, 'queueName' | 'token'> {
  wanted: number;
  /** How many processes come before this one; negative if this process made the call. */
  readonly place: number;
  /** How many workflows no answer reports as taken; or how many slots became free in this process. */
  open: number;
  readonly about: 'work' | 'slots';
  /** True once other processes were notified of the call. */
  isAnnounced: boolean;
  state: 'waiting' | 'due' | 'checking' | 'finished';
  /** True after one check that found no work for this process. */
  wasUnfit: boolean;
  timer: Timer | undefined;
}

/** Delay before a process that found no work checks again. By then the process that took the work has answered. */
const secondCheckMs = { least: 12, jitter: 10 };
/** How long the first check of a process may take before the process calls the others for its own work. */
const firstCheckMs = 20;
/**
 * How long a process passes on no call after it passed on a call that no process has answered. No answer means that
 * the other processes have no capacity either.
 */
const passOnPauseMs = 1_000;
/** How many calls of one queue are remembered, so that a repeated call is not treated as new. */
const maxCalls = 500;
/** How many finished calls of all queues together are remembered: there may be ten thousand queues. */
const maxFinished = 2_000;

/** `careful`: the work is probably gone, so a cheap probe comes before a claim. `refill`: slots became free here. */
export type Urgency = 'at once' | 'careful' | 'refill';

/** The parts of a dispatcher that calls use. */
export interface QueueChecks {
  /** Starts a check of the queue by its worker. */
  look(queueName: string, how: Urgency): void;
  /** Resolves with true if any work waits on the queue, for whichever process. */
  waits(queueName: string): Promise<boolean>;
}

export class WorkCalls {
  private readonly queues = new Map<string, Map<number, Entry>>();
  /** The calls that the next check of each queue answers. */
  private readonly dueOn = new Map<string, Entry[]>();
  private readonly passedOnAt = new Map<string, number>();
  /** Calls that this process made during this event loop turn: work that is committed together makes one call. */
  private newOwnCalls: Entry[] = [];
  /** Oldest first. */
  private readonly finishedCalls = new Set<Entry>();
  private readonly group: string;
  private stopped = false;

  constructor(
    private readonly engine: Engine,
    private readonly fleet: Fleet,
    private readonly checks: QueueChecks,
  ) {
    this.group = `${engine.writer.appName}\n${engine.version}`;
  }

  /** How many calls are remembered, finished or not. */
  get size(): number {
    return [...this.queues.values()].reduce((sum, ofQueue) => sum + ofQueue.size, 0);
  }

  /** Makes a call for work that came up in this process. This process can take the work, so it checks first. */
  own(queueName: string, count: number): void {
    // Only a call that is still due can be extended: a check under way may have been sent before this work was
    // committed.
    const known = this.newOwnCalls.find((entry) => entry.queueName === queueName && entry.state === 'due');
    if (known) {
      known.open += count;
      known.wanted += count;
      return;
    }
    const entry = this.add({ queueName, token: newToken(), wanted: count, place: -1, open: count, about: 'work' });
    if (this.newOwnCalls.length === 0) setImmediate(() => this.shareOwn());
    this.newOwnCalls.push(entry);
    this.markDue(entry, 'at once');
    // The check may take long, and other processes must not wait for it.
    entry.timer = this.after(firstCheckMs, () => this.announce(entry));
  }

  /** Makes a call for slots of a queue with fleet-wide limits that became free here. This process fills them first. */
  freed(queueName: string, slots: number): void {
    const entry = this.add({ queueName, token: newToken(), wanted: 1, place: -1, open: slots, about: 'slots' });
    this.markDue(entry, 'refill');
  }

  /** Handles a call of another process. */
  called(call: WorkCall): void {
    const known = this.queues.get(call.queueName)?.get(call.token);
    if (known) {
      known.wanted = Math.max(known.wanted, call.wanted);
      if (known.state === 'waiting' && known.place < known.wanted) this.markDue(known, 'at once');
      return;
    }
    const { queueName, token, wanted } = call;
    const entry = this.add({ queueName, token, wanted, place: this.placeIn(call), open: wanted, about: 'work' });
    entry.isAnnounced = true;
    if (entry.place < wanted) this.markDue(entry, 'at once');
    else this.checkLater(entry, delayOfPlace(entry.place - wanted));
  }

  /** Handles an answer of another process. */
  answered({ queueName, token, group, taken }: WorkAnswer): void {
    if (taken !== null) this.passedOnAt.delete(queueName);
    const entry = this.queues.get(queueName)?.get(token);
    // A process of another version or application does not know what is left for this one.
    if (!entry || (taken === null && group !== this.group)) return;
    entry.open -= taken ?? entry.open;
    if (entry.open <= 0) this.finish(entry);
  }

  /** Called when a check begins. Returns the calls that the check answers: all that are due by now. */
  begin(queueName: string): readonly Entry[] {
    const due = (this.dueOn.get(queueName) ?? []).filter(({ state }) => state === 'due');
    this.dueOn.delete(queueName);
    for (const entry of due) entry.state = 'checking';
    return due;
  }

  /** Called when a check ends, with the calls that `begin` returned. */
  async end(entries: readonly Entry[], { taken, left }: CheckResult): Promise<void> {
    let unassigned = taken;
    for (const entry of entries) {
      if (entry.state !== 'checking') continue;
      if (left === 'nothing' || left === 'barred') {
        this.answer(entry, null);
        this.finish(entry);
        continue;
      }
      const took = Math.min(unassigned, entry.open);
      unassigned -= took;
      entry.open -= took;
      if (took > 0) this.answer(entry, took);
      if (entry.open === 0) this.finish(entry);
      else if (!entry.isAnnounced) await this.offerRemainder(entry, left);
      else if (left === 'unfit' && !entry.wasUnfit) this.checkAgain(entry);
      else {
        if (took === 0 && left !== 'failed') this.passOn(entry);
        this.finish(entry);
      }
    }
  }

  /** Announces to the other processes the work that this process has kept to itself. */
  stop(): void {
    this.stopped = true;
    for (const entry of [...this.queues.values()].flatMap((ofQueue) => [...ofQueue.values()])) {
      if (entry.about === 'work' && entry.state !== 'finished') this.announce(entry);
      this.finish(entry);
    }
  }

  /** Announces calls for more than one workflow, so that other processes take a share before the check here ends. */
  private shareOwn(): void {
    for (const entry of this.newOwnCalls) {
      if (entry.open > 1 && entry.state !== 'finished') this.announce(entry, entry.wanted - 1);
    }
    this.newOwnCalls = [];
  }

  /** Announces the work of this process that it could not take, or its free slots that it could not fill. */
  private async offerRemainder(entry: Entry, left: CheckResult['left']): Promise<void> {
    // Unfilled slots usually mean the end of a backlog. But work of another version may wait for them.
    const isNeeded = entry.about === 'work' || left !== 'unfit';
    if (isNeeded || (await this.checks.waits(entry.queueName))) this.announce(entry);
    this.finish(entry);
  }

  private announce(entry: Entry, wanted = entry.open): void {
    if (entry.isAnnounced) return;
    entry.isAnnounced = true;
    const { queueName, token } = entry;
    this.engine.news.call({ queueName, token, wanted, caller: this.engine.owners.incarnation });
  }

  private answer({ queueName, token, isAnnounced }: Entry, taken: number | null): void {
    if (isAnnounced) this.engine.news.answer({ queueName, token, group: this.group, taken });
  }

  /**
   * Passes on calls only while other processes answer. Otherwise a call would reach all of a fleet without capacity.
   */
  private passOn({ queueName, token, wanted, place }: Entry): void {
    const now = this.engine.clock.now();
    const mayPassOn = now - (this.passedOnAt.get(queueName) ?? Number.NEGATIVE_INFINITY) > passOnPauseMs;
    if (!mayPassOn || place >= wanted || wanted > this.fleet.peersOn(queueName).length) return;
    this.passedOnAt.set(queueName, now);
    this.engine.news.call({ queueName, token, wanted: 2 * wanted, caller: '' });
  }

  private placeIn({ queueName, token, caller }: WorkCall): number {
    const others = this.fleet.peersOn(queueName).filter((peer) => peer !== caller);
    return rankAmong(this.engine, token, others);
  }

  private markDue(entry: Entry, how: Urgency): void {
    entry.timer?.cancel();
    entry.state = 'due';
    const due = this.dueOn.get(entry.queueName);
    if (due) due.push(entry);
    else this.dueOn.set(entry.queueName, [entry]);
    this.checks.look(entry.queueName, how);
  }

  /** Checks once more, when the answer of the process that took the work must have arrived. */
  private checkAgain(entry: Entry): void {
    entry.wasUnfit = true;
    this.checkLater(entry, secondCheckMs.least + Math.random() * secondCheckMs.jitter);
  }

  private checkLater(entry: Entry, ms: number): void {
    entry.state = 'waiting';
    entry.timer?.cancel();
    const check = (): void => void (entry.state === 'waiting' && this.markDue(entry, 'careful'));
    // If this process was busy, the answer has arrived unread: the event loop reads it before `setImmediate` runs.
    entry.timer = this.after(ms, () => setImmediate(check));
  }

  private after(ms: number, then: () => void): Timer {
    const { clock } = this.engine;
    return clock.at(clock.now() + ms, () => !this.stopped && then(), 'background');
  }

  private finish(entry: Entry): void {
    entry.timer?.cancel();
    entry.state = 'finished';
    // No other process can repeat a call that was never announced, so this process need not recognize the call again.
    if (entry.isAnnounced) this.remember(entry);
    else this.forget(entry);
  }

  private remember(entry: Entry): void {
    this.finishedCalls.add(entry);
    for (const oldest of this.finishedCalls) {
      if (this.finishedCalls.size <= maxFinished) break;
      this.forget(oldest);
    }
  }

  private forget(entry: Entry): void {
    const { queueName, token } = entry;
    this.finishedCalls.delete(entry);
    const ofQueue = this.queues.get(queueName);
    if (ofQueue?.get(token) === entry) ofQueue.delete(token);
    if (ofQueue?.size === 0) this.queues.delete(queueName);
  }

  private add(given: Omit<Entry, 'isAnnounced' | 'state' | 'timer' | 'wasUnfit'>): Entry {
    const entry: Entry = { ...given, isAnnounced: false, state: 'waiting', timer: undefined, wasUnfit: false };
    const ofQueue = this.queues.get(given.queueName) ?? new Map<number, Entry>();
    this.queues.set(given.queueName, ofQueue.set(given.token, entry));
    for (const oldest of ofQueue.values()) {
      if (ofQueue.size <= maxCalls) break;
      this.finish(oldest);
      this.forget(oldest);
    }
    return entry;
  }
}
