import { refuseInWorkflow } from '../engine/api/context.js';
import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import type { Engine } from '../engine/engine.js';
import { rejecting } from '../engine/execution/rejecting.js';
import { HoldfastError } from '../model/errors.js';
import { newWorkflowId } from '../model/ids.js';
import { invalidOption, refusingOptions } from '../model/options.js';
import { didYouMean } from '../model/suggest.js';
import { afterChange } from '../storage/contract/failure.js';
import type { ScheduledRun, ScheduleRecord } from '../storage/contract/schedules.js';
import { type BackfillRange, type BackfillTick, backfill, checkRange, previewBackfill } from './backfill.js';
import { type ScheduleInfo, toScheduleInfo } from './info.js';
import { sourceOf, tellOfRuns, toRun } from './runs.js';
import { checkSchedule, checkScheduleName, isSchedule, type Schedule } from './schedule.js';
import { appNameOf, checkQueue, checkSchedules, type ScheduleChanges, toChanges, toSettings } from './settings.js';

/** `app.schedules`: schedules as they are stored. Every process that runs them notices a change at once. */
export interface ScheduleOperations {
  /** Stores a schedule; SCHEDULE_EXISTS if the name is taken. */
  create(schedule: Schedule): Promise<ScheduleInfo>;
  /** Stores schedules, or changes those that are there, all or none. Pauses and last ticks stay. */
  apply(schedules: readonly Schedule[]): Promise<void>;
  list(): Promise<ScheduleInfo[]>;
  get(name: string): Promise<ScheduleInfo | undefined>;
  /** Once this resolves, no tick of the old cron is run any more. */
  update(name: string, changes: ScheduleChanges): Promise<ScheduleInfo>;
  /** Once this resolves, no tick is run any more; what runs goes on. */
  pause(name: string): Promise<ScheduleInfo>;
  /** Ticks of the pause are not missed ones: they are not run. */
  resume(name: string): Promise<ScheduleInfo>;
  /** Once this resolves, no tick is run any more; what runs goes on. */
  delete(name: string): Promise<void>;
  /** Runs it now, paused or not. Refused in a workflow function, where a replay would run it again; a step may. */
  trigger<T = unknown>(name: string): Promise<WorkflowHandle<T>>;
  /** Runs every tick from `from` up to, but not including, `to` that was not run; returns the runs that are new. */
  backfill(name: string, range: BackfillRange & { readonly preview?: false }): Promise<WorkflowHandle[]>;
  /** Says which ticks these are, and changes nothing. */
  backfill(name: string, range: BackfillRange & { readonly preview: true }): Promise<BackfillTick[]>;
}

export function scheduleOperations(engine: Engine): ScheduleOperations {
  const { storage, clock } = engine;
  const key = (name: string) => ({ name: checkScheduleName(name), appName: appNameOf(engine), now: clock.now() });
  const setStatus = async (name: string, status: ScheduleRecord['status']): Promise<ScheduleInfo> => {
    engine.checkOpen();
    return changed(engine, name, await storage.schedules.setStatus({ ...key(name), status }));
  };
  const operations: ScheduleOperations = {
    create: (schedule) => create(engine, schedule),
    apply: async (schedules) => applySchedules(engine, checkSchedules('apply()', schedules), null),
    list: async () => {
      engine.checkOpen();
      const records = await storage.schedules.list(appNameOf(engine));
      return Promise.all(records.map((record) => toScheduleInfo(engine, record)));
    },
    get: async (name) => {
      engine.checkOpen();
      const { found } = await find(engine, name);
      return found && toScheduleInfo(engine, found);
    },
    update: async (name, changes) => {
      engine.checkOpen();
      const record = await requireSchedule(engine, name);
      const checked = await toChanges(engine, record, changes);
      return changed(engine, name, await storage.schedules.change({ ...key(name), changes: checked }));
    },
    pause: (name) => setStatus(name, 'PAUSED'),
    resume: (name) => setStatus(name, 'ACTIVE'),
    delete: async (name) => {
      engine.checkOpen();
      if (!(await storage.schedules.remove(key(name)))) throw await notFound(engine, name);
      engine.news.announce('schedules');
    },
    trigger: <T>(name: string) =>
      rejecting('trigger()', () => {
        refuseInWorkflow('trigger()', 'Call it in a step, or start the workflow itself as a child.');
        return trigger<T>(engine, name);
      }),
    backfill: (async (name: string, given: BackfillRange) => {
      engine.checkOpen();
      checkScheduleName(name);
      const range = checkRange(name, given);
      const read = () => requireSchedule(engine, name);
      return given.preview ? previewBackfill(engine, read, range) : backfill(engine, read, range);
    }) as ScheduleOperations['backfill'],
  };
  return refusingOptions(operations, {
    create: 1,
    apply: 1,
    list: 0,
    get: 1,
    pause: 1,
    resume: 1,
    delete: 1,
    trigger: 1,
  });
}

