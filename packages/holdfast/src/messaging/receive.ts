import { requireExecution } from '../engine/api/context.js';
import { onceAt, reserveStepNumber } from '../engine/execution/once.js';
import { sleepName } from '../engine/execution/sleep-record.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { checkKnownOptions } from '../model/options.js';
import { inboxOf } from './inbox.js';
import { valueOutcome } from './message-outcomes.js';
import { waitUntilDeadline } from './wait-for.js';

const receiveName = 'DBOS.recv';
const defaultTimeoutMs = 60_000;

/**
 * Receives a message in a workflow: `topic.receive`. inbox.ts delivers the messages, wait-for.ts ends the wait.
 *
 * Takes two step numbers, as DBOS does: one for the message, one for the deadline of the wait. One statement stores
 * the step and consumes the message. If this execution no longer owns the workflow, the statement does neither.
 */
export function receive(
  own: { readonly what: string; readonly topic: string },
  options: { readonly timeout?: Duration },
): Promise<unknown> {
  const execution = requireExecution(`receive() of ${own.what}`);
  checkKnownOptions(`receive() of ${own.what}`, options, ['timeout']);
  const { timeout = defaultTimeoutMs } = options;
  const timeoutMs = parseDuration(timeout, `The timeout of receive() of ${own.what}`);
  const stepNumber = execution.takeStepNumber();
  const timer = reserveStepNumber(execution, sleepName);
  return onceAt(execution, stepNumber, receiveName, async () => {
    const startedAt = execution.engine.clock.now();
    const inbox = inboxOf(execution, own.topic);
    const message = await waitUntilDeadline(execution, { stepNumber: timer, timeoutMs, startedAt }, inbox.receive());
    const outcome = await valueOutcome(execution, startedAt, message);
    if (!message) return outcome;
    const { messageId } = message;
    const onCommit = (): void => inbox.consumed(messageId);
    return { ...outcome, effects: [{ kind: 'consume', messageId }], onCommit };
  });
}
