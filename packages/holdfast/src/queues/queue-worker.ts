import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import { maxBusy } from '../engine/queue/queue-load.js';
import type { Timer } from '../model/clock.js';
import { internalQueue, type LimitSettings } from '../model/queues.js';
import type { QueueRecord, RateWindow } from '../storage/contract/queues.js';
import { again, fromMemory, idle, type Kind, maxPage, nothing, type Page, sameSettings } from './page.js';
import { sharesOfPartitions } from './partition-shares.js';
import { freeHere, freeInFleet, nextStart, shareOut, spansFleet } from './plan.js';
import { QueueClaims } from './queue-claims.js';
import { warnOfUnclaimable } from './unclaimable.js';
import type { How, Verdict } from './work-calls.js';

/**
 * How many workflows are taken by one statement: few at first, so that the first ones soon begin; more as long as there
 * are that many, because then what counts is the cost of each.
 */
const pageSize = { first: 200, largest: 1000 };

/** How often it is looked into why work waits although there is room for it. */
const explainMs = 30_000;
/** After a failure of the database. */
const retryMs = 1_000;

/**
 * The internal queue has no limits, and may hold all that a dead fleet has left: a process takes from it only while fewer
 * than `mostBusy` of its executions do something. Those that wait do not count, or parents would keep out the children that
 * they wait for. And this is taken from it all the same:
 */
const trickle = { most: 50, everyMs: 1_000 };
/** How soon it looks again whether there is room. That an execution waits now is nobody's news. */
const roomMs = 100;

/**
 * Takes work from one queue whenever there may be some and there is room for it: woken by what is enqueued and by what
 * ends, here or elsewhere, and from time to time in any case.
 *
 * Limits of the whole fleet are kept in three moves: read what counts against them, decide, and take no more than that
 * under the turn that was read. Whoever has taken in between has moved the turn on, and the claim takes nothing: it is
 * decided anew (storage/sql/dequeue.ts).
 */
export class QueueWorker {
  private readonly loop: Loop;
  private rateTimer: Timer | undefined;
  private retryTimer: Timer | undefined;
  /** The partition that was served last: the next one is the first to be served now. */
  private cursor = '';
  private thorough = false;
  private maySuspect = false;
  private pageSize: number = pageSize.first;
  /** The last page was full. */
  private isGrowing = false;
  /**
   * What is certain without looking, as long as the turn is still this one: at most so many run elsewhere, because
   * nobody there has claimed since. What runs here is known here, and counts until its end is confirmed.
   */
  private sure: { readonly lockVersion: number; readonly elsewhere: number } | undefined;
  /** The last look found a limit in the way. */
  private tookAt = Number.NEGATIVE_INFINITY;
  private full = false;
  private explainedAt = Number.NEGATIVE_INFINITY;
  private stopped = false;
  private readonly onConfirmed = (): void => this.wakeThoroughly();
  /** All that woke it thinks that the work is gone by now. */
  private careful = true;
  /** The look under way is to make sure first that anything waits. */
  private asksFirst = false;
  /** What the last claim or look of a turn has left. */
  private left: Verdict['left'] = 'unfit';
  private readonly claims: QueueClaims;
  /** More is left for the moment, until so much of what was taken has ended. */
  private isPausing = false;
  private readonly onRoom = (haveEnded: boolean): void => {
    this.isPausing = false;
    // Nothing of what was taken has ended, so the work takes long, and others may have nothing to do. Where some of it has
    // ended, it is the machine that is slow: small pages would only make it slower.
    if (!haveEnded) this.isGrowing = false;
    this.loop.wake();
  };

  constructor(
    private readonly engine: Engine,
    private readonly name: string,
    /** Called when a look begins; what it returns is told what came of it. */
    private readonly onLook: () => (verdict: Verdict) => Promise<void> = () => async () => {},
  ) {
    const { clock, logger } = engine;
    this.claims = new QueueClaims(engine, name);
    this.loop = new Loop({ name: `Queue "${name}"`, clock, logger, runOnce: () => this.runOnce() });
    this.loop.start();
  }

  wake(how: How = 'at once'): void {
    if (how !== 'careful') this.careful = false;
    if (how !== 'refill') this.sure = undefined;
    this.loop.wake();
  }

