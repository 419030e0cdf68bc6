import { refuseInWorkflow } from '../engine/api/context.js';
import type { Engine } from '../engine/engine.js';
import { HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import type { Obstacle } from '../storage/contract/deletions.js';

/** Options of `app.workflows.delete`. */
export interface DeleteOptions {
  /**
   * `true`: also deletes all descendants, which are the children, their children and so on. Default: `delete` rejects
   * if a workflow has children.
   */
  readonly children?: boolean;
}

const what = 'delete()';

/** Deletes workflows with all their records: all of them, or none. Returns how many workflows were deleted. */
export async function deleteWorkflows(
  engine: Engine,
  workflowIds: string | readonly string[],
  options: DeleteOptions,
): Promise<number> {
  checkKnownOptions(what, options, ['children']);
  const { children = false } = options;
  if (typeof children !== 'boolean') throw invalidOption(what, 'children', children, 'true or false');
  const ids = typeof workflowIds === 'string' ? [workflowIds] : workflowIds;
  if (!Array.isArray(ids)) throw invalidOption(what, 'workflowIds', ids, 'a workflow ID or a list of them');
  for (const id of ids) checkName('A workflow ID', id);
  engine.lifecycle.checkOpen();
  // When a replay repeats the call, the ID may already belong to a new workflow.
  refuseInWorkflow(what, 'Call it in a step.');
  const params = { workflowIds: ids, children };
  for (;;) {
    const deleted = await engine.storage.deletions.remove(params);
    if (deleted > 0) {
      // A process that runs a workflow may not know yet that it was cancelled a moment ago, and its row is gone now.
      engine.news.announceToOthers('deleted');
      return deleted;
    }
    const [obstacle] = await engine.storage.deletions.obstacles(params);
    if (obstacle) throw obstacleError(obstacle);
    // The obstacle has disappeared since, so try again; or none of the workflows exists.
    if ((await engine.storage.workflows.endings(ids)).length === 0) return 0;
  }
}

function obstacleError(obstacle: Obstacle): HoldfastError {
  const { workflowId } = obstacle;
  if (obstacle.kind === 'child') {
    return new HoldfastError(
      'WORKFLOW_NEEDED',
      `Workflow "${obstacle.parentWorkflowId}" has a child, "${workflowId}", and cannot be deleted without it. ` +
        'Delete both with { children: true }.',
      { details: { ...obstacle } },
    );
  }
  if (obstacle.kind === 'unfinished') {
    return new HoldfastError(
      'WORKFLOW_UNFINISHED',
      `Workflow "${workflowId}" is ${obstacle.status} and cannot be deleted. Wait until the workflow has ended, or ` +
        'cancel it first.',
      { details: { ...obstacle } },
    );
  }
  const { kind, neededBy: by } = obstacle;
  return new HoldfastError(
    'WORKFLOW_NEEDED',
    `Workflow "${workflowId}" cannot be deleted while "${by}" is unfinished, because "${by}" started it or may wait for ` +
      `it. Wait until "${by}" has ended, or cancel "${by}" first.`,
    { details: { kind, workflowId, by } },
  );
}
