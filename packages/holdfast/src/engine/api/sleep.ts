import { type CheckedDuration, type Duration, parseDuration } from '../../model/duration.js';
import { refuseOptions } from '../../model/options.js';
import type { StepRecord } from '../../storage/contract/storage.js';
import type { Execution } from '../execution/execution.js';
import { once } from '../execution/once.js';
import { rejecting } from '../execution/rejecting.js';
import { sleepName } from '../execution/sleep-record.js';
import { waitUntil } from '../execution/wait-until.js';
import { requireExecution } from './context.js';

/**
 * Sleeps durably. The wake time is an instant on the database's clock. It is recorded when the sleep begins, and no
 * restart moves it. If a process continues the workflow after the wake time, the sleep ends at once.
 *
 * @example
 * ```ts
 * const remind = workflow('remind', async (email: string) => {
 *   await run('welcome', () => sendMail(email, 'Welcome!'));
 *   await sleep('3 days');
 *   await run('remind', () => sendMail(email, 'How do you like it?'));
 * });
 * ```
 */
export function sleep<Given extends Duration>(duration: CheckedDuration<Given>): Promise<void>;
export function sleep(duration: Duration, ...more: unknown[]): Promise<void> {
  return rejecting('sleep()', () => sleepFor(duration, more));
}

function sleepFor(duration: Duration, more: readonly unknown[]): Promise<void> {
  refuseOptions('sleep()', more);
  const execution = requireExecution('sleep()');
  const ms = parseDuration(duration, 'The argument of sleep()');
  return once(execution, sleepName, async (stepNumber, begun) => {
    const { wakeAt, startedAt } = begun ? recordedSleep(begun) : await beginSleep(execution, stepNumber, ms);
    await waitUntil(execution, wakeAt, watchNothing);
    return {
      output: null,
      error: null,
      serialization: null,
      childWorkflowId: null,
      startedAt,
      begun: true,
      result: { ok: true, value: undefined },
    };
  });
}

/**
 * A sleep needs no watch while its workflow is suspended: the wake time is recorded, and the suspended workflow has a
 * timer.
 */
function watchNothing(): undefined {}

/**
 * Returns the end of a wait that began at `startedAt`. The end is recorded as a sleep under its own step number, unless
 * an earlier execution has already recorded it.
 */
export async function deadlineOf(
  execution: Execution,
  wait: { readonly stepNumber: number; readonly timeoutMs: number; readonly startedAt: number },
): Promise<number> {
  const begun = execution.history?.peek(wait.stepNumber);
  if (begun) return recordedSleep(begun).wakeAt;
  return (await beginSleep(execution, wait.stepNumber, wait.timeoutMs, wait.startedAt)).wakeAt;
}

function recordedSleep(begun: StepRecord): { wakeAt: number; startedAt: number } {
  const wakeAt = Number(begun.output ?? begun.completedAt);
  return { wakeAt, startedAt: begun.startedAt ?? wakeAt };
}

/**
 * Records the beginning of a sleep, in the form of DBOS: the wake time is both the output and the time of completion.
 */
async function beginSleep(
  execution: Execution,
  stepNumber: number,
  ms: number,
  startedAt = execution.engine.clock.now(),
) {
  const { checkpoints } = execution.engine;
  const { workflowId, owner } = execution.claim;
  const wakeAt = startedAt + ms;
  const written = await checkpoints.recordStep({
    workflowId,
    owner,
    stepNumber,
    name: sleepName,
    output: String(wakeAt),
    error: null,
    serialization: 'portable_json',
    childWorkflowId: null,
    startedAt,
    completedAt: wakeAt,
    completionSeq: null,
    requestedAfter: execution.requestedAfter(stepNumber),
    ...execution.frontier.after,
  });
  if (written !== 'written') {
    execution.engine.executions.supersede(workflowId, owner, written);
    return execution.refuse();
  }
  return { wakeAt, startedAt };
}
