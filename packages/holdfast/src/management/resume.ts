import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import { queueNameOf, type StartOptions } from '../engine/api/start-options.js';
import type { Engine } from '../engine/engine.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import { requireMatchingQueue } from '../engine/start/enqueue.js';
import { HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions, wrongOption } from '../model/options.js';
import { internalQueue } from '../model/queues.js';

/** The queue on which resumed workflows wait. Default: the queue that each was on, or else the internal queue. */
export type ResumeOptions = Pick<StartOptions, 'queue' | 'partition'>;

const what = 'resume()';

/**
 * Continues workflows after their last recorded step. Throws for an unknown ID or a failed workflow before any
 * workflow changes. A workflow that runs, waits or has succeeded stays as it is.
 */
export async function resumeWorkflows<T>(
  engine: Engine,
  workflowIds: readonly string[],
  options: ResumeOptions,
): Promise<WorkflowHandle<T>[]> {
  for (const id of workflowIds) checkName('A workflow ID', id);
  const moveTo = await targetOf(engine, options);
  await checkResumable(engine, workflowIds);
  const resumed = await engine.storage.workflows.resume({
    workflowIds,
    queueName: internalQueue,
    ...(moveTo && { moveTo }),
    now: engine.clock.now(),
  });
  // Each workflow gets its own notification: the number of notifications decides how many processes check the queue.
  for (const { queueName } of resumed) engine.news.announce(`queue:${queueName}`);
  return workflowIds.map((id) => createHandle<T>(engine, id));
}

async function targetOf(
  engine: Engine,
  options: ResumeOptions,
): Promise<{ readonly queueName: string; readonly partition: string | null } | undefined> {
  checkKnownOptions(what, options, ['queue', 'partition']);
  const { queue, partition } = options;
  if (partition !== undefined) checkName('A partition key', partition);
  if (queue === undefined) {
    if (partition === undefined) return undefined;
    throw wrongOption(what, 'partition', 'must be given with a "queue"');
  }
  const { name } = await requireMatchingQueue(engine, what, queueNameOf(what, queue), options);
  return { queueName: name, partition: partition ?? null };
}

/**
 * Throws if a workflow does not exist or has failed. A workflow that fails between this check and the statement was
 * running when `resume` was called, and stays as it is: the statement changes no failed workflow.
 */
async function checkResumable({ storage }: Engine, workflowIds: readonly string[]): Promise<void> {
  const found = await storage.workflows.endings(workflowIds);
  const statuses = new Map(found.map(({ workflowId, status }) => [workflowId, status]));
  for (const id of workflowIds) {
    if (!statuses.has(id)) throw notFoundError(id);
    if (statuses.get(id) === 'ERROR') throw failedError(id);
  }
}

function failedError(workflowId: string): HoldfastError {
  return new HoldfastError(
    'WORKFLOW_NOT_RESUMABLE',
    `Workflow "${workflowId}" has failed, so resume() cannot continue it. To continue from the step that failed, ` +
      'call app.workflows.retry(id). To run the workflow again under another ID, call ' +
      'app.workflows.fork(id, { fromStep }); app.workflows.steps(id) shows the steps. To start it again under the ' +
      'same ID, delete it first: app.workflows.delete(id).',
    { details: { workflowId, status: 'ERROR' } },
  );
}
