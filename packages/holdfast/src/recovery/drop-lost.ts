import type { Engine } from '../engine/engine.js';
import type { Executions } from '../engine/executions.js';

const pageSize = 1000;

/** The engine, with the workflows that run in this process. */
export type RunningEngine = Engine & { readonly executions: Executions };

/**
 * Drops workflows that other processes took over or deleted while this process was stopped, or could not reach the
 * database. The fence already refuses its writes. But without this check the next step of such a workflow would run
 * first, perhaps long after the new owner has run it. Therefore this function finishes before any step starts again.
 */
export async function dropLost(
  engine: Pick<RunningEngine, 'storage' | 'executions'>,
  which: 'all' | 'deleted' = 'all',
): Promise<void> {
  const { workflows } = engine.storage;
  const running = [...engine.executions.inMemory.values()].filter((each) => each.running).map(({ claim }) => claim);
  const held = [...running, ...engine.executions.allSuspended];
  for (let first = 0; first < held.length; first += pageSize) {
    const page = held.slice(first, first + pageSize).map(({ workflowId, owner }) => ({ workflowId, owner }));
    const owned = new Set((await workflows.owned(page)).map(({ workflowId }) => workflowId));
    const doubtful = page.filter(({ workflowId }) => !owned.has(workflowId));
    if (doubtful.length === 0) continue;
    const records = await workflows.get(doubtful.map(({ workflowId }) => workflowId));
    const known = new Map(records.map((record) => [record.workflowId, record]));
    for (const { workflowId, owner } of doubtful) {
      const { status, owner: currentOwner = null } = known.get(workflowId) ?? {};
      // The owner token is unchanged if the workflow has just ended here, even before the answer to that write arrives.
      // A row under another token may also belong to a new workflow that reuses the ID.
      const isDeleted = !known.has(workflowId) || (currentOwner !== null && currentOwner !== owner);
      const isLost = which === 'deleted' ? isDeleted : currentOwner !== owner || status === 'CANCELLED';
      if (isLost) engine.executions.supersede(workflowId, owner, { owner: currentOwner, status });
    }
  }
}
