import { isErrorNamed } from '../../model/errors.js';
import type { DurableCall } from './durable-call.js';
import type { Execution } from './execution.js';

/** How many calls a line of the log names. */
const maxNamed = 5;

/**
 * A workflow ends although calls of it are under way, or have failed, that its code has never looked at: a missing
 * `await`, most likely. Said once for each place in the code. What lost a race, or has a `catch`, was looked at, and what
 * the workflow itself failed before it could await is told by its error.
 */
export function reportUnawaited(execution: Execution, returned: boolean): void {
  for (const { call, error } of execution.calls.unlookedFailed()) warnOfFailure(execution, call, error);
  const open = returned ? execution.calls.unlookedOpen() : [];
  if (open.length > 0) warnOfOpen(execution, open);
  else if (execution.runningSteps > 0) noteRunning(execution);
}

/** The same for a failure that arrives when the workflow has ended. */
export function warnOfLateFailure(execution: Execution, call: DurableCall, error: unknown): void {
  // What stops because its signal aborted did what it should.
  const obeyed = isErrorNamed(error, 'AbortError');
  if (execution.state === 'closed' && !call.wasLookedAt && !obeyed) warnOfFailure(execution, call, error);
}

function warnOfFailure({ engine, claim }: Execution, call: DurableCall, error: unknown): void {
  const { name, workflowId } = claim;
  const failure = engine.codecs.errors.describe(error).replace(/\.$/, '');
  engine.warnOnce(
    `unawaited failure ${JSON.stringify([name, call.name])}`,
    `Workflow "${workflowId}" (${name}) did not await ${describeCall(call)}, which failed: ${failure}. ` +
      'The workflow ended regardless. Await the call; or, if its failure does not matter, end it in .catch(() => {}). ' +
      'Said once, not for each workflow.',
  );
}

function warnOfOpen({ engine, claim }: Execution, open: readonly DurableCall[]): void {
  const { name, workflowId } = claim;
  const named = open.slice(0, maxNamed).map(describeCall);
  // How many there are, and the numbers of their steps, may differ from workflow to workflow.
  const names = [...new Set(open.slice(0, maxNamed).map((call) => call.name))];
  if (open.length > maxNamed) named.push(`${open.length - maxNamed} more`);
  const [theirs, them] = open.length === 1 ? ['its result is', 'it'] : ['their results are', 'them'];
  engine.warnOnce(
    `unawaited ${JSON.stringify([name, ...names])}`,
    `Workflow "${workflowId}" (${name}) returned while it had not awaited ${named.join(', ')}, still under way: ${theirs} ` +
      `not recorded. Await ${them}; or, to leave ${them} behind on purpose, end each in .catch(() => {}). ` +
      'Said once, not for each workflow.',
  );
}

/** Only a note: the slower branch of a race is left behind on purpose. */
function noteRunning({ engine, claim, runningSteps }: Execution): void {
  const steps = runningSteps === 1 ? 'a step was' : `${runningSteps} steps were`;
  engine.logger.info(
    `Workflow "${claim.workflowId}" (${claim.name}) ended while ${steps} still running: their results are not recorded.`,
  );
}

function describeCall({ name, stepNumber }: DurableCall): string {
  return stepNumber === undefined ? name : `step ${stepNumber} "${name}"`;
}
