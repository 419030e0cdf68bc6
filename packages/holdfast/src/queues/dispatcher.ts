import type { Engine } from '../engine/engine.js';
import { outside } from '../engine/execution/scope-storage.js';
import { Loop } from '../engine/loop.js';
import type { Topic, WorkListener } from '../engine/wait/news.js';
import { type DueNews, queueOf, type WorkAnswer, type WorkCall } from '../engine/wait/work-signals.js';
import { internalQueue, type QueueSettings } from '../model/queues.js';
import type { BusyQueues, QueueOverview, WaitingWork } from '../storage/contract/queues.js';
import { isLimited, spansFleet } from './plan.js';
import { Promotion } from './promotion.js';
import { QueueWorker } from './queue-worker.js';
import { warnOfStrays } from './unclaimable.js';
import { WorkCalls } from './work-calls.js';

/** How often all queues are looked at, in one statement, when news of other processes arrives, and when it does not. */
const pollMs = { hearing: 2_000, deaf: 1_000 };
/** The settings of so many queues are read with every look. */
const fewQueues = 100;

/**
 * Those of more are read after news of a change, and otherwise so often for each queue, and at least so often: what DBOS or SQL
 * has changed is in no news, nor is a change of a process that is not heard.
 */
const settingsMs = { perQueue: 20, maxHearing: 60_000, maxDeaf: 10_000 };

/** The same if work waits on a queue that is not known here. */
const unknownQueueMs = 10_000;

/** How often it is looked for work on queues that do not exist. */
const strayEveryMs = 60_000;
const firstStrayLookMs = 5_000;

/** Part of the pace of a poll that is left to chance, so that the processes of a fleet do not poll in step. */
const jitter = 0.2;

/**
 * Works on queues: tells the worker of a queue when there may be something to take, and makes DELAYED workflows
 * ENQUEUED when their time has come. In one process it knows of that at once; from others it hears by news. A poll of
 * everything is the net under that.
 */
export class Dispatcher implements WorkListener {
  private readonly workers = new Map<string, QueueWorker>();
  private readonly overview: Loop;
  private readonly calls: WorkCalls;
  private readonly promotion: Promotion;
  /** How many executions of each queue have ended in this turn of the event loop. */
  private readonly freedSlots = new Map<string, number>();
  private strayLookAt = Number.POSITIVE_INFINITY;
  /** When the settings of all queues are to be read next. */
  private settingsDueAt = Number.NEGATIVE_INFINITY;
  private settingsReadAt = Number.NEGATIVE_INFINITY;
  private stopped = false;

  constructor(private readonly engine: Engine) {
    const { clock, logger } = engine;
    const everyMs = (): number => {
      const ms = engine.news.isListening ? pollMs.hearing : pollMs.deaf;
      return Math.round(ms * (1 - jitter / 2 + Math.random() * jitter));
    };
    const runOnce = async (): Promise<void> => {
      if (clock.now() >= this.settingsDueAt) await this.readOverview();
      else this.lookAtBusy(await engine.storage.queues.busy());
      await this.lookForStrays();
    };
    this.overview = new Loop({ name: 'The look at the queues', everyMs, clock, logger, runOnce });
    this.calls = new WorkCalls(engine, {
      look: (queueName, how) => this.workerOf(queueName)?.wake(how),
      waits: (queueName) => engine.storage.queues.waits(queueName),
    });
    this.promotion = new Promotion(engine, () => this.overview.wake());
    engine.news.worker = this;
    engine.news.subscribe((topic) => this.heard(topic));
    engine.queueLoad.onFreed = (queueName, wasSuspect) => this.freed(queueName, wasSuspect);
  }

  /** Takes up work; resolves when it has looked once. */
  async start(): Promise<void> {
    this.overview.start();
    await this.overview.runNow();
    // Later than the launch, which is not to wait for what is only a warning.
    this.strayLookAt = this.engine.clock.now() + firstStrayLookMs;
  }

  /** Looks at everything now. Resolves when what there is room for has been taken. */
  async takeUp(): Promise<void> {
    await this.overview.runNow();
    await Promise.all([...this.workers.values()].map((worker) => worker.settled()));
  }

  /** Nothing that is known here is certain any more. */
  forget(): void {
    this.promotion.forget();
    for (const worker of this.workers.values()) worker.wakeThoroughly();
    this.wake();
  }

  /** Something may have changed anywhere. */
  wake(): void {
    this.settingsDueAt = Number.NEGATIVE_INFINITY;
    this.overview.wake();
  }

  /** For good. Resolves when nothing is being taken any more: a later claim would be left to a closed app. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.calls.stop();
    const common = [this.overview.stop(), this.promotion.stop()];
    await Promise.all([...common, ...[...this.workers.values()].map((each) => each.stop())]);
  }

  looksFirst(queueName: string, count: number): boolean {
    if (this.stopped || !this.workerOf(queueName)) return false;
    if (this.engine.queueCache.get(queueName)?.paused) return false;
    this.calls.own(queueName, count);
    return true;
  }

  called(call: WorkCall): void {
    if (this.stopped) return;
    if (!this.knows(call.queueName)) this.wake();
    else if (this.workerOf(call.queueName)) this.calls.called(call);
  }

  answered(answer: WorkAnswer): void {
    if (!this.stopped) this.calls.answered(answer);
  }

  promoted(due: DueNews): void {
    this.promotion.wasDone(due);
  }

  /** A topic about a queue comes from here, or from an older release, which wakes everybody. */
  private heard(topic: Topic | null): void {
    if (this.stopped) return;
    const queueName = queueOf(topic);
    if (queueName !== undefined && this.knows(queueName)) this.workerOf(queueName)?.wake();
    else if (topic === null || topic === 'queues' || queueName !== undefined) this.wake();
    else if (!concernsOthers(topic)) this.overview.wake();
  }

