import { queueNameOf } from '../engine/api/start-options.js';
import type { Engine } from '../engine/engine.js';
import { parseCron } from '../model/cron.js';
import { HoldfastError } from '../model/errors.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import type { Queue } from '../model/queues.js';
import type { ScheduleRecord, ScheduleSettings } from '../storage/contract/schedules.js';
import { type RunSource, sourceOf, tickId, toRun } from './runs.js';
import {
  type CatchUp,
  checkCatchUp,
  checkCatchUpLimit,
  checkSchedule,
  isSchedule,
  keyOf,
  type Schedule,
  type ScheduledWorkflow,
  type ScheduleTarget,
  targetOf,
} from './schedule.js';

/** Changes to a schedule. Settings that are left out stay as they are. */
export interface ScheduleChanges {
  readonly cron?: string;
  /** IANA name of the time zone of the cron expression. */
  readonly timezone?: string;
  /** The second argument of every run. */
  readonly context?: unknown;
  /** The queue on which runs wait, by value or name. `null`: runs start at once. */
  readonly queue?: Queue | string | null;
  /** Which missed ticks run later. */
  readonly catchUp?: CatchUp;
  /** The maximum number of missed ticks that `catchUp: 'all'` runs. */
  readonly catchUpLimit?: number;
  /** The workflow to run, by value or name. */
  readonly workflow?: ScheduledWorkflow<never> | string;
}

const changeNames = ['cron', 'timezone', 'context', 'queue', 'catchUp', 'catchUpLimit', 'workflow'];

/** Checks schedules that are stored together, as far as that is possible without a database. */
export function checkSchedules(what: string, schedules: readonly Schedule[]): readonly Schedule[] {
  if (!Array.isArray(schedules)) {
    throw invalidOption(what, 'schedules', schedules, 'a list of results of schedule()');
  }
  const seen = new Set<string>();
  return schedules.map((each, i) => {
    if (!isSchedule(each)) throw invalidOption(what, `schedules[${i}]`, each, 'the result of schedule()');
    if (seen.has(each.name)) {
      throw invalidOption(what, `schedules[${i}]`, each.name, 'the only schedule of that name');
    }
    seen.add(each.name);
    return checkSchedule(each);
  });
}

/** Returns a schedule as it is stored. All errors in the schedule are found here, before anything is written. */
export async function toSettings(engine: Engine, schedule: Schedule): Promise<ScheduleSettings> {
  const { name, cron, workflowName, timezone, context, queueName = null, catchUp, catchUpLimit } = schedule;
  const what = `Schedule "${name}"`;
  checkRegistered(engine, schedule);
  const text = await encodeContext(engine, what, context);
  const className = schedule.className ?? null;
  await rehearse(engine, schedule, { workflowName, className, context });
  await checkQueue(engine, what, queueName);
  return {
    name,
    workflowName,
    className,
    cron,
    timezone: toZone(timezone),
    context: text,
    queueName,
    catchUp,
    catchUpLimit,
  };
}

/** Returns changes as they are stored, checked together with the settings that stay. */
export async function toChanges(
  engine: Engine,
  record: ScheduleRecord,
  changes: ScheduleChanges,
): Promise<Partial<Omit<ScheduleSettings, 'name'>>> {
  const what = `update() of schedule "${record.name}"`;
  checkKnownOptions(what, changes, changeNames);
  const { cron = record.cron, timezone = record.timezone ?? 'UTC', catchUp, catchUpLimit, queue, workflow } = changes;
  parseCron(cron, timezone);
  const target = workflow === undefined ? undefined : targetOf(what, workflow);
  if (target) checkRegistered(engine, target);
  if (target || 'context' in changes) {
    const stored = 'context' in changes ? changes : await sourceOf(engine, record);
    const { workflowName, className } = target ?? record;
    const source = { workflowName, className: className ?? null, context: stored.context };
    await rehearse(engine, { name: record.name, cron, timezone }, source);
  }
  const queueName = queue === undefined || queue === null ? queue : queueNameOf(what, queue);
  if (queueName !== undefined) await checkQueue(engine, what, queueName);
  return {
    ...(changes.cron !== undefined && { cron }),
    ...(changes.timezone !== undefined && { timezone: toZone(timezone) }),
    ...('context' in changes && { context: await encodeContext(engine, what, changes.context) }),
    ...(queueName !== undefined && { queueName }),
    ...(catchUp !== undefined && { catchUp: checkCatchUp(what, catchUp) }),
    ...(catchUpLimit !== undefined && { catchUpLimit: checkCatchUpLimit(what, catchUpLimit) }),
    ...(target && { workflowName: target.workflowName, className: target.className ?? null }),
  };
}

/** UTC is stored as null, as DBOS does. */
function toZone(timezone: string): string | null {
  return timezone === 'UTC' ? null : timezone;
}

async function encodeContext(engine: Engine, what: string, context: unknown): Promise<string> {
  return engine.codecs.native.encode(context, `The context of ${what}`);
}

/** A client has an empty version. It has registered no workflows, so it cannot check a name. */
function checkRegistered(engine: Engine, target: ScheduleTarget): void {
  if (engine.version !== '') engine.registry.require(keyOf(target));
}

/** Encodes the arguments of the next run, so that arguments which the workflow would refuse then are refused now. */
async function rehearse(
  engine: Engine,
  { name, cron, timezone }: Pick<Schedule, 'name' | 'cron' | 'timezone'>,
  source: RunSource,
): Promise<void> {
  const now = engine.clock.now();
  const scheduledAt = parseCron(cron, timezone).next(now) ?? now;
  await toRun(engine, source, tickId(name, scheduledAt), scheduledAt);
}

/** Throws if processes of this app would not run the runs of a schedule on this queue. */
export async function checkQueue(engine: Engine, what: string, queueName: string | null): Promise<void> {
  if (queueName === null) return;
  const { appName, settings } = await engine.queueCache.require(queueName);
  if (settings.partition !== null) {
    throw invalidOption(what, 'queue', queueName, 'a queue without partitions: a scheduled run has no partition key');
  }
  const own = appNameOf(engine);
  if (appName === null || own === null || appName === own) return;
  throw new HoldfastError(
    'QUEUE_CONFLICT',
    `${what} cannot use queue "${queueName}", which belongs to the app "${appName}": the processes of "${appName}" ` +
      `do not run workflows of "${own}". Use a queue of "${own}".`,
    { details: { name: queueName, owner: appName } },
  );
}

/** Returns the app that schedules are stored under; null for a client that belongs to no app. */
export function appNameOf(engine: Engine): string | null {
  return engine.writer.appName === '' ? null : engine.writer.appName;
}
