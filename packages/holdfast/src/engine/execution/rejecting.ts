import { currentExecution } from '../api/context.js';

/**
 * Turns a synchronous refusal of bad arguments, which comes before any step number is taken, into a rejection: the call
 * never throws. In a workflow, the code may await the rejection later than it occurs.
 */
export function rejecting<T>(name: string, call: () => Promise<T>): Promise<T> {
  try {
    return call();
  } catch (error) {
    const calls = callsHere();
    const refusal = Promise.reject<T>(error);
    return calls?.follow(name, undefined, refusal) ?? refusal;
  }
}

/** Returns undefined outside of workflows, and in a workflow of another release of the package. */
function callsHere() {
  try {
    return currentExecution()?.calls;
  } catch {
    return undefined;
  }
}
