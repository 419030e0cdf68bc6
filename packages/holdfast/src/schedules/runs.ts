import type { Engine } from '../engine/engine.js';
import { checkArguments, commonRow, startableByName } from '../engine/start/workflow-row.js';
import { internalQueue } from '../model/queues.js';
import type { ScheduledRun, ScheduleRecord } from '../storage/contract/schedules.js';
import { keyOf } from './schedule.js';

/**
 * Returns the ID of a tick's run. Every process computes the same ID, so the database lets only one of them start it.
 */
export function tickId(name: string, scheduledAt: number): string {
  return `sched-${name}-${new Date(scheduledAt).toISOString()}`;
}

/** The workflow that a schedule runs, and the context that each run receives. */
export interface RunSource {
  readonly workflowName: string;
  readonly className: string | null;
  readonly context: unknown;
}

/** Returns the workflow and the decoded context of a stored schedule. */
export async function sourceOf(engine: Engine, record: ScheduleRecord): Promise<RunSource> {
  const { workflowName, className } = record;
  return { workflowName, className, context: await engine.codecs.native.decode(record.context) };
}

/** Returns a run with encoded arguments. If the workflow is registered here, its schema and format apply to them. */
export async function toRun(
  engine: Engine,
  source: RunSource,
  workflowId: string,
  scheduledAt: number,
): Promise<ScheduledRun> {
  const key = keyOf(source);
  const workflow = engine.registry.get(key) ?? startableByName(key);
  const args = await checkArguments(workflow, {}, [new Date(scheduledAt), source.context], null);
  const { inputs, serialization, timeoutMs } = await commonRow(engine, workflow, { id: workflowId }, args, null);
  return { workflowId, inputs, serialization, timeoutMs };
}

/** Announces new runs to the processes that work on the schedule's queue. */
export function announceRuns(engine: Engine, { queueName }: Pick<ScheduleRecord, 'queueName'>): void {
  engine.news.announce(`queue:${queueName ?? internalQueue}`);
}
