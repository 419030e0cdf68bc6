import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import type { Engine } from '../engine/engine.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { afterChange } from '../storage/contract/failure.js';
import type { ScheduleRecord } from '../storage/contract/schedules.js';
import { cronOf } from './info.js';
import { announceRuns, sourceOf, tickId, toRun } from './runs.js';
import { checkQueue } from './settings.js';

/**
 * A period of the past. Each end is a Date, an ISO time with its zone, an ISO date (which is in UTC), or epoch
 * milliseconds.
 */
export interface BackfillRange {
  /** The beginning of the period, inclusive. */
  readonly from: Date | string | number;
  /** The end of the period, exclusive. Future ticks are always left out. */
  readonly to: Date | string | number;
  /** `true`: lists the ticks instead of running them. */
  readonly preview?: boolean;
}

/** A tick in the preview of a backfill. */
export interface BackfillTick {
  readonly scheduledAt: Date;
  readonly workflowId: string;
  /** True if the tick already has a run, whatever its status. A backfill does not run such a tick again. */
  readonly exists: boolean;
}

interface Range {
  readonly from: number;
  readonly to: number;
}

/** The maximum number of ticks of one backfill. */
const maxTicks = 10_000;
/** How many runs one statement enqueues. */
const pageSize = 500;

export function checkRange(name: string, range: BackfillRange): Range {
  const what = `backfill() of schedule "${name}"`;
  checkKnownOptions(what, range, ['from', 'to', 'preview']);
  if (range.preview !== undefined && typeof range.preview !== 'boolean') {
    throw invalidOption(what, 'preview', range.preview, 'true or false');
  }
  const from = instant(what, 'from', range.from);
  const to = instant(what, 'to', range.to);
  if (from > to) throw invalidOption(what, 'to', range.to, 'an instant that is not before "from"');
  return { from, to };
}

export async function previewBackfill(
  engine: Engine,
  read: () => Promise<ScheduleRecord>,
  range: Range,
): Promise<BackfillTick[]> {
  const schedule = await read();
  const ticks = ticksIn(engine, schedule, range).map((at) => ({ at, workflowId: tickId(schedule.name, at) }));
  const taken = await engine.storage.schedules.taken(ticks.map((tick) => tick.workflowId));
  return ticks.map(({ at, workflowId }) => ({ scheduledAt: new Date(at), workflowId, exists: taken.has(workflowId) }));
}

/** Runs each tick of the range that has no run yet. Starts again if another process has changed the schedule. */
export async function backfill(
  engine: Engine,
  read: () => Promise<ScheduleRecord>,
  range: Range,
): Promise<WorkflowHandle[]> {
  const started = new Set<string>();
  const attempt = async (): Promise<boolean> => {
    if (await startAll(engine, await read(), range, started)) return true;
    await engine.queueCache.refresh();
    return false;
  };
  // Each page has a statement of its own: a later page may fail after an earlier one has started its runs.
  while (!(await afterChange(attempt, () => started.size > 0))) {}
  return [...started].map((workflowId) => createHandle(engine, workflowId));
}

/** Returns false if the schedule or its queue was changed or deleted after it was read. */
async function startAll(
  engine: Engine,
  schedule: ScheduleRecord,
  range: Range,
  started: Set<string>,
): Promise<boolean> {
  const { name, queueName } = schedule;
  const ticks = ticksIn(engine, schedule, range);
  await checkQueue(engine, `Schedule "${name}"`, queueName);
  const source = await sourceOf(engine, schedule);
  for (let at = 0; at < ticks.length; at += pageSize) {
    const page = ticks.slice(at, at + pageSize);
    const runs = await Promise.all(page.map((tick) => toRun(engine, source, tickId(name, tick), tick)));
    const now = engine.clock.now();
    const created = await engine.storage.schedules.fire({ schedule, runs, evenIfPaused: true, now });
    for (const id of created) started.add(id);
    if (created.size > 0) announceRuns(engine, schedule);
    if (created.size === runs.length) continue;
    const taken = await engine.storage.schedules.taken(runs.map((run) => run.workflowId));
    if (taken.size < runs.length) return false;
  }
  return true;
}

function ticksIn(engine: Engine, schedule: ScheduleRecord, { from, to }: Range): number[] {
  const ticks = cronOf(schedule).between(from - 1, Math.min(to - 1, engine.clock.now()), maxTicks + 1);
  if (ticks.length <= maxTicks) return ticks;
  const what = `backfill() of schedule "${schedule.name}"`;
  const expected = `early enough for a range of at most ${maxTicks} ticks (split a longer range into parts)`;
  throw invalidOption(what, 'to', new Date(to), expected);
}

const isoTime = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;

function instant(what: string, option: string, value: unknown): number {
  const at = value instanceof Date ? value.getTime() : typeof value === 'string' ? parseTime(value) : value;
  if (typeof at === 'number' && at >= 0 && at <= 8.64e15) return Math.ceil(at);
  const expected = 'a Date, a time with its zone such as "2026-03-01T00:00:00Z", or epoch milliseconds, from 1970 on';
  throw invalidOption(what, option, value, expected);
}

function parseTime(text: string): number {
  const date = isoTime.exec(text)?.[1];
  // Date.parse reads the 30th of February as the 2nd of March.
  if (!date || Number.isNaN(Date.parse(date)) || !new Date(date).toISOString().startsWith(date)) return Number.NaN;
  return Date.parse(text);
}
