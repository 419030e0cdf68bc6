import type { Engine } from '../engine/engine.js';
import { newToken, type WorkAnswer, type WorkCall } from '../engine/wait/work-signals.js';
import type { Timer } from '../model/clock.js';
import { delayOf, placeAmong } from './places.js';

/**
 * Who looks for work that was announced on a queue: few processes, and not always the same ones.
 *
 * A call carries a random token. Every process orders the living executors of its application and version that work on the
 * queue by a hash of token and incarnation, and finds its own place. The first `wanted` places look at once. The others
 * look later, in groups that double, and only if nobody has answered the call by then; so a process in the first place
 * that is dead, stopped or busy costs some tens of milliseconds. A process without room passes the call on: it repeats the
 * call for twice as many places.
 *
 * What a process announces itself it looks for first, and tells the others of it only if something is left over.
 *
 * Nothing depends on this but time. Views of who lives may differ, calls and answers may be lost: the poll of the
 * dispatcher finds what waits.
 */

/** What a look has come to. */
export interface Verdict {
  /** How many workflows it took. */
  readonly taken: number;
  /**
   * What is left:
   * - `nothing`: no work waits on the queue. `barred`: work waits, and no process may take it now (a limit of the fleet, a
   *   pause). When that changes there is other news of it.
   * - `full`: this process has no room for more. `unfit`: nothing that this process can take; others may have taken
   *   the rest, or be able to. `failed`: unknown.
   */
  readonly left: 'nothing' | 'barred' | 'full' | 'unfit' | 'failed';
}

/** A call as this process knows it. */
interface Entry extends Pick<WorkCall, 'queueName' | 'token'> {
  wanted: number;
  /** How many processes come before this one; less than zero: the call is its own. */
  readonly place: number;
  /** Work of which no answer says that it was taken; or slots that became free here. */
  open: number;
  readonly about: 'work' | 'slots';
  /** Whether other processes have heard of it. */
  isAnnounced: boolean;
  state: 'waiting' | 'due' | 'looking' | 'over';
  /** It was looked for once, and nothing was found that fits. */
  wasUnfit: boolean;
  timer: Timer | undefined;
}

/** How soon a process looks again that found nothing for it: by then the one that took the work has said so. */
const againMs = { least: 12, jitter: 10 };
/** How long a process keeps to itself what it looks for first. */
const firstLookMs = 20;
/** A call that was passed on and not answered says that others have no room either: how long nothing more is passed on. */
const passedMs = 1_000;
/** Calls of one queue that are remembered, so that one that is repeated is not taken for new. */
const maxCalls = 500;
/** The same of all queues together, of calls that are over: there may be ten thousand queues. */
const maxOver = 2_000;

/** `careful`: the work is probably gone, so a cheap probe comes before a claim. `refill`: slots became free here. */
export type How = 'at once' | 'careful' | 'refill';

export interface Looks {
  look(queueName: string, how: How): void;
  /** Whether anything waits on the queue, for any process. */
  waits(queueName: string): Promise<boolean>;
}

export class WorkCalls {
  private readonly queues = new Map<string, Map<number, Entry>>();
  /** Those that the next look of each queue is for. */
  private readonly dueOn = new Map<string, Entry[]>();
  private readonly passedAt = new Map<string, number>();
  /** Work that was announced here in this turn of the event loop: what is committed together is one call. */
  private fresh: Entry[] = [];
  /** The oldest first. */
  private readonly remembered = new Set<Entry>();
  private readonly group: string;
  private stopped = false;

  constructor(
    private readonly engine: Engine,
    private readonly looks: Looks,
  ) {
    this.group = `${engine.writer.appName}\n${engine.version}`;
  }

  /** How many calls are known, whether over or not. */
  get size(): number {
    return [...this.queues.values()].reduce((sum, ofQueue) => sum + ofQueue.size, 0);
  }

  /** Work has come up in this process, which can take it: it looks first. */
  own(queueName: string, count: number): void {
    // A look that has begun may have been sent before this work was committed.
    const known = this.fresh.find((entry) => entry.queueName === queueName && entry.state === 'due');
    if (known) {
      known.open += count;
      known.wanted += count;
      return;
    }
    const entry = this.add({ queueName, token: newToken(), wanted: count, place: -1, open: count, about: 'work' });
    if (this.fresh.length === 0) setImmediate(() => this.shareOwn());
    this.fresh.push(entry);
    this.due(entry, 'at once');
    // The look may take long: others are not to wait for that.
    entry.timer = this.later(firstLookMs, () => this.announce(entry));
  }

  /** Slots of a queue with limits of the fleet became free here: this process fills them first. */
  freed(queueName: string, slots: number): void {
    const entry = this.add({ queueName, token: newToken(), wanted: 1, place: -1, open: slots, about: 'slots' });
    this.due(entry, 'refill');
  }

  called(call: WorkCall): void {
    const known = this.queues.get(call.queueName)?.get(call.token);
    if (known) {
      known.wanted = Math.max(known.wanted, call.wanted);
      if (known.state === 'waiting' && known.place < known.wanted) this.due(known, 'at once');
      return;
    }
    const { queueName, token, wanted } = call;
    const entry = this.add({ queueName, token, wanted, place: this.placeIn(call), open: wanted, about: 'work' });
    entry.isAnnounced = true;
    if (entry.place < wanted) this.due(entry, 'at once');
    else this.lookLater(entry, delayOf(entry.place - wanted));
  }

