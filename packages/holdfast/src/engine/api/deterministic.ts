import { randomUUID } from 'node:crypto';
import { currentExecution } from './context.js';

/**
 * Time and random values that a replay repeats. They cost nothing, because nothing is recorded for them. Outside a
 * workflow function (in a step, or in ordinary code) they are real, because no replay happens there.
 */

/**
 * Returns the current time of the workflow: the instant at which its last awaited result was recorded, or its start
 * before the first result. A replay returns the same time. Outside a workflow function, returns the real time.
 *
 * @example
 * ```ts
 * const report = workflow('report', async () => {
 *   const rows = await run('load rows', () => loadRows());
 *   return { rows, createdAt: now() };
 * });
 * ```
 */
export function now(): Date {
  const execution = currentExecution();
  return execution ? new Date(execution.currentTime) : new Date();
}

/**
 * Returns a random number from 0 (inclusive) to 1 (exclusive). In a workflow function, a replay returns the same
 * number. The number depends on the workflow ID and the number of calls, so do not use it for secrets.
 *
 * @example
 * ```ts
 * const survey = workflow('survey', async (email: string) => {
 *   if (random() < 0.1) await run('ask', () => sendSurvey(email));
 * });
 * ```
 */
export function random(): number {
  return currentExecution()?.random.number() ?? Math.random();
}

/**
 * Returns a UUID. In a workflow function, a replay returns the same UUID. The UUID depends on the workflow ID and the
 * number of calls, so do not use it for secrets.
 *
 * @example
 * ```ts
 * const transfer = workflow('transfer', async (cents: number) => {
 *   const reference = uuid();
 *   await run('withdraw', () => withdraw(cents, reference));
 *   await run('deposit', () => deposit(cents, reference));
 * });
 * ```
 */
export function uuid(): string {
  return currentExecution()?.random.uuid() ?? randomUUID();
}
