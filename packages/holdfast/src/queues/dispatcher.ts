import type { Engine } from '../engine/engine.js';
import { runOutsideScope } from '../engine/execution/scope-storage.js';
import { Loop } from '../engine/loop.js';
import type { Topic, WorkListener } from '../engine/wait/news.js';
import { type DueNews, queueOf, type WorkAnswer, type WorkCall } from '../engine/wait/work-signals.js';
import { internalQueue, type QueueSettings } from '../model/queues.js';
import type { BusyQueues, QueueOverview, WaitingWork } from '../storage/contract/queues.js';
import type { Fleet } from './fleet.js';
import { isLimited, spansFleet } from './plan.js';
import { Promotion } from './promotion.js';
import { QueueWorker } from './queue-worker.js';
import { warnOfUnknownQueues } from './unclaimable.js';
import { WorkCalls } from './work-calls.js';

/** Interval of the poll of all queues, in one statement: while notifications arrive, and while they do not. */
const pollMs = { listening: 2_000, notListening: 1_000 };
/** If there are at most this many queues, every poll reads their settings. */
const fewQueues = 100;

/**
 * With more queues, settings are read after a notification of a change, and at an interval: `perQueue` milliseconds
 * for each queue, up to a maximum. Changes by DBOS or SQL send no notification, and a notification may be lost.
 */
const settingsMs = { perQueue: 20, maxListening: 60_000, maxNotListening: 10_000 };

/** Maximum age of the settings while work waits on a queue that is not known here. */
const unknownQueueMs = 10_000;

/** Interval of the query for work on queues that do not exist. */
const strayEveryMs = 60_000;
const firstStrayCheckMs = 5_000;

/** The random part of the poll interval, so that the processes of a fleet do not poll at the same moment. */
const jitter = 0.2;

/**
 * Runs the queues of one app: wakes the worker of a queue when there may be work to claim, and makes DELAYED workflows
 * ENQUEUED when their delay ends. The dispatcher learns of work in its own process at once, and of work in other
 * processes by notifications. A poll of all queues finds everything else.
 */
export class Dispatcher implements WorkListener {
  private readonly workers = new Map<string, QueueWorker>();
  private readonly overview: Loop;
  private readonly calls: WorkCalls;
  private readonly promotion: Promotion;
  /** How many executions of each queue have ended during this event loop turn. */
  private readonly freedSlots = new Map<string, number>();
  private strayCheckAt = Number.POSITIVE_INFINITY;
  /** When the settings of all queues are read next. */
  private settingsDueAt = Number.NEGATIVE_INFINITY;
  private settingsReadAt = Number.NEGATIVE_INFINITY;
  private state: 'launching' | 'running' | 'stopped' = 'launching';

  constructor(
    private readonly engine: Engine,
    private readonly fleet: Fleet,
  ) {
    const { clock, logger } = engine;
    const everyMs = (): number => {
      const ms = engine.news.isListening ? pollMs.listening : pollMs.notListening;
      return Math.round(ms * (1 - jitter / 2 + Math.random() * jitter));
    };
    const runOnce = async (): Promise<void> => {
      if (clock.now() >= this.settingsDueAt) await this.readOverview();
      else this.handleBusy(await engine.storage.queues.busy());
      await this.checkForStrays();
    };
    this.overview = new Loop({ name: 'The poll of the queues', everyMs, clock, logger, runOnce });
    this.calls = new WorkCalls(engine, fleet, {
      look: (queueName, how) => this.workerOf(queueName)?.wake(how),
      waits: (queueName) => engine.storage.queues.hasWaiting(queueName),
    });
    this.promotion = new Promotion(engine, fleet, () => this.overview.wake());
    engine.news.serveWork(this);
    engine.news.subscribe((topic) => this.handleNotification(topic));
    engine.events.on('slotFreed', ({ queueName, wasSuspect }) => this.handleFreed(queueName, wasSuspect));
  }

  /** Starts working on the queues. Resolves after the first poll. */
  async start(): Promise<void> {
    this.state = 'running';
    this.overview.start();
    await this.overview.runNow();
    // The first query for stray work comes after the launch. The launch must not wait for a query that can only lead to
    // a warning.
    this.strayCheckAt = this.engine.clock.now() + firstStrayCheckMs;
  }

