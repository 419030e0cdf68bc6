/**
 * The states of a workflow and which of them are final.
 *
 *   ENQUEUED, DELAYED -> PENDING -> SUCCESS | ERROR | CANCELLED | MAX_RECOVERY_ATTEMPTS_EXCEEDED | STALLED
 *
 * STALLED is Holdfast's one addition to the states of DBOS: the code no longer matches the record, so running on
 * would be a guess. The last three leave their state only by `resume`, ERROR only by `retry`, and SUCCESS never.
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

/** Work that some executor still owes an outcome. */
export const activeStatuses = ['PENDING', 'ENQUEUED', 'DELAYED'] as const;

/** States that `resume` can start again from. */
export const resumableStatuses = ['CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', 'STALLED'] as const;

export function isResumable(status: WorkflowStatus): boolean {
  return (resumableStatuses as readonly string[]).includes(status);
}

export function isTerminal(status: WorkflowStatus): boolean {
  return !(activeStatuses as readonly string[]).includes(status);
}
