import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import type { OwnedWorkflow } from '../storage/contract/storage.js';

const pageSize = 1000;

export interface HoldingEngine extends Pick<Engine, 'storage' | 'superseded'> {
  readonly inMemory: ReadonlyMap<string, Execution>;
  /** Those that rest. */
  suspendedWorkflows(): readonly OwnedWorkflow[];
}

/**
 * Parts with what others took over, or deleted, while this process was not heard: it was stopped, or the database out of reach. The
 * fence keeps its writes out in any case, but a step that comes next would begin first, perhaps long after the new owner
 * has done it. So this comes before any step begins again.
 */
export async function dropLost(engine: HoldingEngine, what: 'all' | 'deleted' = 'all'): Promise<void> {
  const { workflows } = engine.storage;
  const running = [...engine.inMemory.values()].filter((each) => each.running).map(({ claim }) => claim);
  const held = [...running, ...engine.suspendedWorkflows()];
  for (let first = 0; first < held.length; first += pageSize) {
    const page = held.slice(first, first + pageSize).map(({ workflowId, owner }) => ({ workflowId, owner }));
    const owned = new Set((await workflows.owned(page)).map(({ workflowId }) => workflowId));
    const doubtful = page.filter(({ workflowId }) => !owned.has(workflowId));
    if (doubtful.length === 0) continue;
    const records = await workflows.get(doubtful.map(({ workflowId }) => workflowId));
    const known = new Map(records.map((record) => [record.workflowId, record]));
    for (const { workflowId, owner } of doubtful) {
      const { status, owner: now = null } = known.get(workflowId) ?? {};
      // Under its own token it has just ended, which it is about to learn.
      // Its ID may be another workflow's by now.
      const isGone = !known.has(workflowId) || (now !== null && now !== owner);
      const isLost = what === 'deleted' ? isGone : now !== owner || status === 'CANCELLED';
      if (isLost) engine.superseded(workflowId, owner, { owner: now, status });
    }
  }
}
