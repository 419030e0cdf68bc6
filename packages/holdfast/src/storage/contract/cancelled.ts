/** `owner` tells which execution it was: the workflow may have been resumed since, and belong to another. */
export interface CancelledWorkflow {
  readonly workflowId: string;
  readonly owner: string | null;
  readonly reason: string | null;
  readonly queueName: string | null;
}
