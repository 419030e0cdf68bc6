import type { Codecs } from '../../codec/codecs.js';
import type { ErrorDetails } from '../../model/error-details.js';
import { HoldfastError } from '../../model/errors.js';
import type { Ending } from '../../storage/contract/storage.js';

/** The value or error of a call or of a workflow, for the code that awaits it. */
export type Result = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: unknown };

/** Resolves with the value that a workflow returned, or rejects with the error that it ended with. */
export async function resultOf(codecs: Codecs, ending: Ending): Promise<unknown> {
  const result = await decodeEnding(codecs, ending);
  return result.ok ? result.value : Promise.reject(result.error);
}

/** Decodes the value or error of a workflow that has ended. Rejects only if this process cannot decode it. */
export async function decodeEnding(codecs: Codecs, ending: Ending): Promise<Result> {
  const { workflowId, status } = ending;
  const codec = codecs.for(ending.serialization);
  if (status === 'SUCCESS') {
    return { ok: true, value: ending.output === null ? undefined : await codec.decode(ending.output) };
  }
  // A workflow may throw any value, and its waiters get exactly that value. A stalled workflow stores the error that
  // stalled it.
  if (ending.error !== null) return { ok: false, error: await codec.decodeError(ending.error) };
  if (status === 'ERROR') return { ok: false, error: undefined };
  if (status === 'CANCELLED') return { ok: false, error: cancelledError(workflowId, ending.statusReason) };
  if (status === 'STALLED') return { ok: false, error: stalledByRecoveryError(workflowId, ending.statusReason) };
  return { ok: false, error: deadError(workflowId, status) };
}

function deadError(workflowId: string, status: Ending['status']): HoldfastError {
  return new HoldfastError(
    'WORKFLOW_DEAD',
    `Workflow "${workflowId}" is ${status}: it was started too often without finishing. ` +
      'Find out why its process ends each time, then call app.workflows.resume(id).',
    { details: { workflowId, status } },
  );
}

export function notFoundError(workflowId: string): HoldfastError {
  return new HoldfastError('WORKFLOW_NOT_FOUND', `There is no workflow with the ID "${workflowId}". Check the ID.`, {
    details: { workflowId },
  });
}

export function cancelledError(workflowId: string, reason: string | null): HoldfastError {
  const why = reason === null ? 'was cancelled' : `was cancelled: ${reason}`;
  const advice = 'app.workflows.resume(id) continues it after its last recorded step.';
  return new HoldfastError('WORKFLOW_CANCELLED', `Workflow "${workflowId}" ${why}. ${advice}`, {
    details: { workflowId, reason },
  });
}

/** The reason that is stored for a workflow that is cancelled at its deadline. */
export function timeoutReason(): string {
  return 'its timeout passed';
}

/**
 * Returns the error of a workflow that recovery stalled. Recovery stores a reason and no error: the workflow continues
 * only if someone resumes it.
 */
function stalledByRecoveryError(workflowId: string, reason: string | null): HoldfastError {
  return new HoldfastError(
    'WORKFLOW_STALLED',
    `Workflow "${workflowId}" is STALLED: ${reason ?? 'no reason is stored. Resume it: app.workflows.resume(id).'}`,
    { details: { workflowId, reason } },
  );
}

/** Returns the error of a workflow that is stalled because any way to continue it would be a guess. */
export function stalledError(
  code: 'NON_DETERMINISM' | 'WORKFLOW_STALLED',
  workflow: { readonly workflowId: string; readonly name: string },
  why: string,
  details: Omit<ErrorDetails['NON_DETERMINISM'], 'workflowId' | 'name'> = {},
): HoldfastError {
  const { workflowId, name } = workflow;
  return new HoldfastError(code, `Workflow "${workflowId}" (${name}) is STALLED: ${why}`, {
    details: { workflowId, name, ...details },
  });
}

/**
 * Advises what to do about code that does not match the history from this step on. `diff` shows the two side by side.
 * `missing` is an empty place in the completion order that has recorded places after it.
 */
export function mismatchAdvice(stepNumber: number, diff: string | undefined, missing?: number): string {
  const gap =
    missing === undefined
      ? ''
      : `The history has no result number ${missing}, although it has later results. A retry leaves such a gap, and ` +
        'so do interrupted concurrent steps. If the database may have lost the result (a restored backup, a failover ' +
        'that lost commits), no code matches the history: fork the workflow from a step before the gap. Otherwise: ';
  return (
    `${gap}Deploy the code that started the workflow, or guard the change with patch(), then resume the workflow. ` +
    `Or run the new code from this step: app.workflows.fork(id, { fromStep: ${stepNumber} }). ` +
    `The fork repeats everything that was done from this step on.\n${diff ?? ''}`
  );
}
