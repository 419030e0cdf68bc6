/**
 * A workflow that was cancelled. `owner` is the execution that was cancelled: the workflow may have been resumed since
 * then and belong to another execution.
 */
export interface CancelledWorkflow {
  readonly workflowId: string;
  readonly owner: string | null;
  readonly reason: string | null;
  readonly queueName: string | null;
}
