import type { Outcome } from '../engine/execution/outcome.js';
import { HoldfastError } from '../model/errors.js';

export function endedByItself(name: string): HoldfastError {
  return new HoldfastError(
    'UNSUPPORTED_CALL',
    `Transaction "${name}" was committed or rolled back by its own function. Leave that to Holdfast: return to commit, throw to ` +
      'roll back. If it was a commit, what it has written stays, without a record that it has.',
  );
}

/** Another execution has recorded an outcome of this step. */
export class Beaten extends Error {
  constructor() {
    super('Another execution of the workflow came first.');
  }
}

/** The workflow is not this execution's any more, or what it has done before is not on record any more. */
export class Refused extends Beaten {}

/** The execution is over: the transaction is rolled back, and nobody waits for what it would have come to. */
export class Over extends Error {
  constructor() {
    super('The execution is over.');
  }
}

/** Rolls a transaction back whose result cannot be stored. */
export class Unstorable extends Error {
  constructor(readonly outcome: Outcome) {
    super('The result cannot be stored.');
  }
}
