import type { Codecs } from '../../codec/codec.js';
import type { ErrorDetails } from '../../model/error-details.js';
import { HoldfastError } from '../../model/errors.js';
import type { Ending } from '../../storage/contract/storage.js';

/** What came of a call or of a workflow, for the code that awaits it. */
export type Result = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: unknown };

/** The value that a workflow returned, or the error that it ended with, thrown. */
export async function resultOf(codecs: Codecs, ending: Ending): Promise<unknown> {
  const result = await readEnding(codecs, ending);
  return result.ok ? result.value : Promise.reject(result.error);
}

/** What a workflow came to. Rejects only if this process cannot read that. */
export async function readEnding(codecs: Codecs, ending: Ending): Promise<Result> {
  const { workflowId, status } = ending;
  const codec = codecs.for(ending.serialization);
  if (status === 'SUCCESS') {
    return { ok: true, value: ending.output === null ? undefined : await codec.decode(ending.output) };
  }
  // A workflow may throw anything; whoever waits gets just that. A stalled one carries the error that stalled it.
  if (ending.error !== null) return { ok: false, error: await codec.decodeError(ending.error) };
  if (status === 'ERROR') return { ok: false, error: undefined };
  if (status === 'CANCELLED') return { ok: false, error: cancelledError(workflowId, ending.statusReason) };
  if (status === 'STALLED') return { ok: false, error: setAsideError(workflowId, ending.statusReason) };
  return { ok: false, error: deadError(workflowId, status) };
}

function deadError(workflowId: string, status: Ending['status']): HoldfastError {
  return new HoldfastError(
    'WORKFLOW_DEAD',
    `Workflow "${workflowId}" is ${status}: it was started too often without finishing. ` +
      'Find out why it brings its process down, then `resume` it.',
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
  const advice = 'app.workflows.resume(id) goes on after its last step.';
  return new HoldfastError('WORKFLOW_CANCELLED', `Workflow "${workflowId}" ${why}. ${advice}`, {
    details: { workflowId, reason },
  });
}

/** Why a workflow was cancelled that outlived its deadline. */
export function timeoutReason(): string {
  return 'its timeout passed';
}

/** Set aside by recovery, which knows no error: only that nobody is to go on with it unasked. */
function setAsideError(workflowId: string, reason: string | null): HoldfastError {
  return new HoldfastError('WORKFLOW_STALLED', `Workflow "${workflowId}" is STALLED: ${reason ?? 'it was set aside'}`, {
    details: { workflowId, reason },
  });
}

/** Why a workflow was set aside: running on would be a guess. */
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
 * What to do about code that no longer matches a record from this step on, with the two side by side. `missing`: a place in the
 * order that the record lacks although it has later ones.
 */
export function mismatchAdvice(stepNumber: number, diff: string | undefined, missing?: number): string {
  const holes =
    missing === undefined
      ? ''
      : `The record has later results than number ${missing} of its order, and not that one. A retry, and steps side by side that were ` +
        'interrupted, leave such a place. If the database may have lost it (a restored backup, a failover that lost commits), no code fits ' +
        'the record: fork it from before the gap. Otherwise: ';
  return (
    `${holes}Deploy the code that started it, or guard the change with patch(), then resume it. Or run the new code from there, ` +
    `which does again what was done from that step on: app.workflows.fork(id, { fromStep: ${stepNumber} }).\n${diff ?? ''}`
  );
}
