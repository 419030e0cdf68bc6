/** The retry of a failed workflow from one of its steps. The workflow is given as the caller has read it. */
export interface NewRetry {
  readonly workflowId: string;
  readonly incarnation: string | null;
  readonly createdAt: number;
  /** The stored retries of the workflow, without and with this retry. */
  readonly before: string | null;
  readonly after: string;
  /** A JSON list of the step numbers whose records are deleted. */
  readonly dropped: string;
  /** Null: the version of the workflow. */
  readonly version: string | null;
  /** The queue for the workflow if its own queue no longer exists. */
  readonly queueName: string;
  readonly now: number;
}

export interface Retries {
  /**
   * Puts a failed workflow back on its queue and deletes the records of these steps, in one statement. Messages that
   * the steps received become unread, streams that they ended are open again, and their notes about events are deleted.
   *
   * Returns undefined and changes nothing if the workflow has changed since it was read: another process has retried,
   * deleted or replaced it. Its steps cannot have changed in the meantime, because only the owner of a PENDING workflow
   * writes steps.
   */
  retry(retry: NewRetry): Promise<{ readonly queueName: string } | undefined>;
  /** Returns the steps of a workflow that received a message which a retry can give back. */
  receipts(workflowId: string): Promise<number[]>;
}
