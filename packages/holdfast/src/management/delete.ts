import { refuseInWorkflow } from '../engine/api/context.js';
import type { Engine } from '../engine/engine.js';
import { HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import type { Obstacle } from '../storage/contract/deletions.js';

/** How workflows are deleted. */
export interface DeleteOptions {
  /** With all workflows that they have started, and those that these have. Default: one that has any stays. */
  readonly children?: boolean;
}

const what = 'delete()';

/** Deletes workflows with all that belongs to them, all of them or none. Returns how many there were, with their children. */
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
  engine.checkOpen();
  // When a replay repeats it, the ID may belong to another one already.
  refuseInWorkflow(what, 'Call it in a step.');
  const params = { workflowIds: ids, children };
  for (;;) {
    const deleted = await engine.storage.deletions.remove(params);
    if (deleted > 0) {
      // Who ran one that was cancelled a moment ago may not have heard of that yet, and now finds no trace of it.
      engine.news.announceToOthers('deleted');
      return deleted;
    }
    const [obstacle] = await engine.storage.deletions.obstacles(params);
    if (obstacle) throw inTheWay(obstacle);
    // What was in the way is not any more, or nothing is there.
    if ((await engine.storage.workflows.endings(ids)).length === 0) return 0;
  }
}

function inTheWay(obstacle: Obstacle): HoldfastError {
  const { workflowId } = obstacle;
  if (obstacle.kind === 'child') {
    return new HoldfastError(
      'WORKFLOW_NEEDED',
      `Workflow "${obstacle.parentWorkflowId}" has a child, "${workflowId}", and cannot be deleted without it. Delete both, ` +
        'with { children: true }.',
      { details: { ...obstacle } },
    );
  }
  if (obstacle.kind === 'unfinished') {
    return new HoldfastError(
      'WORKFLOW_UNFINISHED',
      `Workflow "${workflowId}" is ${obstacle.status}, and cannot be deleted. Wait until it has ended, or cancel it first.`,
      { details: { ...obstacle } },
    );
  }
  return new HoldfastError(
    'WORKFLOW_NEEDED',
    `Workflow "${workflowId}" cannot be deleted while "${obstacle.by}" is unfinished, which has started it or waits for it. ` +
      'Wait until that has ended, or cancel it first.',
    { details: { ...obstacle } },
  );
}
