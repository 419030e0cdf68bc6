import type { Codecs } from '../codec/codec.js';
import { HoldfastError } from '../model/errors.js';
import type { Ending } from '../storage/storage.js';

/** The value that a workflow returned, or the error that it ended with, thrown. */
export async function resultOf(codecs: Codecs, ending: Ending): Promise<unknown> {
  const { workflowId, status } = ending;
  const codec = codecs.for(ending.serialization);
  if (status === 'SUCCESS') return ending.output === null ? undefined : codec.decode(ending.output);
  // A workflow may throw anything; whoever waits gets just that.
  if (status === 'ERROR')
    return Promise.reject(ending.error === null ? undefined : await codec.decodeError(ending.error));
  if (status === 'CANCELLED') throw cancelledError(workflowId, ending.statusReason);
  if (status === 'STALLED') {
    throw new HoldfastError(
      'WORKFLOW_STALLED',
      `Workflow "${workflowId}" is STALLED: ${ending.statusReason ?? 'its code no longer matches its record'}`,
      { details: { workflowId, status } },
    );
  }
  throw new HoldfastError(
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

export function closedError(): HoldfastError {
  return new HoldfastError(
    'APP_CLOSED',
    'The app was shut down. What was unfinished goes on in the next process that launches it.',
  );
}

export function cancelledError(workflowId: string, reason: string | null): HoldfastError {
  const why = reason === null ? 'was cancelled' : `was cancelled: ${reason}`;
  return new HoldfastError('WORKFLOW_CANCELLED', `Workflow "${workflowId}" ${why}. \`resume\` starts it again.`, {
    details: { workflowId, reason },
  });
}

/** Why a workflow was cancelled that outlived its deadline. */
export function timeoutReason(): string {
  return 'its timeout passed';
}
