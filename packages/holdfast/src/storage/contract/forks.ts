/** A workflow that is to begin where another one was: with that one's input, and its steps up to a number. */
export interface NewFork {
  readonly workflowId: string;
  readonly forkedFrom: string;
  /** The first step that is not taken over. */
  readonly fromStep: number;
  readonly createdAt: number;
  readonly queueName: string;
  readonly partition: string | null;
  readonly priority: number;
  /** Null: that of the original. */
  readonly version: string | null;
  readonly appName: string | null;
  /** Null: that of the original, or none (`untimed`). */
  readonly timeoutMs: number | null;
  readonly untimed: boolean;
  readonly delayUntil: number | null;
  /** A JSON list of `{ old, new }`: children that steps taken over point to, and which ones they are to point to. */
  readonly children: string;
}

export interface Forks {
  /**
   * Enqueues a copy of a workflow, all of it in one statement: input, user, roles and attributes, and what the steps
   * below `fromStep` left (records, events, streams), as one snapshot. Messages stay with the original. False, and nothing is
   * changed, if the ID is taken, there is no original, no such queue, or fewer steps on record than are to be taken over.
   */
  create(fork: NewFork): Promise<boolean>;
  /** How many step numbers are on record: one more than the highest. */
  stepCount(workflowId: string): Promise<number>;
}
