import { refuseInWorkflow } from '../engine/api/context.js';
import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import { readable } from '../engine/api/workflow-info.js';
import type { Engine } from '../engine/engine.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import type { ErrorDetails } from '../model/error-details.js';
import { closedError, HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { checkCount, checkKnownOptions, invalidOption, maxInt, misplacedOption } from '../model/options.js';
import { internalQueue } from '../model/queues.js';
import { parseRetries, parseUnderWay, type RetryMark } from '../model/retries.js';
import { isResumable, isTerminal } from '../model/status.js';
import type { NewRetry } from '../storage/contract/retries.js';
import type { StepRecord, WorkflowRecord } from '../storage/contract/storage.js';
import { failedStep, type Past, planRetry, type RetryPlan, receiveName, resultName } from './retry-plan.js';

/** How a workflow that has failed goes on. */
export interface WorkflowRetryOptions {
  /**
   * The recorded step that is run again (default: the one whose error ended the workflow), or one more than the last: then
   * nothing is taken off the record, and the function runs on after its last step.
   */
  readonly fromStep?: number;
  /** Which version of the app is to run it (default: its own). */
  readonly version?: string;
}

const what = 'retry()';

interface Prepared {
  readonly record: WorkflowRecord;
  readonly plan: RetryPlan;
  /** Of the workflow that was named with it: its children are retried from where they failed. */
  readonly fromStep: number | undefined;
}

/**
 * Lets workflows that have failed go on under their IDs. What cannot be retried is an error before any of them changes. Each is
 * retried by one statement, children before their parents: a crash in between leaves a parent as it was, and the next
 * call finds its child running.
 */
export async function retryWorkflows<T>(
  engine: Engine,
  workflowIds: readonly string[],
  options: WorkflowRetryOptions,
): Promise<WorkflowHandle<T>[]> {
  for (const id of workflowIds) checkName('A workflow ID', id);
  checkKnownOptions(what, options, ['fromStep', 'version']);
  const { fromStep, version } = options;
  if (fromStep !== undefined) checkCount(what, 'fromStep', fromStep, 0, maxInt);
  if (fromStep !== undefined && workflowIds.length !== 1) {
    throw misplacedOption(what, 'fromStep', 'is a step of one workflow, so give it one ID');
  }
  if (version !== undefined) checkName('A version', version);
  engine.checkOpen();
  refuseInWorkflow(what, 'Call it in a step.');
  const prepared = new Map<string, Prepared>();
  for (const id of workflowIds) await prepare(engine, id, fromStep, prepared);
  for (const each of prepared.values()) await retry(engine, each, version);
  return workflowIds.map((id) => createHandle<T>(engine, id));
}

/** Adds a workflow to what is to be retried, after those of its children whose failure it is to forget. */
async function prepare(
  engine: Engine,
  workflowId: string,
  fromStep: number | undefined,
  prepared: Map<string, Prepared>,
): Promise<void> {
  if (prepared.has(workflowId)) return;
  const [record] = await engine.storage.workflows.get([workflowId]);
  if (!record) throw notFoundError(workflowId);
  if (record.status !== 'ERROR') throw notFailedError(record);
  const steps = await engine.storage.steps.history([workflowId]);
  const past: Past = { steps, underWay: parseUnderWay(record.underWay) };
  const first = fromStep === undefined ? await chosenStep(engine, record, past) : namedStep(record, steps, fromStep);
  const plan = planRetry(past, first);
  if (fromStep === undefined && first && plan.repeated.length > 0) throw repeatsError(record, first, plan);
  await checkGivesBack(engine, record, plan);
  for (const { name, error, childWorkflowId } of plan.dropped) {
    if (name !== resultName || error === null || childWorkflowId === null) continue;
    const [child] = await engine.storage.workflows.get([childWorkflowId]);
    // Its result would be the same failure again.
    const isOwn = child?.parentWorkflowId === workflowId && child.status === 'ERROR';
    if (isOwn && !isReplaced(workflowId, childWorkflowId, plan))
      await prepare(engine, childWorkflowId, undefined, prepared);
  }
  prepared.set(workflowId, { record, plan, fromStep });
}

/** Its start goes as well, and has another number now: the code starts another child, unless it names this one by its ID. */
function isReplaced(workflowId: string, childId: string, { dropped }: RetryPlan): boolean {
  return dropped.some(({ stepNumber, name, childWorkflowId }) => {
    if (name === resultName || childWorkflowId !== childId) return false;
    const given = `${workflowId}-${stepNumber}`;
    return childId.startsWith(given) && /^(-r\d+)?$/.test(childId.slice(given.length));
  });
}

/** One more than the last on record: none, and nothing is run again but the function. */
function namedStep(
  { workflowId }: WorkflowRecord,
  steps: readonly StepRecord[],
  fromStep: number,
): StepRecord | undefined {
  const count = steps.reduce((highest, { stepNumber }) => Math.max(highest, stepNumber), -1) + 1;
  const step = steps.find(({ stepNumber }) => stepNumber === fromStep);
  if (step || fromStep === count) return step;
  const advice = 'app.workflows.steps(id) shows those that are';
  throw invalidOption(
    what,
    'fromStep',
    fromStep,
    `a step on record of workflow "${workflowId}", or ${count}: ${advice}`,
  );
}

async function chosenStep(
  { codecs }: Engine,
  { error, serialization }: WorkflowRecord,
  past: Past,
): Promise<StepRecord | undefined> {
  // One that cannot be read is like no other.
  const readError = async (text: string | null, format: string | null): Promise<unknown> =>
    (await readable(text, (known) => codecs.for(format).decodeError(known))) ?? Symbol('unread');
  const failed = past.steps.filter((step) => step.error !== null);
  const failures = await Promise.all(
    failed.map(async (step) => ({
      step,
      error: await readError(step.error, step.serialization),
    })),
  );
  return failedStep(past, failures, await readError(error, serialization));
}

/** A message that went off the record with its step, and is not unread again, would be lost. */
async function checkGivesBack(engine: Engine, { workflowId }: WorkflowRecord, { dropped }: RetryPlan): Promise<void> {
  const received = dropped.filter(({ name, output, error }) => name === receiveName && (output ?? error) !== null);
  if (received.length === 0) return;
  const receipts = new Set(await engine.storage.retries.receipts(workflowId));
  const lost = received.find(({ stepNumber }) => !receipts.has(stepNumber));
  if (!lost) return;
  throw notRetryable(
    `Workflow "${workflowId}" received a message in step ${lost.stepNumber} before Holdfast kept which one it was (or by DBOS), so ` +
      'that it cannot be given back, and the step not be run again. Name a later step: retry(id, { fromStep }).',
    { workflowId, status: 'ERROR', stepNumber: lost.stepNumber },
  );
}

async function retry(engine: Engine, { record, plan, fromStep }: Prepared, version: string | undefined): Promise<void> {
  const { workflowId, incarnation, createdAt, retries: before } = record;
  const now = engine.clock.now();
  const earlier = parseRetries(before);
  const mark: RetryMark = {
    at: Math.max(now, createdAt + 1, (earlier.at(-1)?.at ?? 0) + 1),
    by: engine.writer.executorId,
    token: engine.owners.next(),
    fromStep: fromStep ?? null,
    cut: plan.cut,
    dropped: plan.dropped.map(({ stepNumber, name }) => ({ stepNumber, name })),
    failedAt: record.completedAt,
    error: record.error,
    serialization: record.serialization,
  };
  const row: NewRetry = {
    ...{ workflowId, incarnation, createdAt, before, now },
    after: JSON.stringify([...earlier, mark]),
    dropped: JSON.stringify(mark.dropped.map(({ stepNumber }) => ({ n: stepNumber }))),
    version: version ?? null,
    queueName: internalQueue,
  };
  const statement = async () => ({ done: await engine.storage.retries.retry(row) });
  const answer = await engine.untilAnswered('Retrying a workflow', statement, true);
  if (!answer) throw closedError();
  const queueName = answer.done?.queueName ?? (await doneBefore(engine, workflowId, mark.token));
  engine.news.announce(`queue:${queueName}`);
}

/** What changed nothing was done by an earlier sending of the same statement, or another call came first. */
async function doneBefore(engine: Engine, workflowId: string, token: string): Promise<string> {
  const read = () => engine.storage.workflows.get([workflowId]);
  const [record] = (await engine.untilAnswered('Reading a workflow', read, true)) ?? [];
  if (!record) throw notFoundError(workflowId);
  if (parseRetries(record.retries).some((mark) => mark.token === token)) return record.queueName ?? internalQueue;
  throw notFailedError(record);
}

function notRetryable(message: string, details: ErrorDetails['WORKFLOW_NOT_RETRYABLE']): HoldfastError {
  return new HoldfastError('WORKFLOW_NOT_RETRYABLE', message, { details });
}

function notFailedError({ workflowId, status, retries }: WorkflowRecord): HoldfastError {
  const again = status === 'ERROR' && retries !== null ? ', after somebody else has retried it just now' : '';
  const advice = isResumable(status)
    ? 'app.workflows.resume(id) starts it again after its last step.'
    : isTerminal(status)
      ? 'app.workflows.fork(id, { fromStep }) runs it again from one of its steps, under another ID.'
      : 'It goes on by itself: wait for its result.';
  return notRetryable(
    `Workflow "${workflowId}" is ${status}${again}: retry() is for workflows that have failed. ${advice}`,
    { workflowId, status },
  );
}

/** What a retry would do again may be a payment, or rest on one that was refunded since: not without being told to. */
function repeatsError({ workflowId }: WorkflowRecord, first: StepRecord, { repeated }: RetryPlan): HoldfastError {
  const named = repeated.slice(0, 5).map(({ stepNumber, name }) => `${stepNumber} "${name}"`);
  const steps = `${named.join(', ')}${repeated.length > named.length ? ', ...' : ''}`;
  return notRetryable(
    `Workflow "${workflowId}" failed by step ${first.stepNumber} "${first.name}", and has done more since, or begun to: ${steps}. A retry from that ` +
      'step does not undo this, and may do it again. If that is right (nothing of it was a refund, say), call ' +
      `retry(id, { fromStep: ${first.stepNumber} }), or name another step: app.workflows.steps(id) shows them.`,
    {
      workflowId,
      status: 'ERROR',
      failedStep: first.stepNumber,
      repeated: repeated.map(({ stepNumber, name }) => ({ stepNumber, name })),
    },
  );
}
