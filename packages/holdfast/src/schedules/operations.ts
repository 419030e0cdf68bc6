import { refuseInWorkflow } from '../engine/api/context.js';
import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import type { Engine } from '../engine/engine.js';
import { rejecting } from '../engine/execution/rejecting.js';
import { HoldfastError } from '../model/errors.js';
import { newWorkflowId } from '../model/ids.js';
import { invalidOption, rejectExtraOptions } from '../model/options.js';
import { didYouMean } from '../model/suggest.js';
import { afterChange } from '../storage/contract/failure.js';
import type { ScheduledRun, ScheduleRecord } from '../storage/contract/schedules.js';
import { type BackfillRange, type BackfillTick, backfill, checkRange, previewBackfill } from './backfill.js';
import { type ScheduleInfo, toScheduleInfo } from './info.js';
import { announceRuns, sourceOf, toRun } from './runs.js';
import { checkSchedule, checkScheduleName, isSchedule, type Schedule } from './schedule.js';
import { appNameOf, checkQueue, checkSchedules, type ScheduleChanges, toChanges, toSettings } from './settings.js';

/** `app.schedules`: reads, changes and runs stored schedules. Every process applies a change at once. */
export interface ScheduleOperations {
  /**
   * Stores a new schedule. Rejects with `SCHEDULE_EXISTS` if the name is taken.
   *
   * @example
   * await app.schedules.create(schedule('hourly', '0 * * * *', report, { context: 'eu' }));
   */
  create(schedule: Schedule): Promise<ScheduleInfo>;
  /**
   * Stores several schedules, all or none, and changes those that exist. A paused schedule stays paused, and the last
   * tick of each schedule is kept.
   *
   * @example
   * await app.schedules.apply([
   *   schedule('hourly', '0 * * * *', report),
   *   schedule('nightly', '30 2 * * *', cleanUp),
   * ]);
   */
  apply(schedules: readonly Schedule[]): Promise<void>;
  /**
   * Returns all schedules of the app.
   *
   * @example
   * for (const { name, status, nextRunAt } of await app.schedules.list()) {
   *   console.log(name, status, nextRunAt && new Date(nextRunAt));
   * }
   */
  list(): Promise<ScheduleInfo[]>;
  /**
   * Returns a schedule, or undefined if there is no such schedule.
   *
   * @example
   * const nightly = await app.schedules.get('nightly');
   * console.log(nightly?.status, nightly?.nextRunAt);
   */
  get(name: string): Promise<ScheduleInfo | undefined>;
  /**
   * Changes a schedule. Settings that are left out stay as they are. Once the promise resolves, no process runs a tick
   * of the old settings.
   *
   * @example
   * await app.schedules.update('hourly', { cron: '0,30 * * * *', context: 'eu-west' });
   */
  update(name: string, changes: ScheduleChanges): Promise<ScheduleInfo>;
  /**
   * Pauses a schedule. Once the promise resolves, no process runs a tick of the schedule. Running workflows continue.
   *
   * @example
   * await app.schedules.pause('nightly');
   */
  pause(name: string): Promise<ScheduleInfo>;
  /**
   * Ends the pause of a schedule. Ticks during the pause do not run, not even with `catchUp: 'all'`.
   *
   * @example
   * const { nextRunAt } = await app.schedules.resume('nightly');
   */
  resume(name: string): Promise<ScheduleInfo>;
  /**
   * Deletes a schedule. Once the promise resolves, no process runs a tick of the schedule. Running workflows continue.
   *
   * @example
   * await app.schedules.delete('nightly');
   */
  delete(name: string): Promise<void>;
  /**
   * Runs a schedule now, even if the schedule is paused. Rejects in a workflow function, where every replay would
   * start another run. Call `trigger` in a step instead.
   *
   * @example
   * const handle = await app.schedules.trigger('nightly');
   * await handle.result();
   */
  trigger<T = unknown>(name: string): Promise<WorkflowHandle<T>>;
  /**
   * Runs every tick in the range that has no run yet. Resolves with handles to the new runs. A repeated call starts no
   * tick twice.
   *
   * @example
   * const handles = await app.schedules.backfill('nightly', {
   *   from: '2026-03-01T00:00:00Z',
   *   to: '2026-03-08T00:00:00Z',
   * });
   * for (const handle of handles) await handle.result();
   */
  backfill(name: string, range: BackfillRange & { readonly preview?: false }): Promise<WorkflowHandle[]>;
  /**
   * Lists every tick in the range, with the information whether the tick has a run. Starts nothing.
   *
   * @example
   * const range = { from: '2026-03-01', to: '2026-03-08' };
   * const ticks = await app.schedules.backfill('nightly', { ...range, preview: true });
   * console.log(ticks.filter(({ exists }) => !exists).length, 'ticks have no run');
   */
  backfill(name: string, range: BackfillRange & { readonly preview: true }): Promise<BackfillTick[]>;
}

