import { outside } from '../engine/carrier.js';
import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import type { Topic } from '../engine/news.js';
import type { Retried } from '../engine/outage-log.js';
import type { Timer } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import { internalQueue } from '../model/queues.js';
import type { QueueOverview, WaitingWork } from '../storage/queues.js';
import { isLimited, spansFleet } from './plan.js';
import { QueueWorker } from './queue-worker.js';
import { warnOfStrays } from './unclaimable.js';

/** How often all queues are looked at, in one statement, when news of other processes arrives, and when it does not. */
const pollMs = { hearing: 2_000, deaf: 1_000 };
const promotePage = 1_000;
/** How often it is looked for work on queues that do not exist. */
const strayEveryMs = 60_000;
const firstStrayLookMs = 5_000;
/** How long a due workflow that somebody holds on to is left alone. */
const heldMs = 1_000;

/** Part of the pace of a poll that is left to chance, so that the processes of a fleet do not poll in step. */
const jitter = 0.2;

/**
 * Works on queues: tells the worker of a queue when there may be something to take, and makes DELAYED workflows
 * ENQUEUED when their time has come. In one process it knows of that at once; from others it hears by news. A poll of
 * everything is the net under that.
 */
export class Dispatcher {
  private readonly workers = new Map<string, QueueWorker>();
  private readonly overview: Loop;
  private dueTimer: { readonly at: number; readonly timer: Timer } | undefined;
  private promoting: Promise<void> | undefined;
  /** When due workflows were last looked for in vain. */
  private nothingDueAt = Number.NEGATIVE_INFINITY;
  /** Queues of which executions have ended in this turn of the event loop. */
  private readonly freedQueues = new Set<string>();
  private strayLookAt = Number.POSITIVE_INFINITY;
  private stopped = false;

  constructor(private readonly engine: Engine) {
    const { clock, logger } = engine;
    const everyMs = (): number => {
      const ms = engine.news.hearsOthers ? pollMs.hearing : pollMs.deaf;
      return Math.round(ms * (1 - jitter / 2 + Math.random() * jitter));
    };
    const runOnce = async (): Promise<void> => {
      this.look(await engine.storage.queues.overview());
      await this.lookForStrays();
    };
    this.overview = new Loop({ name: 'The look at the queues', everyMs, clock, logger, runOnce });
    engine.news.listen((topic) => this.heard(topic));
    engine.load.onFreed = (queueName, wasSuspect) => this.freed(queueName, wasSuspect);
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
    this.nothingDueAt = Number.NEGATIVE_INFINITY;
    for (const worker of this.workers.values()) worker.wakeThoroughly();
    this.overview.wake();
  }

  /** Something may have changed anywhere. */
  wake(): void {
    this.overview.wake();
  }

  /** For good. Resolves when nothing is being taken any more: a later claim would be left to a closed app. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.dueTimer?.timer.cancel();
    await Promise.all([this.overview.stop(), this.promoting, ...[...this.workers.values()].map((each) => each.stop())]);
  }

  private heard(topic: Topic | null): void {
    if (this.stopped) return;
    const name = topic?.startsWith('queue:') ? topic.slice('queue:'.length) : undefined;
    const isKnown = name === internalQueue || (name !== undefined && this.engine.directory.known(name) !== undefined);
    if (name !== undefined && isKnown) this.workerOf(name)?.wake();
    else if (!concernsOthers(topic)) this.overview.wake();
  }

  /**
   * An execution has ended here. If its queue has limits for the whole fleet, its slot may be taken by any process: by
   * this one first, which knows of it already. The others hear of it too, in case this one has no use for it.
   */
  private freed(queueName: string, wasSuspect: boolean): void {
    // Another one may be waiting for it to end.
    if (wasSuspect && !this.stopped) outside(() => this.workerOf(queueName)?.wakeThoroughly());
    if (this.stopped || !this.makesRoom(queueName)) return;
    // At the end of this turn of the event loop: what ends with one commit makes room together.
    if (this.freedQueues.size === 0) outside(() => setImmediate(() => this.refill()));
    this.freedQueues.add(queueName);
  }

  /** Whether what waits there may have waited for this. */
  private makesRoom(queueName: string): boolean {
    if (queueName === internalQueue) return this.workers.get(queueName)?.isFull === true;
    const settings = this.engine.directory.known(queueName)?.settings;
    if (!settings) return false;
    const limits = [settings.limits, ...(settings.partition ? [settings.partition] : [])];
    if (limits.some(spansFleet)) this.engine.news.tellOthers(`queue:${queueName}`);
    return limits.some(isLimited);
  }

  private refill(): void {
    for (const queueName of this.freedQueues) if (!this.stopped) this.workerOf(queueName)?.freed();
    this.freedQueues.clear();
  }

  private look({ queues, internal, nextDueAt }: QueueOverview): void {
    if (this.stopped) return;
    this.engine.directory.update(queues.map(({ queue }) => queue));
    for (const { queue, ...work } of queues) this.lookAt(queue.name, work);
    this.lookAt(internalQueue, internal);
    this.promoteAt(nextDueAt);
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
      const queue = this.engine.directory.known(name);
      if (!queue || (queue.appName !== null && queue.appName !== this.engine.writer.appName)) return undefined;
    }
    let worker = this.workers.get(name);
    if (!worker) {
      worker = new QueueWorker(this.engine, name);
      this.workers.set(name, worker);
    }
    return worker;
  }

  private promoteAt(due: number | null): void {
    // What was due then, and still is, somebody holds on to: to try at once, and again at once, would be in vain too.
    const at = due !== null && due <= this.nothingDueAt ? this.nothingDueAt + heldMs : due;
    if (at === this.dueTimer?.at) return;
    this.dueTimer?.timer.cancel();
    this.dueTimer = undefined;
    if (at === null) return;
    const timer = this.engine.clock.at(at, () => {
      this.dueTimer = undefined;
      this.promoting = this.promote()
        // After a failure the poll sets the next try.
        .then(() => this.overview.wake())
        .catch((error) => {
          const message = `Delayed workflows could not be enqueued, next try soon: ${describeError(error)}`;
          this.engine.logger.warn(message, { retriedAfter: error } satisfies Retried);
        });
    });
    this.dueTimer = { at, timer };
  }

  /** Every process that is up does this at the same instant; one of them gets to. */
  private async promote(): Promise<void> {
    const { storage, clock, news } = this.engine;
    for (;;) {
      const now = clock.now();
      const queues = await storage.workflows.promoteDue({ now, limit: promotePage });
      if (queues.length === 0) this.nothingDueAt = now;
      for (const name of new Set(queues)) news.tell(`queue:${name}`);
      if (queues.length < promotePage) return;
    }
  }
}

const others: ReadonlySet<Topic> = new Set(['schedules', 'cancelled', 'ended', 'takeover']);

function concernsOthers(topic: Topic | null): boolean {
  return topic !== null && (others.has(topic) || /^(message|event|stream):/.test(topic));
}
