/** A new workflow that starts with the input of another workflow and a copy of its first steps. */
export interface NewFork {
  readonly workflowId: string;
  readonly forkedFrom: string;
  /** The first step that is not copied. */
  readonly fromStep: number;
  readonly createdAt: number;
  readonly queueName: string;
  readonly partition: string | null;
  readonly priority: number;
  /** Null: the version of the original. */
  readonly version: string | null;
  readonly appName: string | null;
  /** Null: the timeout of the original, or none if `untimed` is true. */
  readonly timeoutMs: number | null;
  readonly untimed: boolean;
  readonly delayUntil: number | null;
  /** A JSON list of `{ old, new }`: the child IDs in the copied steps, and the IDs that replace them. */
  readonly children: string;
}

export interface Forks {
  /**
   * Enqueues a copy of a workflow in one statement. The copy has the input, user, roles and attributes of the original.
   * It also has the results of the steps below `fromStep` (records, events and streams), all from one snapshot.
   * Messages stay with the original.
   *
   * Returns false and changes nothing if the ID is taken, or if the original or the queue does not exist. The same
   * applies if the original has recorded fewer steps than are to be copied.
   */
  create(fork: NewFork): Promise<boolean>;
  /** Returns how many step numbers are in use: one more than the highest recorded number. */
  stepCount(workflowId: string): Promise<number>;
}
