import type { Engine } from '../engine/engine.js';
import { runOutsideScope } from '../engine/execution/scope-storage.js';
import { Loop } from '../engine/loop.js';
import type { Retried } from '../engine/write/outage-log.js';
import type { Timer } from '../model/clock.js';
import type { Cron } from '../model/cron.js';
import { describeError } from '../model/errors.js';
import { describeKey } from '../model/workflow-key.js';
import type { ScheduledRun, ScheduleRecord } from '../storage/contract/schedules.js';
import { dueTicks } from './due.js';
import { cronOf } from './info.js';
import { announceRuns, sourceOf, tickId, toRun } from './runs.js';
import { defaultCatchUpLimit, keyOf } from './schedule.js';
import { appNameOf, checkQueue } from './settings.js';

/**
 * How often schedules are read, give or take a tenth. A notification of a change also makes the scheduler read them.
 */
const reloadMs = 5_000;
const jitter = 0.1;

/** Delay before retrying a tick after a failure of the database. Retries end when the tick counts as missed. */
const retryMs = 1_000;

/** An active schedule that this process can run. */
interface Ticking {
  readonly record: ScheduleRecord;
  readonly cron: Cron;
  /** This process has handled all ticks up to this instant. */
  readonly handledUntil: number;
  /** When the next tick, or the retry of a failed one, is due. */
  readonly dueAt: number;
  /** True after a statement failed without an answer. The run of its tick may exist nevertheless. */
  readonly unsure: boolean;
}

/**
 * Starts the runs of an app's schedules. Every process tries to insert the run of a tick under the same ID, and
 * one of them succeeds. Losing that race costs one statement.
 *
 * The schedules that a process has read may be out of date at any moment. The statement that fires a tick does
 * nothing if the stored schedule has changed. Once this process reads the change, it follows the schedule from its
 * stored last tick, or from the change if that is later. Therefore no tick is lost.
 *
 * A process ignores schedules whose workflow it has not registered: it does not know how to encode the arguments, nor
 * the timeout.
 */
export class Scheduler {
  private readonly loop: Loop;
  private readonly ticking = new Map<string, Ticking>();
  private readonly firing = new Map<string, Promise<void>>();
  private alarm: Timer | undefined;
  private stale = true;
  private readAt = Number.NEGATIVE_INFINITY;
  private stopped = false;
  private crashed = false;

  constructor(private readonly engine: Engine) {
    const { clock, logger, news } = engine;
    const everyMs = (): number => Math.round(reloadMs * (1 - jitter + Math.random() * 2 * jitter));
    this.loop = new Loop({ name: 'The scheduler', everyMs, clock, logger, runOnce: () => this.runOnce() });
    news.subscribe((topic) => {
      if (topic === 'schedules' || topic === null) this.wake();
    });
  }

  /** Resolves when the schedules have been read and the ticks that were due have fired. */
  async start(): Promise<void> {
    this.loop.start();
    await this.loop.runNow();
    await Promise.all(this.firing.values());
  }

  /** Reads the schedules again: schedules or registered workflows may have changed. */
  wake(): void {
    this.stale = true;
    // The caller may be the code of a workflow, and the loop must not run in the scope of that workflow.
    runOutsideScope(() => this.loop.wake());
  }

  /** Called after the database was restored from a backup: follows each schedule from its stored last tick. */
  resetAfterRestore(): void {
    this.ticking.clear();
    this.wake();
  }

  /** Stops permanently. Resolves when no tick is being fired. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.alarm?.cancel();
    await this.loop.stop();
    await Promise.all(this.firing.values());
  }

  /** Stops as a crash would: sends no further statement. */
  async abandon(): Promise<void> {
    this.crashed = true;
    await this.stop();
  }

