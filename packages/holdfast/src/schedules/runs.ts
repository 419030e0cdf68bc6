import type { Engine } from '../engine/engine.js';
import { byName, checkArguments, commonRow } from '../engine/start/workflow-row.js';
import { internalQueue } from '../model/queues.js';
import type { ScheduledRun, ScheduleRecord } from '../storage/contract/schedules.js';
import { keyOf } from './schedule.js';

/** The ID of a tick's run: the same in every process, so that one of them gets to start it. */
export function tickId(name: string, scheduledAt: number): string {
  return `sched-${name}-${new Date(scheduledAt).toISOString()}`;
}

/** What is run, by which workflow, with which context. */
export interface RunSource {
  readonly workflowName: string;
  readonly className: string | null;
  readonly context: unknown;
}

/** What a stored schedule runs. */
export async function sourceOf(engine: Engine, record: ScheduleRecord): Promise<RunSource> {
  const { workflowName, className } = record;
  return { workflowName, className, context: await engine.codecs.native.decode(record.context) };
}

/** A run with its arguments, as the workflow wants them stored if it is registered here. */
export async function toRun(
  engine: Engine,
  source: RunSource,
  workflowId: string,
  scheduledAt: number,
): Promise<ScheduledRun> {
  const key = keyOf(source);
  const workflow = engine.registry.get(key) ?? byName(key);
  const args = await checkArguments(workflow, {}, [new Date(scheduledAt), source.context], null);
  const { inputs, serialization, timeoutMs } = await commonRow(engine, workflow, { id: workflowId }, args, null);
  return { workflowId, inputs, serialization, timeoutMs };
}

/** Whoever works on the schedule's queue is to look at it now. */
export function tellOfRuns(engine: Engine, { queueName }: Pick<ScheduleRecord, 'queueName'>): void {
  engine.news.announce(`queue:${queueName ?? internalQueue}`);
}
