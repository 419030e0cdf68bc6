import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import { queueNameOf, type StartOptions } from '../engine/api/start-options.js';
import type { Engine } from '../engine/engine.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import { fittingQueue } from '../engine/start/enqueue.js';
import { HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions, misplacedOption } from '../model/options.js';
import { internalQueue } from '../model/queues.js';

/** Where resumed workflows wait for their turn. Default: each on the queue that it was on, else on the internal one. */
export type ResumeOptions = Pick<StartOptions, 'queue' | 'partition'>;

const what = 'resume()';

/**
 * Starts workflows again after their last recorded step. An unknown ID, or a workflow that has failed, is an error before
 * any of them changes. A workflow that runs, waits or has succeeded stays as it is.
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
  // One by one: the count tells how many processes are to look.
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
    throw misplacedOption(what, 'partition', 'must be given with a "queue"');
  }
  const { name } = await fittingQueue(engine, what, queueNameOf(what, queue), options);
  return { queueName: name, partition: partition ?? null };
}

/**
 * One that fails between this look and the statement was running when `resume` was called, and stays as it is: the statement
 * changes no workflow that has failed.
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
    `Workflow "${workflowId}" has failed, and its error is its outcome: resume() does not change that. To let it go on from the ` +
      'step that failed, call app.workflows.retry(id). To run it again under another ID, call app.workflows.fork(id, { fromStep }); ' +
      'app.workflows.steps(id) shows the steps. To start it anew under the same ID, delete it first: app.workflows.delete(id).',
    { details: { workflowId, status: 'ERROR' } },
  );
}
