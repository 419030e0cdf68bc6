import type { OwnedWorkflow } from '../storage/contract/storage.js';

/** The events that the engine announces to the features above it. */
export interface EngineEvents {
  /** The database refused a row because earlier results of its execution are no longer stored. */
  readonly resultsLost: OwnedWorkflow;
  /** The row of a workflow that runs here no longer exists. The value is the workflow ID. */
  readonly rowMissing: string;
  /** More executions are in memory than may wait there (suspend/evict-idle.ts). */
  readonly crowded: undefined;
  /** An execution of a queue has ended in this process, so its slot is free. */
  readonly slotFreed: { readonly queueName: string; readonly wasSuspect: boolean };
}
