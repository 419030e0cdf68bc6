import { isErrorNamed } from '../../model/errors.js';
import type { DurableCall } from './durable-call.js';
import type { Execution } from './execution.js';

/** Maximum number of calls that one log line names. */
const maxNamed = 5;

/**
 * Warns if a workflow ends although calls that its code never observed are running or have failed. The usual cause is a
 * missing `await`. Each place in the code is reported once. A call that lost a race, or has a `catch`, was observed. If
 * the workflow failed, only failed calls are reported: its error explains why it did not await the running calls.
 */
export function reportUnawaited(execution: Execution, returned: boolean): void {
  for (const { call, error } of execution.calls.unobservedFailed()) warnOfFailure(execution, call, error);
  const open = returned ? execution.calls.unobservedOpen() : [];
  if (open.length > 0) warnOfOpen(execution, open);
  else if (execution.runningSteps > 0) noteRunning(execution);
}

/** Warns about an unobserved call that fails after the workflow has ended. */
export function warnOfLateFailure(execution: Execution, call: DurableCall, error: unknown): void {
  // A call that stops because its signal aborted did what it should.
  const stoppedBySignal = isErrorNamed(error, 'AbortError');
  if (execution.state === 'closed' && !call.isObserved && !stoppedBySignal) warnOfFailure(execution, call, error);
}

function warnOfFailure({ engine, claim }: Execution, call: DurableCall, error: unknown): void {
  const { name, workflowId } = claim;
  const failure = engine.codecs.errors.describe(error).replace(/\.$/, '');
  engine.warnOnce(
    `unawaited failure ${JSON.stringify([name, call.name])}`,
    `Workflow "${workflowId}" (${name}) did not await ${describeCall(call)}, which failed: ${failure}. ` +
      'The workflow ended regardless. Await the call, or append .catch(() => {}) if its failure does not matter. ' +
      'This warning is logged once, not for each workflow.',
  );
}

function warnOfOpen({ engine, claim }: Execution, open: readonly DurableCall[]): void {
  const { name, workflowId } = claim;
  const named = open.slice(0, maxNamed).map(describeCall);
  // The number of calls, and their step numbers, may differ from workflow to workflow.
  const names = [...new Set(open.slice(0, maxNamed).map((call) => call.name))];
  if (open.length > maxNamed) named.push(`${open.length - maxNamed} more`);
  const [are, theirResults, them] =
    open.length === 1 ? ['is', 'its result is', 'it'] : ['are', 'their results are', 'them'];
  engine.warnOnce(
    `unawaited ${JSON.stringify([name, ...names])}`,
    `Workflow "${workflowId}" (${name}) returned without awaiting ${named.join(', ')}, which ${are} still ` +
      `running: ${theirResults} not recorded. Await ${them}, or append .catch(() => {}) if the workflow need not ` +
      `wait for ${them}. This warning is logged once, not for each workflow.`,
  );
}

/** Logs the running steps as information only: the slower branch of a race is left running on purpose. */
function noteRunning({ engine, claim, runningSteps }: Execution): void {
  const [steps, theirResults] =
    runningSteps === 1 ? ['a step was', 'its result is'] : [`${runningSteps} steps were`, 'their results are'];
  engine.logger.info(
    `Workflow "${claim.workflowId}" (${claim.name}) ended while ${steps} still running: ${theirResults} not recorded.`,
  );
}

function describeCall({ name, stepNumber }: DurableCall): string {
  return stepNumber === undefined ? name : `step ${stepNumber} "${name}"`;
}