  /** Polls all queues now. Resolves when this process has claimed all work that it has capacity for. */
  async pollNow(): Promise<void> {
    await this.overview.runNow();
    await Promise.all([...this.workers.values()].map((worker) => worker.settled()));
  }

  /** Called after the database was restored from a backup: discards what this process knows about the queues. */
  resetAfterRestore(): void {
    this.promotion.resetAfterRestore();
    for (const worker of this.workers.values()) worker.wakeThoroughly();
    this.wake();
  }

  /** Reads everything again: settings and work may have changed on any queue. */
  wake(): void {
    this.settingsDueAt = Number.NEGATIVE_INFINITY;
    this.overview.wake();
  }

  /**
   * Stops permanently. Resolves when no claim is under way: the work of a later claim would belong to an app that is
   * closed.
   */
  async stop(): Promise<void> {
    this.state = 'stopped';
    this.calls.stop();
    const common = [this.overview.stop(), this.promotion.stop()];
    await Promise.all([...common, ...[...this.workers.values()].map((each) => each.stop())]);
  }

  claimsFirst(queueName: string, count: number): boolean {
    if (!this.isRunning || !this.workerOf(queueName)) return false;
    if (this.engine.queueCache.get(queueName)?.paused) return false;
    this.calls.own(queueName, count);
    return true;
  }

  called(call: WorkCall): void {
    if (!this.isRunning) return;
    if (!this.knows(call.queueName)) this.wake();
    else if (this.workerOf(call.queueName)) this.calls.called(call);
  }

  answered(answer: WorkAnswer): void {
    if (this.isRunning) this.calls.answered(answer);
  }

  promoted(due: DueNews): void {
    if (this.isRunning) this.promotion.handleAnnouncement(due);
  }

  /**
   * False during the launch: the first poll finds all work. A claim before that would come before the recovery, and
   * would run on if the launch failed.
   */
  private get isRunning(): boolean {
    return this.state === 'running';
  }

  /** A topic that names a queue comes from this process, or from an older release, which wakes every process. */
  private handleNotification(topic: Topic | null): void {
    if (!this.isRunning) return;
    const queueName = queueOf(topic);
    if (queueName !== undefined && this.knows(queueName)) this.workerOf(queueName)?.wake();
    else if (topic === null || topic === 'queues' || queueName !== undefined) this.wake();
    else if (!isUnrelated(topic)) this.overview.wake();
  }

  private knows(queueName: string): boolean {
    return queueName === internalQueue || this.engine.queueCache.get(queueName) !== undefined;
  }

  /**
   * Called when an execution has ended here. If its queue has fleet-wide limits, any process may fill its slot. This
   * process tries first, because it knows already. It notifies the others only if work waits that it cannot take.
   */
  private handleFreed(queueName: string, wasSuspect: boolean): void {
    const spans = this.limitsOf(queueName).some(spansFleet);
    if (!this.isRunning && spans) this.engine.news.announceToOthers(`queue:${queueName}`);
    if (!this.isRunning) return;
    // Another suspect may wait for this one to end.
    if (wasSuspect) runOutsideScope(() => this.workerOf(queueName)?.wakeThoroughly());
    if (!this.mayUnblock(queueName)) return;
    // The slots are filled at the end of this event loop turn: executions whose ends commit together free their slots
    // together.
    if (this.freedSlots.size === 0) runOutsideScope(() => setImmediate(() => this.refill()));
    this.freedSlots.set(queueName, (this.freedSlots.get(queueName) ?? 0) + 1);
  }

  /** Returns true if work on the queue may have waited for an execution to end. */
  private mayUnblock(queueName: string): boolean {
    if (queueName === internalQueue) return this.workers.get(queueName)?.isFull === true;
    return this.limitsOf(queueName).some(isLimited);
  }

  private limitsOf(queueName: string): readonly QueueSettings['limits'][] {
    const settings = this.engine.queueCache.get(queueName)?.settings;
    return settings ? [settings.limits, ...(settings.partition ? [settings.partition] : [])] : [];
  }

