import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import { maxBusy } from '../engine/queue/slots-in-use.js';
import type { Timer } from '../model/clock.js';
import { internalQueue, type LimitSettings } from '../model/queues.js';
import type { QueueRecord, RateWindow } from '../storage/contract/queues.js';
import type { Fleet } from './fleet.js';
import {
  emptyPage,
  maxPage,
  noUsage,
  type Page,
  retryPage,
  sameSettings,
  usageFromMemory,
  type WorkKind,
} from './page.js';
import { sharesOfPartitions } from './partition-shares.js';
import { freeHere, freeInFleet, nextStart, shareOut, spansFleet } from './plan.js';
import { QueueClaims } from './queue-claims.js';
import { warnOfUnclaimable } from './unclaimable.js';
import type { CheckResult, Urgency } from './work-calls.js';

/**
 * How many workflows one statement claims. The first page is small, so that its workflows start soon. Pages grow while
 * the backlog fills them, because the cost per workflow then matters more.
 */
const pageSize = { first: 200, largest: 1000 };

/** How often the worker finds out why work waits although there is capacity for it. */
const explainMs = 30_000;
/** Delay before a retry after a failure of the database. */
const retryMs = 1_000;

/**
 * The internal queue has no limits, and may hold everything that a dead fleet has left. A process therefore claims
 * from it only while fewer than `maxBusy` of its executions are busy. Executions that only wait do not count:
 * otherwise parents would keep out the children that they wait for. A process that is busier still claims `max` of the
 * workflows every `everyMs`.
 */
const trickle = { max: 50, everyMs: 1_000 };
/** How often a full process checks its capacity again. No notification says that an execution has begun to wait. */
const capacityPollMs = 100;

/**
 * Claims work from one queue whenever there may be work and this process has capacity. The worker is woken when work
 * is enqueued and when executions end, in this process or another, and by the poll of the dispatcher.
 *
 * Fleet-wide limits take three steps: read the usage, plan the claim, and claim under the lock version that was read.
 * If another process has claimed in between, it has changed the lock version. The claim then takes nothing, and the
 * worker repeats the three steps (storage/sql/dequeue.ts).
 */
export class QueueWorker {
  private readonly loop: Loop;
  private rateTimer: Timer | undefined;
  private retryTimer: Timer | undefined;
  /** The partition that was served last. The next claim begins with the partition after it. */
  private cursor = '';
  private thorough = false;
  private withSuspects = false;
  private pageSize: number = pageSize.first;
  /** True if the last page was full. */
  private isGrowing = false;
  /**
   * Usage that needs no query while the queue has this lock version: at most `elsewhere` workflows run in other
   * processes, because none of these has claimed since. This process knows what it runs itself, and counts an
   * execution until its end is confirmed.
   */
  private knownUsage: { readonly lockVersion: number; readonly elsewhere: number } | undefined;
  /** When this worker last tried to claim from the internal queue. */
  private trickledAt = Number.NEGATIVE_INFINITY;
  /** True if the last check was stopped by a limit. */
  private full = false;
  private explainedAt = Number.NEGATIVE_INFINITY;
  private stopped = false;
  private readonly onGateOpen = (): void => this.wakeThoroughly();
  /** True while every wake-up since the last check says that the work is probably gone. */
  private careful = true;
  /** True if the check under way must probe for waiting work before it claims. */
  private probesFirst = false;
  /** The state of the queue after the last claim or query of the check. */
  private left: CheckResult['left'] = 'unfit';
  private readonly claims: QueueClaims;
  /** True while the worker leaves more work on the queue until enough executions have ended. */
  private isPausing = false;
  private readonly onCapacity = (haveEnded: boolean): void => {
    this.isPausing = false;
    // If no execution has ended, the work takes long: a small page leaves work to processes that may be idle. If some
    // have ended, this machine is slow, and small pages would make it slower.
    if (!haveEnded) this.isGrowing = false;
    this.loop.wake();
  };

  constructor(
    private readonly engine: Engine,
    private readonly fleet: Fleet,
    private readonly name: string,
    /** Called when a check begins. Returns a function that is called with the verdict when the check ends. */
    private readonly onCheck: () => (verdict: CheckResult) => Promise<void> = () => async () => {},
  ) {
    const { clock, logger } = engine;
    this.claims = new QueueClaims(engine, name);
    this.loop = new Loop({ name: `Queue "${name}"`, clock, logger, runOnce: () => this.runOnce() });
    this.loop.start();
  }

