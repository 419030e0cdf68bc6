import { currentExecution } from '../api/context.js';

/**
 * Makes a call whose bad arguments are refused at once, before any step number is taken, an asynchronous one like any
 * other: it rejects, and never throws. In a workflow the refusal may be taken up later than it arrives.
 */
export function rejecting<T>(name: string, call: () => Promise<T>): Promise<T> {
  try {
    return call();
  } catch (error) {
    const refusal = Promise.reject<T>(error);
    return currentExecution()?.calls.follow(name, undefined, refusal) ?? refusal;
  }
}
