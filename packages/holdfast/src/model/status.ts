/**
 * The statuses of a workflow.
 *
 *   ENQUEUED, DELAYED -> PENDING -> SUCCESS | ERROR | CANCELLED | MAX_RECOVERY_ATTEMPTS_EXCEEDED | STALLED
 *
 * STALLED is the only status that Holdfast adds to those of DBOS: the code no longer matches the history, so a person
 * must decide how to continue. A workflow leaves CANCELLED, MAX_RECOVERY_ATTEMPTS_EXCEEDED and STALLED only by
 * `resume`, ERROR only by `retry`, and SUCCESS never.
 */
export const workflowStatuses = [
  'PENDING',
  'SUCCESS',
  'ERROR',
  'CANCELLED',
  'ENQUEUED',
  'DELAYED',
  'MAX_RECOVERY_ATTEMPTS_EXCEEDED',
  'STALLED',
] as const;

export type WorkflowStatus = (typeof workflowStatuses)[number];

/** The statuses of unfinished workflows. */
export const activeStatuses = ['PENDING', 'ENQUEUED', 'DELAYED'] as const;

/** The statuses from which `resume` can continue a workflow. */
export const resumableStatuses = ['CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', 'STALLED'] as const;

export function isResumable(status: WorkflowStatus): boolean {
  return (resumableStatuses as readonly string[]).includes(status);
}

export function isTerminal(status: WorkflowStatus): boolean {
  return !(activeStatuses as readonly string[]).includes(status);
}