  /** Also looks for what nobody here can take, and, if there may be some, for what is suspect and usually passed over. */
  wakeThoroughly({ suspects = true } = {}): void {
    this.thorough = true;
    this.maySuspect ||= suspects;
    this.wake();
  }

  /** There was no room at the last look. */
  get isFull(): boolean {
    return this.full;
  }

  /** Resolves when the look that is under way, if there is one, has ended. */
  settled(): Promise<void> {
    return this.loop.settled();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await this.loop.stop();
    this.rateTimer?.cancel();
    this.retryTimer?.cancel();
    this.engine.queueLoad.capacity.stopWaiting(this.onRoom);
  }

  private async runOnce(): Promise<void> {
    const ended = this.onLook();
    const { thorough, maySuspect } = this;
    [this.thorough, this.maySuspect] = [false, false];
    [this.asksFirst, this.careful] = [this.careful, true];
    let verdict: Verdict = { taken: 0, left: 'failed' };
    this.retryTimer?.cancel();
    // Also for a claim whose answer was lost: what it took is looked for with the next one.
    const retry = (): void => this.wakeThoroughly();
    const { clock, claims, startGate } = this.engine;
    try {
      // Nothing could be claimed before that.
      if (!startGate.isOpen) startGate.onceOpen(this.onConfirmed);
      // Before anything is planned: what a lost claim has taken counts too, and nobody else would run it.
      await claims.readBack();
      const taken = await this.takeTurn(thorough, maySuspect);
      verdict = { taken, left: this.left };
    } catch (error) {
      if (!this.stopped) this.retryTimer = clock.at(clock.now() + retryMs, retry, 'background');
      throw error;
    } finally {
      await ended(verdict);
    }
  }

  private async takeTurn(thorough: boolean, maySuspect: boolean): Promise<number> {
    // First, or a backlog of healthy ones would keep them waiting for ever. But if they cannot be taken, the others can.
    let failure: { readonly error: unknown } | undefined;
    const failed = (error: unknown): number => {
      failure = { error };
      return 0;
    };
    const looks = maySuspect && !this.engine.queueLoad.hasSuspect(this.name);
    const suspects = looks ? await this.take('suspect').catch(failed) : 0;
    // No room was left for them. The next that comes free is theirs, or the others would take it each time.
    if (looks && suspects === 0 && this.full) this.maySuspect = true;
    const taken = suspects + (await this.take('healthy'));
    if (failure) throw failure.error;
    if (thorough && taken === 0 && !this.full) await this.explainWait();
    return taken;
  }

  private async explainWait(): Promise<void> {
    const { queueCache, storage, clock } = this.engine;
    const queue = queueCache.get(this.name);
    const now = clock.now();
    if (now - this.explainedAt < explainMs) return;
    this.explainedAt = now;
    // Without a key it belongs to no partition, and nobody would ever look for it.
    if (queue?.settings.partition && (await storage.queues.giveKeys([this.name]))) this.wake();
    else await warnOfUnclaimable(this.engine, this.name);
  }

  /** Takes as much as there is room for. Returns how much that was. */
  private async take(kind: Kind): Promise<number> {
    let total = 0;
    for (;;) {
      if (!this.isGrowing) this.pageSize = this.firstPage();
      const { claimed, more } = await this.takePage(kind);
      total += claimed.length;
      this.isGrowing = more && claimed.length > 0;
      // One suspect at a time, unless it was given up at once.
      const enough = kind === 'suspect' && claimed.some((record) => record.status === 'PENDING');
      if (!more || enough || this.stopped) return total;
      if (this.isGrowing && this.pauses()) return total;
    }
  }

  private firstPage(): number {
    if (this.name === internalQueue) return pageSize.first;
    return this.engine.queueLoad.capacity.firstPage(pageSize.first, this.engine.peersOn(this.name).length);
  }

  /** Whether what is left waits for what was taken: for room, so that pages are not too small, and for the sake of others. */
  private pauses(): boolean {
    const { capacity } = this.engine.queueLoad;
    const ends =
      this.name === internalQueue ? 0 : capacity.endsBeforeNext(this.pageSize, this.engine.peersOn(this.name).length);
    this.pageSize = Math.min(pageSize.largest, 2 * this.pageSize);
    this.isPausing = ends > 0;
    if (this.isPausing) capacity.waitForCapacity(this.onRoom, ends);
    if (this.isPausing) this.left = 'full';
    return this.isPausing;
  }

