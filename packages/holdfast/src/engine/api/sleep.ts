import { type CheckedDuration, type Duration, parseDuration } from '../../model/duration.js';
import { refuseOptions } from '../../model/options.js';
import type { StepRecord } from '../../storage/contract/storage.js';
import { sleepName } from '../execution/deliveries.js';
import type { Execution } from '../execution/execution.js';
import { once } from '../execution/once.js';
import { waitUntil } from '../execution/run-step.js';
import { requireExecution } from './context.js';

/**
 * Sleeps durably: the wake time is an instant on the database's clock, recorded when the sleep begins. A restart does
 * not move it; a process that comes back too late wakes at once.
 */
export function sleep<Given extends Duration>(duration: CheckedDuration<Given>): Promise<void>;
export function sleep(duration: Duration, ...more: unknown[]): Promise<void> {
  refuseOptions('sleep()', more);
  const execution = requireExecution('sleep()');
  const ms = parseDuration(duration, 'The argument of sleep()');
  return once(execution, sleepName, async (stepNumber, begun) => {
    const { wakeAt, startedAt } = begun ? recordedSleep(begun) : await beginSleep(execution, stepNumber, ms);
    await waitUntil(execution, wakeAt, restUntilThen);
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

/** There is nothing to watch: its wake time is on record, and whoever lets it rest sees to that. */
function restUntilThen(): undefined {}

/**
 * The end of a wait that began at `startedAt`, as a sleep under a step number of its own: recorded now, unless an earlier
 * execution has done so.
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

/** The row has the form that DBOS gives it: the wake time as its output, and as its time of completion. */
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
    execution.engine.superseded(workflowId, owner, written);
    return execution.refuse();
  }
  return { wakeAt, startedAt };
}