/** With a version, what is stored is changed only if that is the latest one: an old process restores nothing. */
export async function applySchedules(
  engine: Engine,
  schedules: readonly Schedule[],
  version: string | null,
): Promise<void> {
  engine.checkOpen();
  if (schedules.length === 0) return;
  const settings = [];
  for (const each of schedules) settings.push(await toSettings(engine, each));
  await checkOwner(engine, schedules);
  const { storage, clock, news } = engine;
  await storage.schedules.apply({ settings, appName: appNameOf(engine), version, now: clock.now() });
  news.announce('schedules');
  // Another app may have taken a name just now.
  await afterChange(() => checkOwner(engine, schedules));
}

async function checkOwner(engine: Engine, schedules: readonly Schedule[]): Promise<void> {
  const own = appNameOf(engine);
  if (own === null) return;
  const names = new Set(schedules.map((each) => each.name));
  const stored = await engine.storage.schedules.list(null);
  const theirs = stored.find(({ name, appName }) => names.has(name) && appName !== null && appName !== own);
  if (!theirs) return;
  const { name, appName } = theirs;
  throw new HoldfastError(
    'SCHEDULE_CONFLICT',
    `Schedule "${name}" belongs to the app "${appName}", so "${own}" cannot have one of that name in the same ` +
      'database. Choose another name.',
    { details: { name, owner: appName } },
  );
}

async function create(engine: Engine, schedule: Schedule): Promise<ScheduleInfo> {
  engine.checkOpen();
  if (!isSchedule(schedule)) throw invalidOption('create()', 'schedule', schedule, 'what schedule() returns');
  const settings = await toSettings(engine, checkSchedule(schedule));
  const { storage, clock, news } = engine;
  const record = await storage.schedules.create({ settings, appName: appNameOf(engine), now: clock.now() });
  if (!record) {
    throw new HoldfastError(
      'SCHEDULE_EXISTS',
      `There is a schedule "${schedule.name}" already. Change it with update(), or use apply(), which does either.`,
      { details: { name: schedule.name } },
    );
  }
  news.announce('schedules');
  return toScheduleInfo(engine, record);
}

async function trigger<T>(engine: Engine, name: string): Promise<WorkflowHandle<T>> {
  engine.checkOpen();
  const workflowId = `sched-${checkScheduleName(name)}-trigger-${newWorkflowId(engine.clock.now())}`;
  const scheduledAt = engine.clock.now();
  for (;;) {
    const schedule = await requireSchedule(engine, name);
    await checkQueue(engine, `Schedule "${name}"`, schedule.queueName);
    const run = await toRun(engine, await sourceOf(engine, schedule), workflowId, scheduledAt);
    if (await fired(engine, schedule, run)) {
      tellOfRuns(engine, schedule);
      return createHandle<T>(engine, workflowId);
    }
    // It, or its queue, was changed or deleted since it was read.
    await engine.queueCache.refresh();
  }
}

/**
 * Repeated until the database answers, which does no harm under an ID that only this call knows: a caller who was told
 * of a lost answer could not make the call again without a second run. False: the schedule is not as it was read.
 */
async function fired(engine: Engine, schedule: ScheduleRecord, run: ScheduledRun): Promise<boolean> {
  const { schedules } = engine.storage;
  const fire = async (): Promise<boolean> => {
    const created = await schedules.fire({ schedule, runs: [run], evenIfPaused: true, now: engine.clock.now() });
    return created.size > 0 || (await schedules.taken([run.workflowId])).size > 0;
  };
  const started = await engine.untilAnswered(`Triggering schedule "${schedule.name}"`, fire, true);
  engine.checkOpen();
  return started ?? false;
}

async function changed(engine: Engine, name: string, record: ScheduleRecord | undefined): Promise<ScheduleInfo> {
  if (!record) throw await notFound(engine, name);
  engine.news.announce('schedules');
  return toScheduleInfo(engine, record);
}

async function find(engine: Engine, name: string) {
  checkScheduleName(name);
  const records = await engine.storage.schedules.list(appNameOf(engine));
  return { found: records.find((record) => record.name === name), known: records.map((record) => record.name) };
}

async function requireSchedule(engine: Engine, name: string): Promise<ScheduleRecord> {
  const { found, known } = await find(engine, name);
  if (found) return found;
  throw notFoundError(name, known);
}

/** The error for a name that a statement has just not found. */
async function notFound(engine: Engine, name: string): Promise<HoldfastError> {
  return notFoundError(name, (await find(engine, name)).known);
}

function notFoundError(name: string, known: readonly string[]): HoldfastError {
  return new HoldfastError(
    'SCHEDULE_NOT_FOUND',
    `There is no schedule "${name}".${didYouMean(name, known)} app.schedules.list() shows those that there are.`,
    { details: { name, known } },
  );
}