  private async runOnce(): Promise<void> {
    try {
      const age = Math.abs(this.engine.clock.now() - this.readAt);
      if (this.stale || age >= reloadMs * (1 - jitter)) await this.load();
    } finally {
      // Due ticks fire even if reading failed: the schedules that were read before are probably still correct.
      for (const name of this.ticking.keys()) this.fireSoon(name);
      this.setAlarm();
    }
  }

  private async load(): Promise<void> {
    const { storage, clock } = this.engine;
    this.stale = false;
    const records = await storage.schedules.list(appNameOf(this.engine)).catch((error) => {
      this.stale = true;
      throw error;
    });
    this.readAt = clock.now();
    const known = new Map(this.ticking);
    this.ticking.clear();
    for (const record of records) {
      const ticking = record.status === 'ACTIVE' && this.follow(record, known.get(record.name));
      if (ticking) this.ticking.set(record.name, ticking);
    }
  }

  /**
   * Returns the state of a schedule that was read. A schedule with changed terms is followed from its stored last
   * tick, not from `handledUntil` of this process: ticks handled under the old terms do not count. Ticks that have a
   * run already are recognized by its ID.
   */
  private follow(record: ScheduleRecord, known: Ticking | undefined): Ticking | undefined {
    if (!this.canRun(record)) return undefined;
    const unchanged = known && sameTerms(known.record, record) ? known : undefined;
    // For a schedule that never ran, DBOS stores neither instant. Such a schedule is followed from when it was first
    // read.
    const firstSeen = unchanged?.handledUntil ?? this.engine.clock.now();
    const baseline = Math.max(record.lastFiredAt ?? 0, record.activeSince ?? 0) || firstSeen;
    if (unchanged && baseline <= unchanged.handledUntil) return { ...unchanged, record };
    try {
      const cron = unchanged?.cron ?? cronOf(record);
      return { record, cron, handledUntil: baseline, dueAt: nextTick(cron, baseline), unsure: false };
    } catch (error) {
      // Another program stored the expression, or a later version that supports more of cron.
      this.engine.warnOnce(
        `cron of ${record.name}`,
        `Schedule "${record.name}" does not tick: ${describeError(error)}`,
      );
      return undefined;
    }
  }

  private canRun(record: ScheduleRecord): boolean {
    const [{ name }, key] = [record, keyOf(record)];
    if (this.engine.registry.get(key)) return true;
    this.engine.warnOnce(
      `workflow of ${name}`,
      `Schedule "${name}" runs the workflow "${describeKey(key)}", which is not registered in this process, so ` +
        'other processes must run its ticks. Give the workflow to launch() or app.register(), or delete the schedule.',
    );
    return false;
  }

  /** Does not wait for the statement: a statement that waits for a lock must not delay other schedules. */
  private fireSoon(name: string): void {
    if (this.firing.has(name)) return;
    const firing = this.fireDue(name).finally(() => {
      this.firing.delete(name);
      this.setAlarm();
    });
    this.firing.set(name, firing);
  }

  private setAlarm(): void {
    this.alarm?.cancel();
    const idle = [...this.ticking].filter(([name]) => !this.firing.has(name));
    const next = Math.min(...idle.map(([, each]) => each.dueAt));
    if (this.stopped || next === Number.POSITIVE_INFINITY) return;
    this.alarm = this.engine.clock.at(next, () => this.loop.wake(), 'tick');
  }

  /** Never rejects: the failure of one schedule must not affect the others. */
  private async fireDue(name: string): Promise<void> {
    const now = this.engine.clock.now();
    const ticking = this.ticking.get(name);
    if (!ticking || now < ticking.dueAt || this.stopped) return;
    const { record, cron, handledUntil } = ticking;
    const policy = { catchUp: record.catchUp, catchUpLimit: record.catchUpLimit ?? defaultCatchUpLimit };
    const { ticks, dropped } = dueTicks(cron, policy, handledUntil, now);
    if (dropped) this.warnOfDropped(name, policy.catchUpLimit);
    const runs = await this.makeRuns(record, ticks);
    const fired = runs.length === 0 || (await this.fire(ticking, runs, Math.max(...ticks)));
    const next = fired
      ? { handledUntil: now, dueAt: nextTick(cron, now), unsure: false }
      : { dueAt: now + retryMs, unsure: true };
    // If the schedule has changed during the statement, `load` has set its state already.
    const current = this.ticking.get(name);
    if (current && sameTerms(current.record, record)) this.ticking.set(name, { ...current, ...next });
  }