  private knows(queueName: string): boolean {
    return queueName === internalQueue || this.engine.queueCache.get(queueName) !== undefined;
  }

  /**
   * An execution has ended here. If its queue has limits for the whole fleet, its slot may be taken by any process: by
   * this one first, which knows of it already. The others are told only if work waits that this one cannot take.
   */
  private freed(queueName: string, wasSuspect: boolean): void {
    const spans = this.limitsOf(queueName).some(spansFleet);
    if (this.stopped && spans) this.engine.news.announceToOthers(`queue:${queueName}`);
    if (this.stopped) return;
    // Another one may be waiting for it to end.
    if (wasSuspect) outside(() => this.workerOf(queueName)?.wakeThoroughly());
    if (!this.makesRoom(queueName)) return;
    // At the end of this turn of the event loop: what ends with one commit makes room together.
    if (this.freedSlots.size === 0) outside(() => setImmediate(() => this.refill()));
    this.freedSlots.set(queueName, (this.freedSlots.get(queueName) ?? 0) + 1);
  }

  /** Whether what waits there may have waited for this. */
  private makesRoom(queueName: string): boolean {
    if (queueName === internalQueue) return this.workers.get(queueName)?.isFull === true;
    return this.limitsOf(queueName).some(isLimited);
  }

  private limitsOf(queueName: string): readonly QueueSettings['limits'][] {
    const settings = this.engine.queueCache.get(queueName)?.settings;
    return settings ? [settings.limits, ...(settings.partition ? [settings.partition] : [])] : [];
  }

  private refill(): void {
    for (const [queueName, slots] of this.freedSlots) {
      if (this.stopped) break;
      if (this.limitsOf(queueName).some(spansFleet)) this.calls.freed(queueName, slots);
      else this.workerOf(queueName)?.wake('refill');
    }
    this.freedSlots.clear();
  }

  private async readOverview(): Promise<void> {
    const { clock, queueCache, news, storage } = this.engine;
    const before = this.settingsDueAt;
    // News that come meanwhile make them due again.
    this.settingsDueAt = Number.POSITIVE_INFINITY;
    try {
      this.look(await storage.queues.overview());
    } catch (error) {
      this.settingsDueAt = before;
      throw error;
    }
    const count = queueCache.names().length;
    const most = news.isListening ? settingsMs.maxHearing : settingsMs.maxDeaf;
    this.settingsReadAt = clock.now();
    const next = count > fewQueues ? this.settingsReadAt + Math.min(count * settingsMs.perQueue, most) : 0;
    this.settingsDueAt = Math.min(this.settingsDueAt, next);
  }

  private lookAtBusy({ queues, nextDueAt }: BusyQueues): void {
    if (this.stopped) return;
    for (const { name, retried, lockVersion } of queues) {
      if (this.wasEdited(name, lockVersion)) this.wake();
      else if (this.knows(name)) this.lookAt(name, { waiting: true, retried });
      else this.settingsDueAt = Math.min(this.settingsDueAt, this.settingsReadAt + unknownQueueMs);
    }
    this.promotion.nextIs(nextDueAt);
  }

  /**
   * Whether the settings that are known here are older than the queue: the process that edited it died before it told of that, and
   * every claim under the former turn is refused. Claims under limits of the fleet move the turn on as well; these read the queue
   * themselves, unless it is thought to be paused.
   */
  private wasEdited(name: string, lockVersion: number | null): boolean {
    const known = this.engine.queueCache.get(name);
    if (!known || known.lockVersion === lockVersion) return false;
    return known.paused || !this.limitsOf(name).some(spansFleet);
  }

  private look({ queues, internal, nextDueAt }: QueueOverview): void {
    if (this.stopped) return;
    this.engine.queueCache.update(queues.map(({ queue }) => queue));
    for (const { queue, ...work } of queues) this.lookAt(queue.name, work);
    this.lookAt(internalQueue, internal);
    this.promotion.nextIs(nextDueAt);
  }

  /** What SQL or DBOS has put on a queue that nobody has registered would wait in silence. */
  private async lookForStrays(): Promise<void> {
    const now = this.engine.clock.now();
    if (this.stopped || now < this.strayLookAt) return;
    this.strayLookAt = now + strayEveryMs;
    await warnOfStrays(this.engine);
  }

  private lookAt(queueName: string, { waiting, retried }: WaitingWork): void {
    if (waiting) this.workerOf(queueName)?.wakeThoroughly({ suspects: retried });
  }

  /** The worker of a queue, if this process works on it. */
  private workerOf(name: string): QueueWorker | undefined {
    if (name !== internalQueue) {
      if (!this.engine.worksOn(name)) return undefined;
      const queue = this.engine.queueCache.get(name);
      if (!queue || (queue.appName !== null && queue.appName !== this.engine.writer.appName)) return undefined;
    }
    let worker = this.workers.get(name);
    if (!worker) {
      worker = new QueueWorker(this.engine, name, () => {
        const calls = this.calls.begin(name);
        return (verdict) => this.calls.end(calls, verdict);
      });
      this.workers.set(name, worker);
    }
    return worker;
  }
}

const others: ReadonlySet<Topic> = new Set(['schedules', 'cancelled', 'ended', 'takeover']);

function concernsOthers(topic: Topic | null): boolean {
  return topic !== null && (others.has(topic) || /^(message|event|stream):/.test(topic));
}