  private refill(): void {
    for (const [queueName, slots] of this.freedSlots) {
      if (!this.isRunning) break;
      if (this.limitsOf(queueName).some(spansFleet)) this.calls.freed(queueName, slots);
      else this.workerOf(queueName)?.wake('refill');
    }
    this.freedSlots.clear();
  }

  private async readOverview(): Promise<void> {
    const { clock, queueCache, news, storage } = this.engine;
    const before = this.settingsDueAt;
    // A notification that arrives during the statement makes the settings due again.
    this.settingsDueAt = Number.POSITIVE_INFINITY;
    try {
      this.handleOverview(await storage.queues.overview());
    } catch (error) {
      this.settingsDueAt = before;
      throw error;
    }
    const count = queueCache.names().length;
    const max = news.isListening ? settingsMs.maxListening : settingsMs.maxNotListening;
    this.settingsReadAt = clock.now();
    const next = count > fewQueues ? this.settingsReadAt + Math.min(count * settingsMs.perQueue, max) : 0;
    this.settingsDueAt = Math.min(this.settingsDueAt, next);
  }

  private handleBusy({ queues, nextDueAt }: BusyQueues): void {
    if (!this.isRunning) return;
    for (const { name, retried, lockVersion } of queues) {
      if (this.wasEdited(name, lockVersion)) this.wake();
      else if (this.knows(name)) this.wakeWorker(name, { waiting: true, retried });
      else this.settingsDueAt = Math.min(this.settingsDueAt, this.settingsReadAt + unknownQueueMs);
    }
    this.promotion.setNextDue(nextDueAt);
  }

  /**
   * Returns true if the queue was edited after its settings were read here. The editing process may have died before
   * it notified the others, and the database refuses every claim under the former lock version. Claims under
   * fleet-wide limits change the lock version too. Such claims read the queue themselves, unless the cached queue is
   * paused.
   */
  private wasEdited(name: string, lockVersion: number | null): boolean {
    const known = this.engine.queueCache.get(name);
    if (!known || known.lockVersion === lockVersion) return false;
    return known.paused || !this.limitsOf(name).some(spansFleet);
  }

  private handleOverview({ queues, internal, nextDueAt }: QueueOverview): void {
    if (!this.isRunning) return;
    this.engine.queueCache.update(queues.map(({ queue }) => queue));
    for (const { queue, ...work } of queues) this.wakeWorker(queue.name, work);
    this.wakeWorker(internalQueue, internal);
    this.promotion.setNextDue(nextDueAt);
  }

  /**
   * Warns of work that SQL or DBOS has put on a queue that does not exist. Without a warning it would wait unnoticed.
   */
  private async checkForStrays(): Promise<void> {
    const now = this.engine.clock.now();
    if (!this.isRunning || now < this.strayCheckAt) return;
    this.strayCheckAt = now + strayEveryMs;
    await warnOfUnknownQueues(this.engine);
  }

  private wakeWorker(queueName: string, { waiting, retried }: WaitingWork): void {
    if (waiting) this.workerOf(queueName)?.wakeThoroughly({ suspects: retried });
  }

  /** Returns the worker of a queue, or undefined if this process does not work on the queue. */
  private workerOf(name: string): QueueWorker | undefined {
    if (name !== internalQueue) {
      if (!this.engine.worksOn(name)) return undefined;
      const queue = this.engine.queueCache.get(name);
      if (!queue || (queue.appName !== null && queue.appName !== this.engine.writer.appName)) return undefined;
    }
    let worker = this.workers.get(name);
    if (!worker) {
      worker = new QueueWorker(this.engine, this.fleet, name, () => {
        const calls = this.calls.begin(name);
        return (verdict) => this.calls.end(calls, verdict);
      });
      this.workers.set(name, worker);
    }
    return worker;
  }
}

const unrelatedTopics: ReadonlySet<Topic> = new Set(['schedules', 'cancelled', 'ended', 'takeover']);

/** Returns true for topics that are not about queues. */
function isUnrelated(topic: Topic | null): boolean {
  return topic !== null && (unrelatedTopics.has(topic) || /^(message|event|stream):/.test(topic));
}
