/** A workflow that has failed and is to go on from one of its steps, as it was read. */
export interface NewRetry {
  readonly workflowId: string;
  readonly incarnation: string | null;
  readonly createdAt: number;
  /** Its retries so far, and with this one. */
  readonly before: string | null;
  readonly after: string;
  /** A JSON list of the step numbers that go off the record. */
  readonly dropped: string;
  /** Null: its own. */
  readonly version: string | null;
  /** Where it waits if its own queue is gone. */
  readonly queueName: string;
  readonly now: number;
}

export interface Retries {
  /**
   * Puts a workflow that has failed back on its queue, without these steps, in one statement: messages that they received
   * are unread again, streams that they ended are open, and what they noted of events is gone. Undefined, and nothing is changed,
   * if it is no longer as it was read: somebody has retried, deleted or replaced it. Its steps cannot have changed meanwhile,
   * because only the owner of a PENDING workflow writes any.
   */
  retry(retry: NewRetry): Promise<{ readonly queueName: string } | undefined>;
  /** The steps of a workflow by which a message was received that a retry can give back. */
  receipts(workflowId: string): Promise<number[]>;
}