  wake(how: Urgency = 'at once'): void {
    if (how !== 'careful') this.careful = false;
    if (how !== 'refill') this.knownUsage = undefined;
    this.loop.wake();
  }

  /**
   * Starts a check that also explains work which this process cannot take. With `suspects`, the check also claims
   * suspects, which other checks leave out.
   */
  wakeThoroughly({ suspects = true } = {}): void {
    this.thorough = true;
    this.withSuspects ||= suspects;
    this.wake();
  }

  /** True if the last check was stopped by a limit. */
  get isFull(): boolean {
    return this.full;
  }

  /** Resolves when no check is under way. */
  settled(): Promise<void> {
    return this.loop.settled();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await this.loop.stop();
    this.rateTimer?.cancel();
    this.retryTimer?.cancel();
    this.engine.slotsInUse.capacity.stopWaiting(this.onCapacity);
  }

  private async runOnce(): Promise<void> {
    const report = this.onCheck();
    const { thorough, withSuspects } = this;
    [this.thorough, this.withSuspects] = [false, false];
    [this.probesFirst, this.careful] = [this.careful, true];
    let verdict: CheckResult = { taken: 0, left: 'failed' };
    this.retryTimer?.cancel();
    // The retry also finds the workflows of a claim whose answer was lost.
    const retry = (): void => this.wakeThoroughly();
    const { clock, claims, startGate } = this.engine;
    try {
      // While the gate is closed, this process can claim nothing.
      if (!startGate.isOpen) startGate.onceOpen(this.onGateOpen);
      // This comes before the plan, because workflows of a claim whose answer was lost count too. No other process
      // would run them.
      await claims.readBack();
      const taken = await this.takeAll(thorough, withSuspects);
      verdict = { taken, left: this.left };
    } catch (error) {
      if (!this.stopped) this.retryTimer = clock.at(clock.now() + retryMs, retry, 'background');
      throw error;
    } finally {
      await report(verdict);
    }
  }

  private async takeAll(thorough: boolean, withSuspects: boolean): Promise<number> {
    // Suspects are claimed first. Otherwise they would wait until the backlog of healthy workflows ends. A failure to
    // claim suspects must not keep healthy workflows from being claimed.
    let failure: { readonly error: unknown } | undefined;
    const failed = (error: unknown): number => {
      failure = { error };
      return 0;
    };
    const takesSuspects = withSuspects && !this.engine.slotsInUse.hasSuspect(this.name);
    const suspects = takesSuspects ? await this.take('suspect').catch(failed) : 0;
    // There was no slot for a suspect. The next free slot is tried for suspects first, or healthy work would take it.
    if (takesSuspects && suspects === 0 && this.full) this.withSuspects = true;
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
    // Work without a partition key belongs to no partition, so no claim would ever find it.
    if (queue?.settings.partition && (await storage.queues.assignPartitionKeys([this.name]))) this.wake();
    else await warnOfUnclaimable(this.engine, this.fleet, this.name);
  }

  /** Claims page by page, up to the capacity of this process. Returns how many workflows were claimed. */
  private async take(kind: WorkKind): Promise<number> {
    let total = 0;
    for (;;) {
      if (!this.isGrowing) this.pageSize = this.firstPage();
      const { claimed, more } = await this.takePage(kind);
      total += claimed.length;
      this.isGrowing = more && claimed.length > 0;
      // Only one suspect is claimed, unless the claim dead-lettered it at once.
      const enough = kind === 'suspect' && claimed.some((record) => record.status === 'PENDING');
      if (!more || enough || this.stopped) return total;
      if (this.isGrowing && this.pauseForCapacity()) return total;
    }
  }

  private firstPage(): number {
    if (this.name === internalQueue) return pageSize.first;
    return this.engine.slotsInUse.capacity.firstPage(pageSize.first, this.fleet.peersOn(this.name).length);
  }

  /**
   * Returns true if the worker must wait for executions to end before the next page. The wait avoids small pages, and
   * leaves work to other processes.
   */
  private pauseForCapacity(): boolean {
    const { capacity } = this.engine.slotsInUse;
    const ends =
      this.name === internalQueue ? 0 : capacity.endsBeforeNext(this.pageSize, this.fleet.peersOn(this.name).length);
    this.pageSize = Math.min(pageSize.largest, 2 * this.pageSize);
    this.isPausing = ends > 0;
    if (this.isPausing) capacity.waitForCapacity(this.onCapacity, ends);
    if (this.isPausing) this.left = 'full';
    return this.isPausing;
  }

