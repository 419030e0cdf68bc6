import { randomUUID } from 'node:crypto';
import { currentExecution } from './context.js';

/**
 * Time and chance that a replay repeats, at no cost: nothing is recorded for them. Outside a workflow function (in a
 * step, or in ordinary code) they are the real thing, since nothing is replayed there.
 */

/** In a workflow: when its last awaited result was recorded (at first: when it was started). Stands still in between. */
export function now(): Date {
  const execution = currentExecution();
  return execution ? new Date(execution.currentTime) : new Date();
}

/** In a workflow: a number from 0 up to 1 that depends on the workflow's ID and the number of calls. Not for secrets. */
export function random(): number {
  return currentExecution()?.random.number() ?? Math.random();
}

/** In a workflow: a UUID that depends on the workflow's ID and the number of calls. Not for secrets. */
export function uuid(): string {
  return currentExecution()?.random.uuid() ?? randomUUID();
}