export function scheduleOperations(engine: Engine): ScheduleOperations {
  const { storage, clock } = engine;
  const key = (name: string) => ({ name: checkScheduleName(name), appName: appNameOf(engine), now: clock.now() });
  const setStatus = async (name: string, status: ScheduleRecord['status']): Promise<ScheduleInfo> => {
    engine.lifecycle.checkOpen();
    return announce(engine, name, await storage.schedules.setStatus({ ...key(name), status }));
  };
  const operations: ScheduleOperations = {
    create: (schedule) => create(engine, schedule),
    apply: async (schedules) => applySchedules(engine, checkSchedules('apply()', schedules), null),
    list: async () => {
      engine.lifecycle.checkOpen();
      const records = await storage.schedules.list(appNameOf(engine));
      return Promise.all(records.map((record) => toScheduleInfo(engine, record)));
    },
    get: async (name) => {
      engine.lifecycle.checkOpen();
      const { found } = await find(engine, name);
      return found && toScheduleInfo(engine, found);
    },
    update: async (name, changes) => {
      engine.lifecycle.checkOpen();
      const record = await requireSchedule(engine, name);
      const checked = await toChanges(engine, record, changes);
      return announce(engine, name, await storage.schedules.change({ ...key(name), changes: checked }));
    },
    pause: (name) => setStatus(name, 'PAUSED'),
    resume: (name) => setStatus(name, 'ACTIVE'),
    delete: async (name) => {
      engine.lifecycle.checkOpen();
      if (!(await storage.schedules.remove(key(name)))) throw await notFound(engine, name);
      engine.news.announce('schedules');
    },
    trigger: <T>(name: string) =>
      rejecting('trigger()', () => {
        refuseInWorkflow('trigger()', 'Call it in a step, or start the workflow itself as a child.');
        return trigger<T>(engine, name);
      }),
    backfill: (async (name: string, given: BackfillRange) => {
      engine.lifecycle.checkOpen();
      checkScheduleName(name);
      const range = checkRange(name, given);
      const read = () => requireSchedule(engine, name);
      return given.preview ? previewBackfill(engine, read, range) : backfill(engine, read, range);
    }) as ScheduleOperations['backfill'],
  };
  return rejectExtraOptions(operations, {
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

/**
 * Stores schedules, and changes those that exist. With a version, stored schedules change only if that version is the
 * latest of the app: an old process that restarts during a deploy must not bring old settings back.
 */
export async function applySchedules(
  engine: Engine,
  schedules: readonly Schedule[],
  version: string | null,
): Promise<void> {
  engine.lifecycle.checkOpen();
  if (schedules.length === 0) return;
  const settings = [];
  for (const each of schedules) settings.push(await toSettings(engine, each));
  await checkOwner(engine, schedules);
  const { storage, clock, news } = engine;
  await storage.schedules.apply({ settings, appName: appNameOf(engine), version, now: clock.now() });
  news.announce('schedules');
  // Another app may have taken a name between the check and the statement.
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
    `Schedule "${name}" belongs to the app "${appName}", so "${own}" cannot have a schedule of that name in the ` +
      'same database. Choose another name.',
    { details: { name, owner: appName } },
  );
}

async function create(engine: Engine, schedule: Schedule): Promise<ScheduleInfo> {
  engine.lifecycle.checkOpen();
  if (!isSchedule(schedule)) throw invalidOption('create()', 'schedule', schedule, 'the result of schedule()');
  const settings = await toSettings(engine, checkSchedule(schedule));
  const { storage, clock, news } = engine;
  const record = await storage.schedules.create({ settings, appName: appNameOf(engine), now: clock.now() });
  if (!record) {
    throw new HoldfastError(
      'SCHEDULE_EXISTS',
      `Schedule "${schedule.name}" already exists. Change it with update(), or call apply(), which does either.`,
      { details: { name: schedule.name } },
    );
  }
  news.announce('schedules');
  return toScheduleInfo(engine, record);
}

async function trigger<T>(engine: Engine, name: string): Promise<WorkflowHandle<T>> {
  engine.lifecycle.checkOpen();
  const workflowId = `sched-${checkScheduleName(name)}-trigger-${newWorkflowId(engine.clock.now())}`;
  const scheduledAt = engine.clock.now();
  for (;;) {
    const schedule = await requireSchedule(engine, name);
    await checkQueue(engine, `Schedule "${name}"`, schedule.queueName);
    const run = await toRun(engine, await sourceOf(engine, schedule), workflowId, scheduledAt);
    if (await fired(engine, schedule, run)) {
      announceRuns(engine, schedule);
      return createHandle<T>(engine, workflowId);
    }
    // The schedule or its queue was changed or deleted after it was read: try again with the current one.
    await engine.queueCache.refresh();
  }
}

/**
 * Starts the run of a trigger, and repeats the statement until the database answers. Only this call knows the ID of
 * the run, so a repetition starts no second run. A caller who received an error instead could not repeat the call
 * without the risk of a second run. Returns false if the schedule was changed after it was read.
 */
async function fired(engine: Engine, schedule: ScheduleRecord, run: ScheduledRun): Promise<boolean> {
  const { schedules } = engine.storage;
  const fire = async (): Promise<boolean> => {
    const created = await schedules.fire({ schedule, runs: [run], evenIfPaused: true, now: engine.clock.now() });
    return created.size > 0 || (await schedules.taken([run.workflowId])).size > 0;
  };
  const started = await engine.untilAnswered(`Triggering schedule "${schedule.name}"`, fire, true);
  engine.lifecycle.checkOpen();
  return started ?? false;
}

async function announce(engine: Engine, name: string, record: ScheduleRecord | undefined): Promise<ScheduleInfo> {
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

/** Returns the error for a name that a statement has not found. */
async function notFound(engine: Engine, name: string): Promise<HoldfastError> {
  return notFoundError(name, (await find(engine, name)).known);
}

function notFoundError(name: string, known: readonly string[]): HoldfastError {
  return new HoldfastError(
    'SCHEDULE_NOT_FOUND',
    `There is no schedule "${name}".${didYouMean(name, known)} app.schedules.list() shows the existing schedules.`,
    { details: { name, known } },
  );
}