  private takePage(kind: WorkKind): Promise<Page> {
    const queue = this.engine.queueCache.get(this.name);
    this.left = 'unfit';
    if (this.name === internalQueue) return this.takeFreely(null, kind);
    if (!queue || queue.paused) return Promise.resolve(this.nothing('barred'));
    if (this.hasNoCapacity()) return Promise.resolve(emptyPage);
    const { limits, partition } = queue.settings;
    if (partition) return this.takeByPartition(queue, kind);
    return spansFleet(limits) ? this.takeWithinLimits(queue, kind) : this.takeFreely(queue, kind);
  }

  private hasNoCapacity(): boolean {
    const { capacity } = this.engine.slotsInUse;
    this.full = this.isPausing || capacity.free() <= 0;
    if (this.full) this.left = 'full';
    if (this.full && !this.isPausing) capacity.waitForCapacity(this.onCapacity, 1);
    return this.full;
  }

  /** Claims from a queue without fleet-wide limits, regardless of other processes. */
  private async takeFreely(queue: QueueRecord | null, kind: WorkKind): Promise<Page> {
    const { slotsInUse } = this.engine;
    const free = queue ? freeHere(queue.settings.limits, slotsInUse.of(this.name)) : this.freeForInternalQueue();
    this.full = free <= 0;
    if (this.full && !queue) this.pollCapacity();
    if (this.full) return this.nothing('full');
    if (await this.isGone()) return this.nothing('nothing');
    // The worker of another queue may have used up the capacity during the probe.
    if (queue && this.hasNoCapacity()) return emptyPage;
    const n = Math.min(this.pageSize, free, queue ? slotsInUse.capacity.free() : free, maxPage(kind));
    const terms = {
      lockVersion: queue?.lockVersion ?? null,
      exclusive: false,
      firstCome: queue?.settings.priority === false,
    };
    const { claimed, mixed } = await this.claims.claim(kind, terms, [{ partition: null, n }], { rateLimited: false });
    return { claimed, more: claimed.length === n || mixed };
  }

  /**
   * Returns how much this process may claim from the internal queue. A busy process leaves the backlog in the database
   * instead of memory. But each second it claims a few workflows, because its busy executions may wait for these.
   */
  private freeForInternalQueue(): number {
    const now = this.engine.clock.now();
    const free = Math.min(maxBusy, this.engine.slotsInUse.capacity.limit) - this.engine.executions.busyCount;
    if (free <= 0 && now - this.trickledAt < trickle.everyMs) return free;
    this.trickledAt = now;
    return Math.max(free, trickle.max);
  }

  private async takeWithinLimits(known: QueueRecord, kind: WorkKind): Promise<Page> {
    const { limits } = known.settings;
    const knownUsage = kind === 'healthy' ? this.knownUsage : undefined;
    this.knownUsage = undefined;
    const here = this.engine.slotsInUse.of(this.name);
    const seen = knownUsage ? usageFromMemory(known, knownUsage, here) : await this.readQueue(known);
    if (!seen) return emptyPage;
    if (!sameSettings(seen.queue, known)) return retryPage;
    const free = freeInFleet(limits, seen.usage);
    // The worker of another queue may have used up the capacity during the query.
    if (this.hasNoCapacity()) return emptyPage;
    const { slotsInUse } = this.engine;
    const ownFree = Math.min(freeHere(limits, slotsInUse.of(this.name)), slotsInUse.capacity.free());
    const n = Math.min(this.pageSize, free, ownFree, maxPage(kind));
    this.full = n <= 0;
    if (this.full) this.left = free <= 0 ? 'barred' : 'full';
    if (this.full) return knownUsage ? retryPage : this.waitForRate(nextStart(limits, seen.usage));
    const { lockVersion } = seen.queue;
    const terms = { lockVersion, exclusive: true, firstCome: !known.settings.priority };
    const { claimed, held } = await this.claims.claim(kind, terms, [{ partition: null, n }], {
      rateLimited: limits.rateLimit !== null,
    });
    // The limits are used up now. Under a rate limit, another check is needed to learn when the next start is allowed.
    const mayContinue = n < free || limits.rateLimit !== null;
    if (claimed.length === 0) return this.takeAgain(held);
    if (claimed.length === free) this.left = 'barred';
    // A full page means that more work probably waits, so the next claim needs no query.
    if (claimed.length === n && limits.rateLimit === null && seen.allKnown && this.claims.allRun(claimed)) {
      this.knownUsage = { lockVersion: lockVersion + 1, elsewhere: seen.usage.elsewhere };
    }
    return { claimed, more: claimed.length === n && mayContinue };
  }