  private takePage(kind: Kind): Promise<Page> {
    const queue = this.engine.queueCache.get(this.name);
    this.left = 'unfit';
    if (this.name === internalQueue) return this.takeFreely(null, kind);
    if (!queue || queue.paused) return Promise.resolve(this.nothing('barred'));
    if (this.isCrowded()) return Promise.resolve(nothing);
    const { limits, partition } = queue.settings;
    if (partition) return this.takeByPartition(queue, kind);
    return spansFleet(limits) ? this.takeWithinLimits(queue, kind) : this.takeFreely(queue, kind);
  }

  private isCrowded(): boolean {
    const { capacity } = this.engine.queueLoad;
    this.full = this.isPausing || capacity.free() <= 0;
    if (this.full) this.left = 'full';
    if (this.full && !this.isPausing) capacity.waitForCapacity(this.onRoom, 1);
    return this.full;
  }

  /** No limit but this process's own: no question of what others do. */
  private async takeFreely(queue: QueueRecord | null, kind: Kind): Promise<Page> {
    const { queueLoad } = this.engine;
    const room = queue ? freeHere(queue.settings.limits, queueLoad.of(this.name)) : this.roomWithin();
    this.full = room <= 0;
    if (this.full && !queue) this.lookForRoom();
    if (this.full) return this.nothing('full');
    if (await this.isGone()) return this.nothing('nothing');
    // Others may have come first meanwhile.
    if (queue && this.isCrowded()) return nothing;
    const n = Math.min(this.pageSize, room, queue ? queueLoad.capacity.free() : room, maxPage(kind));
    const terms = {
      lockVersion: queue?.lockVersion ?? null,
      exclusive: false,
      firstCome: queue?.settings.priority === false,
    };
    const { claimed, mixed } = await this.claims.claim(kind, terms, [{ partition: null, n }], { rateLimited: false });
    return { claimed, more: claimed.length === n || mixed };
  }

  /**
   * What is on the internal queue does not pile up in memory. But a few go on however busy it is: what keeps it busy may
   * wait for them.
   */
  private roomWithin(): number {
    const now = this.engine.clock.now();
    const room = Math.min(maxBusy, this.engine.queueLoad.capacity.limit) - this.engine.busy;
    if (room <= 0 && now - this.tookAt < trickle.everyMs) return room;
    this.tookAt = now;
    return Math.max(room, trickle.most);
  }

  private async takeWithinLimits(known: QueueRecord, kind: Kind): Promise<Page> {
    const { limits } = known.settings;
    const sure = kind === 'healthy' ? this.sure : undefined;
    this.sure = undefined;
    const seen = sure ? fromMemory(known, sure, this.engine.queueLoad.of(this.name)) : await this.look(known);
    if (!seen) return nothing;
    if (!sameSettings(seen.queue, known)) return again;
    const free = freeInFleet(limits, seen.usage);
    // Others may have come first while this one was looking.
    if (this.isCrowded()) return nothing;
    const { queueLoad } = this.engine;
    const room = Math.min(freeHere(limits, queueLoad.of(this.name)), queueLoad.capacity.free());
    const n = Math.min(this.pageSize, free, room, maxPage(kind));
    this.full = n <= 0;
    if (this.full) this.left = free <= 0 ? 'barred' : 'full';
    if (this.full) return sure ? again : this.waitForRate(nextStart(limits, seen.usage));
    const { lockVersion } = seen.queue;
    const terms = { lockVersion, exclusive: true, firstCome: !known.settings.priority };
    const { claimed, held } = await this.claims.claim(kind, terms, [{ partition: null, n }], {
      rateLimited: limits.rateLimit !== null,
    });
    // Full now; but if a rate limit is what fills it, another look finds out when it lets the next one start.
    const mayGoOn = n < free || limits.rateLimit !== null;
    if (claimed.length === 0) return this.takeAgain(held);
    if (claimed.length === free) this.left = 'barred';
    // More is waiting, as far as one can tell: the next claim need not look.
    if (claimed.length === n && limits.rateLimit === null && seen.allKnown && this.claims.allRun(claimed)) {
      this.sure = { lockVersion: lockVersion + 1, elsewhere: seen.usage.elsewhere };
    }
    return { claimed, more: claimed.length === n && mayGoOn };
  }

