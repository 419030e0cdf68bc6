import type { Engine } from '../engine/engine.js';
import { outside } from '../engine/execution/scope-storage.js';
import { Loop } from '../engine/loop.js';
import type { Retried } from '../engine/write/outage-log.js';
import type { Timer } from '../model/clock.js';
import type { Cron } from '../model/cron.js';
import { describeError } from '../model/errors.js';
import { describeKey } from '../model/workflow-key.js';
import type { ScheduledRun, ScheduleRecord } from '../storage/contract/schedules.js';
import { dueTicks } from './due.js';
import { cronOf } from './info.js';
import { sourceOf, tellOfRuns, tickId, toRun } from './runs.js';
import { defaultCatchUpLimit, keyOf } from './schedule.js';
import { appNameOf, checkQueue } from './settings.js';

/** Schedules are read again at news of a change, and this often in any case, give or take a tenth. */
const reloadMs = 5_000;
const jitter = 0.1;

/** A tick that the database did not take is tried again after this long, until it has been missed. */
const retryMs = 1_000;

/** A schedule that ticks. */
interface Ticking {
  readonly record: ScheduleRecord;
  readonly cron: Cron;
  /** Ticks up to here are no longer this process's concern. */
  readonly handledUntil: number;
  /** When to look at it next. */
  readonly dueAt: number;
  /** A statement was not answered: the next one may find as taken what that one has started. */
  readonly unsure: boolean;
}

/**
 * Starts the runs of an app's schedules, in every process alike: all try to insert a tick's run under the same ID, and
 * one of them succeeds. To lose that race costs one statement.
 *
 * What a process knows of a schedule may be out of date at any moment. The statement that fires a tick does nothing
 * then, and the change, once it is known here, is followed from its own beginning: no tick is lost by that.
 *
 * A process leaves alone what it has no workflow for. It would not know how to store the arguments, nor the timeout.
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

  /** Resolves when it has looked once. */
  async start(): Promise<void> {
    this.loop.start();
    await this.loop.runNow();
    await Promise.all(this.firing.values());
  }

  /** Schedules, or the workflows that they run, may have changed. */
  wake(): void {
    this.stale = true;
    // Whoever brings the news may be code of a workflow.
    outside(() => this.loop.wake());
  }

  /** What was fired may not be on record any more: each schedule is followed from where its record says. */
  forget(): void {
    this.ticking.clear();
    this.wake();
  }

  /** For good. Resolves when nothing is being fired any more. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.alarm?.cancel();
    await this.loop.stop();
    await Promise.all(this.firing.values());
  }

  /** As a crash would: not another statement. */
  async abandon(): Promise<void> {
    this.crashed = true;
    await this.stop();
  }

  private async runOnce(): Promise<void> {
    try {
      const age = Math.abs(this.engine.clock.now() - this.readAt);
      if (this.stale || age >= reloadMs * (1 - jitter)) await this.load();
    } finally {
      // Also with what was known before: it may well be as it was.
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
   * What was fired under other terms was not fired: a changed schedule is followed from where its record says, not from
   * where this process had got with it. Ticks that were run after all are found by their IDs.
   */
  private follow(record: ScheduleRecord, known: Ticking | undefined): Ticking | undefined {
    if (!this.canRun(record)) return undefined;
    const same = known && sameTerms(known.record, record) ? known : undefined;
    // DBOS stores neither for a schedule that never ran: then it is followed from when it was first seen.
    const firstSeen = same?.handledUntil ?? this.engine.clock.now();
    const baseline = Math.max(record.lastFiredAt ?? 0, record.activeSince ?? 0) || firstSeen;
    if (same && baseline <= same.handledUntil) return { ...same, record };
    try {
      const cron = same?.cron ?? cronOf(record);
      return { record, cron, handledUntil: baseline, dueAt: nextTick(cron, baseline), unsure: false };
    } catch (error) {
      // Stored by another program, or by a version that knows more of cron.
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
      `Schedule "${name}" runs the workflow "${describeKey(key)}", which is not registered in this process: its ticks are ` +
        'left to others. Give the workflow to launch() or app.register(), or delete the schedule.',
    );
    return false;
  }

  /** Not waited for: a schedule whose statement is held up must not hold up the others. */
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
    const resting = [...this.ticking].filter(([name]) => !this.firing.has(name));
    const next = Math.min(...resting.map(([, each]) => each.dueAt));
    if (this.stopped || next === Number.POSITIVE_INFINITY) return;
    this.alarm = this.engine.clock.at(next, () => this.loop.wake(), 'tick');
  }

  /** Never fails: one schedule must not hold up the others. */
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
    // It may have been changed meanwhile, and is then followed from the beginning of that.
    const current = this.ticking.get(name);
    if (current && sameTerms(current.record, record)) this.ticking.set(name, { ...current, ...next });
  }

  private warnOfDropped(name: string, limit: number): void {
    this.engine.logger.warn(
      `Schedule "${name}" has missed more ticks than its catchUpLimit allows it to catch up with: the latest ${limit} ` +
        'are run. app.schedules.backfill() runs the others.',
    );
  }

  /** None if they cannot be made, now or ever: the arguments do not fit the workflow, or cannot be read. */
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
      engine.logger.error(`Schedule "${name}" is not run this time: ${describeError(error)}`);
      return [];
    }
  }

  /** Returns false if it is to be tried again. */
  private async fire(ticking: Ticking, runs: readonly ScheduledRun[], lastTick: number): Promise<boolean> {
    const { engine } = this;
    const { storage, clock, logger } = engine;
    const { record: schedule } = ticking;
    try {
      const created = await storage.schedules.fire({ schedule, runs, evenIfPaused: false, now: clock.now() });
      if (this.crashed) return true;
      if (created.size > 0) tellOfRuns(engine, schedule);
      else await this.explainNothing(schedule);
      // Who started it notes it. If that is lost, the ID still says that the tick was run.
      if (created.size > 0 || (ticking.unsure && (await this.isTaken(schedule.name, lastTick)))) {
        await storage.schedules.markFired({ name: schedule.name, scheduledAt: lastTick });
      }
      return true;
    } catch (error) {
      if (this.crashed) return true;
      const refused = storage.classify(error) === 'refused';
      const next = refused ? '' : ', next try soon';
      const message = `Schedule "${schedule.name}" could not be run${next}: ${describeError(error)}`;
      logger.warn(message, { retriedAfter: error } satisfies Retried);
      return refused;
    }
  }

  private async isTaken(name: string, scheduledAt: number): Promise<boolean> {
    return (await this.engine.storage.schedules.taken([tickId(name, scheduledAt)])).size > 0;
  }

  /** As a rule another process was first. */
  private async explainNothing({ name, queueName }: ScheduleRecord): Promise<void> {
    if (queueName === null) return;
    await this.engine.queueCache.require(queueName).catch((error) => {
      this.engine.warnOnce(
        `queue of ${name}`,
        `Schedule "${name}" is not run as long as its queue is missing. ${describeError(error)}`,
      );
    });
  }
}

function nextTick(cron: Cron, after: number): number {
  return cron.next(after) ?? Number.POSITIVE_INFINITY;
}

/** Whether a tick of one is a tick of the other, run alike. */
function sameTerms(a: ScheduleRecord, b: ScheduleRecord): boolean {
  const terms = ['cron', 'timezone', 'context', 'workflowName', 'className', 'activeSince'] as const;
  return terms.every((term) => a[term] === b[term]);
}
