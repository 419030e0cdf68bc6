import type { Outcome } from '../engine/execution/outcome.js';
import { HoldfastError } from '../model/errors.js';

export function endedByItself(name: string): HoldfastError {
  return new HoldfastError(
    'UNSUPPORTED_CALL',
    `Transaction "${name}" was committed or rolled back by its own function. Leave that to Holdfast: return to ` +
      'commit, throw to roll back. If the function committed, its changes remain, but the step is not stored as done.',
  );
}

/** Another execution has stored an outcome of this step first. */
export class RecordConflict extends Error {
  constructor() {
    super('Another execution of the workflow has already stored an outcome of this step.');
  }
}

/** This execution no longer owns the workflow, or the earlier results of this execution are no longer stored. */
export class CheckpointRefused extends RecordConflict {}

/** The execution has ended. The transaction is rolled back, and its outcome is not needed. */
export class ExecutionEnded extends Error {
  constructor() {
    super('The execution has ended.');
  }
}

/** The result cannot be stored. Throwing this error rolls the transaction back. */
export class Unstorable extends Error {
  constructor(readonly outcome: Outcome) {
    super('The result cannot be stored.');
  }
}