  private warnOfDropped(name: string, limit: number): void {
    this.engine.logger.warn(
      `Schedule "${name}" has missed more ticks than its catchUpLimit. Only the latest ${limit} of them run now. ` +
        'Call app.schedules.backfill() to run the others.',
    );
  }

  /**
   * Returns no runs if the arguments do not match the schema of the workflow, or the stored context cannot be read.
   */
  private async makeRuns(record: ScheduleRecord, ticks: readonly number[]): Promise<ScheduledRun[]> {
    const { engine } = this;
    const { name, queueName } = record;
    if (ticks.length === 0) return [];
    try {
      const queue = queueName === null ? undefined : engine.queueCache.get(queueName);
      if (queue?.settings.partition) await checkQueue(engine, `Schedule "${name}"`, queueName);
      const source = await sourceOf(engine, record);
      return await Promise.all(ticks.map((tick) => toRun(engine, source, tickId(name, tick), tick)));
    } catch (error) {
      engine.logger.error(`Schedule "${name}" does not run this time: ${describeError(error)}`);
      return [];
    }
  }

  /** Returns false if the tick must be tried again. */
  private async fire(ticking: Ticking, runs: readonly ScheduledRun[], lastTick: number): Promise<boolean> {
    const { engine } = this;
    const { storage, clock, logger } = engine;
    const { record: schedule } = ticking;
    try {
      const created = await storage.schedules.fire({ schedule, runs, evenIfPaused: false, now: clock.now() });
      if (this.crashed) return true;
      if (created.size > 0) announceRuns(engine, schedule);
      else await this.warnIfQueueMissing(schedule);
      // The process that started the run records the tick. If it crashes before that, the run's ID still shows that
      // the tick has run.
      if (created.size > 0 || (ticking.unsure && (await this.hasRun(schedule.name, lastTick)))) {
        await storage.schedules.markFired({ name: schedule.name, scheduledAt: lastTick });
      }
      return true;
    } catch (error) {
      if (this.crashed) return true;
      const refused = storage.classify(error) === 'refused';
      const next = refused ? '' : ' and is tried again soon';
      const message = `Schedule "${schedule.name}" could not be run${next}: ${describeError(error)}`;
      logger.warn(message, { retriedAfter: error } satisfies Retried);
      return refused;
    }
  }

  private async hasRun(name: string, scheduledAt: number): Promise<boolean> {
    return (await this.engine.storage.schedules.taken([tickId(name, scheduledAt)])).size > 0;
  }

  /** Warns if the queue is missing. Otherwise another process has started the run, which is normal. */
  private async warnIfQueueMissing({ name, queueName }: ScheduleRecord): Promise<void> {
    if (queueName === null) return;
    await this.engine.queueCache.require(queueName).catch((error) => {
      this.engine.warnOnce(
        `queue of ${name}`,
        `Schedule "${name}" does not run while its queue is missing. ${describeError(error)}`,
      );
    });
  }
}

function nextTick(cron: Cron, after: number): number {
  return cron.next(after) ?? Number.POSITIVE_INFINITY;
}

/**
 * Returns true if both records have the same ticks, and run the same workflow with the same context.
 */
function sameTerms(a: ScheduleRecord, b: ScheduleRecord): boolean {
  const terms = ['cron', 'timezone', 'context', 'workflowName', 'className', 'activeSince'] as const;
  return terms.every((term) => a[term] === b[term]);
}