  answered({ queueName, token, group, taken }: WorkAnswer): void {
    if (taken !== null) this.passedAt.delete(queueName);
    const entry = this.queues.get(queueName)?.get(token);
    // What is left for another version, or another application, is not known to them.
    if (!entry || (taken === null && group !== this.group)) return;
    entry.open -= taken ?? entry.open;
    if (entry.open <= 0) this.over(entry);
  }

  /** A look begins: what was called for by now is what it answers. */
  begin(queueName: string): readonly Entry[] {
    const due = (this.dueOn.get(queueName) ?? []).filter(({ state }) => state === 'due');
    this.dueOn.delete(queueName);
    for (const entry of due) entry.state = 'looking';
    return due;
  }

  async end(entries: readonly Entry[], { taken, left }: Verdict): Promise<void> {
    let unassigned = taken;
    for (const entry of entries) {
      if (entry.state !== 'looking') continue;
      if (left === 'nothing' || left === 'barred') {
        this.answer(entry, null);
        this.over(entry);
        continue;
      }
      const took = Math.min(unassigned, entry.open);
      unassigned -= took;
      entry.open -= took;
      if (took > 0) this.answer(entry, took);
      if (entry.open === 0) this.over(entry);
      else if (!entry.isAnnounced) await this.leaveRest(entry, left);
      else if (left === 'unfit' && !entry.wasUnfit) this.lookAgain(entry);
      else {
        if (took === 0 && left !== 'failed') this.passOn(entry);
        this.over(entry);
      }
    }
  }

  /** What this process kept to itself is for the others now. */
  stop(): void {
    this.stopped = true;
    for (const entry of [...this.queues.values()].flatMap((ofQueue) => [...ofQueue.values()])) {
      if (entry.about === 'work' && entry.state !== 'over') this.announce(entry);
      this.over(entry);
    }
  }

  /** More than one: others are to have a share of it, and need not wait for the look of this process. */
  private shareOwn(): void {
    for (const entry of this.fresh) {
      if (entry.open > 1 && entry.state !== 'over') this.announce(entry, entry.wanted - 1);
    }
    this.fresh = [];
  }

  /** What this process could not take of its own work, or what it could not fill of its free slots. */
  private async leaveRest(entry: Entry, left: Verdict['left']): Promise<void> {
    // The end of a backlog, as a rule. But work of another version may wait for the slot.
    const isSure = entry.about === 'work' || left !== 'unfit';
    if (isSure || (await this.looks.waits(entry.queueName))) this.announce(entry);
    this.over(entry);
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

  /** Only while others answer: in a fleet without room a call would otherwise go round all of it. */
  private passOn({ queueName, token, wanted, place }: Entry): void {
    const now = this.engine.clock.now();
    const isOpen = now - (this.passedAt.get(queueName) ?? Number.NEGATIVE_INFINITY) > passedMs;
    if (!isOpen || place >= wanted || wanted > this.engine.peersOn(queueName).length) return;
    this.passedAt.set(queueName, now);
    this.engine.news.call({ queueName, token, wanted: 2 * wanted, caller: '' });
  }

  private placeIn({ queueName, token, caller }: WorkCall): number {
    const others = this.engine.peersOn(queueName).filter((peer) => peer !== caller);
    return placeAmong(this.engine, token, others);
  }

  private due(entry: Entry, how: How): void {
    entry.timer?.cancel();
    entry.state = 'due';
    const due = this.dueOn.get(entry.queueName);
    if (due) due.push(entry);
    else this.dueOn.set(entry.queueName, [entry]);
    this.looks.look(entry.queueName, how);
  }

  /** The one that took it has said so by then. Otherwise it may be work that this process cannot do. */
  private lookAgain(entry: Entry): void {
    entry.wasUnfit = true;
    this.lookLater(entry, againMs.least + Math.random() * againMs.jitter);
  }

  private lookLater(entry: Entry, ms: number): void {
    entry.state = 'waiting';
    entry.timer?.cancel();
    // In a process that was busy meanwhile the answer has arrived, and is read before this turn of the event loop ends.
    const look = (): void => void (entry.state === 'waiting' && this.due(entry, 'careful'));
    entry.timer = this.later(ms, () => setImmediate(look));
  }

  private later(ms: number, then: () => void): Timer {
    const { clock } = this.engine;
    return clock.at(clock.now() + ms, () => !this.stopped && then(), 'background');
  }

  private over(entry: Entry): void {
    entry.timer?.cancel();
    entry.state = 'over';
    // A call that was never announced cannot be repeated by another process, so nothing has to recognize it again.
    if (entry.isAnnounced) this.remember(entry);
    else this.forget(entry);
  }

  private remember(entry: Entry): void {
    this.remembered.add(entry);
    for (const oldest of this.remembered) {
      if (this.remembered.size <= maxOver) break;
      this.forget(oldest);
    }
  }

  private forget(entry: Entry): void {
    const { queueName, token } = entry;
    this.remembered.delete(entry);
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
      this.over(oldest);
      this.forget(oldest);
    }
    return entry;
  }
}
