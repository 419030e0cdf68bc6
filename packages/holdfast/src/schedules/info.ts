import { readable } from '../engine/api/workflow-info.js';
import type { Engine } from '../engine/engine.js';
import { type Cron, parseCron } from '../model/cron.js';
import type { ScheduleRecord } from '../storage/contract/schedules.js';
import { type CatchUp, defaultCatchUpLimit } from './schedule.js';

/** A schedule as it is stored in the database. Instants are epoch milliseconds. */
export interface ScheduleInfo {
  readonly name: string;
  readonly workflowName: string;
  /** The class of the workflow; undefined if the workflow is not a static method. */
  readonly className: string | undefined;
  readonly cron: string;
  /** IANA name of the time zone. */
  readonly timezone: string;
  /** The second argument of every run. */
  readonly context: unknown;
  readonly status: 'ACTIVE' | 'PAUSED';
  /** The queue on which runs wait; undefined if runs start at once. */
  readonly queueName: string | undefined;
  readonly catchUp: CatchUp;
  readonly catchUpLimit: number;
  /** The last tick that ran. Runs by `trigger` and `backfill` do not count. */
  readonly lastFiredAt: number | undefined;
  /** The next tick; undefined while the schedule is paused. */
  readonly nextRunAt: number | undefined;
}

export async function toScheduleInfo(engine: Engine, record: ScheduleRecord): Promise<ScheduleInfo> {
  const { status, queueName, catchUpLimit, lastFiredAt } = record;
  return {
    name: record.name,
    workflowName: record.workflowName,
    className: record.className ?? undefined,
    cron: record.cron,
    timezone: record.timezone ?? 'UTC',
    context: await readable(record.context, (text) => engine.codecs.native.decode(text)),
    status,
    queueName: queueName ?? undefined,
    catchUp: record.catchUp,
    catchUpLimit: catchUpLimit ?? defaultCatchUpLimit,
    lastFiredAt: lastFiredAt ?? undefined,
    nextRunAt: status === 'ACTIVE' ? nextTick(record, engine.clock.now()) : undefined,
  };
}

export function cronOf({ cron, timezone }: Pick<ScheduleRecord, 'cron' | 'timezone'>): Cron {
  return parseCron(cron, timezone ?? 'UTC');
}

/** Another program may have stored an invalid cron expression, which must not hide the other schedules of a list. */
function nextTick(record: ScheduleRecord, now: number): number | undefined {
  try {
    return cronOf(record).next(now);
  } catch {
    return undefined;
  }
}