  private async takeByPartition(known: QueueRecord, kind: WorkKind): Promise<Page> {
    const { limits, partition: perPartition } = known.settings;
    if (!perPartition) return emptyPage;
    const exclusive = spansFleet(limits) || spansFleet(perPartition);
    const seen = exclusive ? await this.readQueue(known) : { queue: known, usage: noUsage };
    if (!seen) return emptyPage;
    if (!sameSettings(seen.queue, known)) return retryPage;
    const ownFree = freeHere(limits, this.engine.slotsInUse.of(this.name));
    const free = freeInFleet(limits, seen.usage);
    const slots = Math.min(this.pageSize, free, ownFree, maxPage(kind));
    this.full = slots <= 0;
    if (this.full) this.left = free <= 0 ? 'barred' : 'full';
    if (this.full) return this.waitForRate(nextStart(limits, seen.usage));
    const { shares, blockedUntil, exhausted } = await sharesOfPartitions(this.engine, {
      ...{ queueName: this.name, perPartition, slots, after: this.cursor, rate: this.window(perPartition.rateLimit) },
      ...{ suspects: kind === 'suspect', isStopped: () => this.stopped },
    });
    if (this.hasNoCapacity()) return emptyPage;
    const { portions, last } = shareOut(Math.min(slots, this.engine.slotsInUse.capacity.free()), shares);
    this.full = portions.length === 0 && shares.some(({ most }) => most <= 0);
    if (this.full) this.left = perPartition.workerConcurrency === null ? 'barred' : 'full';
    if (portions.length === 0) return this.waitForRate(blockedUntil);
    const rateLimited = limits.rateLimit !== null || perPartition.rateLimit !== null;
    const terms = { lockVersion: seen.queue.lockVersion, exclusive, firstCome: !known.settings.priority };
    const { claimed, held, mixed } = await this.claims.claim(kind, terms, portions, { rateLimited });
    if (claimed.length > 0) {
      if (last !== undefined) this.cursor = last;
      // Under a rate limit, another check is needed to learn when each partition may start its next workflow.
      return { claimed, more: claimed.length === slots || !exhausted || mixed || perPartition.rateLimit !== null };
    }
    return this.takeAgain(held);
  }

  /** Handles a claim that took nothing. If another process has changed the lock version, work may still wait. */
  private async takeAgain(held: boolean): Promise<Page> {
    if (!held) await this.claims.pauseAfterConflict();
    return held ? emptyPage : retryPage;
  }

  private nothing(left: CheckResult['left']): Page {
    this.left = left;
    return emptyPage;
  }

  /** Returns true if a check that must probe first finds no waiting work. */
  private async isGone(): Promise<boolean> {
    if (!this.probesFirst) return false;
    this.probesFirst = false;
    return !(await this.engine.storage.queues.hasWaiting(this.name));
  }

  /**
   * Reads the queue, because the cached record may be out of date. Returns undefined if the queue is paused or no work
   * waits. `allKnown` is true if this process knows all workflows that the database counts as running here.
   */
  private async readQueue(known: QueueRecord) {
    const rate = this.window(known.settings.limits.rateLimit);
    const { storage, writer, queueCache, slotsInUse, claims } = this.engine;
    const here = slotsInUse.of(this.name);
    const seen = await storage.queues.usage({ name: this.name, executorId: writer.executorId, rate });
    if (seen && !seen.queue.paused) this.left = seen.waiting ? 'unfit' : 'nothing';
    else this.left = 'barred';
    if (!seen || seen.queue.paused || !seen.waiting) return undefined;
    queueCache.put(seen.queue);
    const { running, elsewhere } = seen.usage;
    return { ...seen, allKnown: claims.areSettled && running - elsewhere <= here };
  }

  private window(rateLimit: LimitSettings['rateLimit']): RateWindow | null {
    return rateLimit && { max: rateLimit.max, since: this.engine.clock.now() - rateLimit.perMs };
  }

  private pollCapacity(): void {
    const { clock } = this.engine;
    this.retryTimer?.cancel();
    if (!this.stopped) this.retryTimer = clock.at(clock.now() + capacityPollMs, () => this.wake(), 'background');
  }

  private waitForRate(at: number | undefined): Page {
    this.rateTimer?.cancel();
    // A start counts until its period ends, so the next start is possible only after that.
    if (at !== undefined && !this.stopped) this.rateTimer = this.engine.clock.at(at, () => this.wake());
    return emptyPage;
  }
}