  private async takeByPartition(known: QueueRecord, kind: Kind): Promise<Page> {
    const { limits, partition: perPartition } = known.settings;
    if (!perPartition) return nothing;
    const exclusive = spansFleet(limits) || spansFleet(perPartition);
    const seen = exclusive ? await this.look(known) : { queue: known, usage: idle };
    if (!seen) return nothing;
    if (!sameSettings(seen.queue, known)) return again;
    const room = freeHere(limits, this.engine.queueLoad.of(this.name));
    const free = freeInFleet(limits, seen.usage);
    const slots = Math.min(this.pageSize, free, room, maxPage(kind));
    this.full = slots <= 0;
    if (this.full) this.left = free <= 0 ? 'barred' : 'full';
    if (this.full) return this.waitForRate(nextStart(limits, seen.usage));
    const { shares, blockedUntil, exhausted } = await sharesOfPartitions(this.engine, {
      ...{ queueName: this.name, perPartition, slots, after: this.cursor, rate: this.window(perPartition.rateLimit) },
      ...{ suspects: kind === 'suspect', isStopped: () => this.stopped },
    });
    if (this.isCrowded()) return nothing;
    const { portions, last } = shareOut(Math.min(slots, this.engine.queueLoad.capacity.free()), shares);
    this.full = portions.length === 0 && shares.some(({ most }) => most <= 0);
    if (this.full) this.left = perPartition.workerConcurrency === null ? 'barred' : 'full';
    if (portions.length === 0) return this.waitForRate(blockedUntil);
    const rateLimited = limits.rateLimit !== null || perPartition.rateLimit !== null;
    const terms = { lockVersion: seen.queue.lockVersion, exclusive, firstCome: !known.settings.priority };
    const { claimed, held, mixed } = await this.claims.claim(kind, terms, portions, { rateLimited });
    if (claimed.length > 0) {
      if (last !== undefined) this.cursor = last;
      // With a rate limit another look finds out when it lets the next one of each partition start.
      return { claimed, more: claimed.length === slots || !exhausted || mixed || perPartition.rateLimit !== null };
    }
    return this.takeAgain(held);
  }

  /** Nothing was taken. If another process has moved the turn on, it is unknown what waits. */
  private async takeAgain(held: boolean): Promise<Page> {
    if (!held) await this.claims.pauseAfterConflict();
    return held ? nothing : again;
  }

  private nothing(left: Verdict['left']): Page {
    this.left = left;
    return nothing;
  }

  /** Whether nothing waits any more, if that is to be expected. */
  private async isGone(): Promise<boolean> {
    if (!this.asksFirst) return false;
    this.asksFirst = false;
    return !(await this.engine.storage.queues.waits(this.name));
  }

  /**
   * The queue as it is now, if anything waits on it. What was known of it may be out of date. `allKnown`: what counts as
   * running here is what this process knows that it runs.
   */
  private async look(known: QueueRecord) {
    const rate = this.window(known.settings.limits.rateLimit);
    const { storage, writer, queueCache, queueLoad, claims } = this.engine;
    const here = queueLoad.of(this.name);
    const seen = await storage.queues.usage({ name: this.name, executorId: writer.executorId, rate });
    if (seen && !seen.queue.paused) this.left = seen.waiting ? 'unfit' : 'nothing';
    else this.left = 'barred';
    if (!seen || seen.queue.paused || !seen.waiting) return undefined;
    queueCache.put(seen.queue);
    const { running, elsewhere } = seen.usage;
    return { ...seen, allKnown: claims.areCertain && running - elsewhere <= here };
  }

  private window(rateLimit: LimitSettings['rateLimit']): RateWindow | null {
    return rateLimit && { max: rateLimit.max, since: this.engine.clock.now() - rateLimit.perMs };
  }

  private lookForRoom(): void {
    const { clock } = this.engine;
    this.retryTimer?.cancel();
    if (!this.stopped) this.retryTimer = clock.at(clock.now() + roomMs, () => this.wake(), 'background');
  }

  private waitForRate(at: number | undefined): Page {
    this.rateTimer?.cancel();
    // A start counts up to the end of the period, so that the next one is possible only after it.
    if (at !== undefined && !this.stopped) this.rateTimer = this.engine.clock.at(at, () => this.wake());
    return nothing;
  }
}
