import { refuseInWorkflow } from '../engine/api/context.js';
import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import { readable } from '../engine/api/workflow-info.js';
import type { Engine } from '../engine/engine.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import type { ErrorDetails } from '../model/error-details.js';
import { closedError, HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { checkCount, checkKnownOptions, invalidOption, maxInt, wrongOption } from '../model/options.js';
import { internalQueue } from '../model/queues.js';
import { parseRetries, parseUnderWay, type RetryMark } from '../model/retries.js';
import { isResumable, isTerminal } from '../model/status.js';
import type { NewRetry } from '../storage/contract/retries.js';
import type { StepRecord, WorkflowRecord } from '../storage/contract/storage.js';
import { type FailedHistory, failedStep, planRetry, type RetryPlan, receiveName, resultName } from './retry-plan.js';

/** Options of `app.workflows.retry`. */
export interface WorkflowRetryOptions {
  /**
   * The recorded step that runs again (default: the step whose error ended the workflow). The number after the last
   * recorded step keeps all records, and the function continues after its last step.
   */
  readonly fromStep?: number;
  /** The version of the app that continues the workflow (default: the version of the workflow). */
  readonly version?: string;
}

const what = 'retry()';

interface Prepared {
  readonly record: WorkflowRecord;
  readonly plan: RetryPlan;
  /** The step that the caller named. Undefined for children, which are retried from the step where they failed. */
  readonly fromStep: number | undefined;
}

/**
 * Continues failed workflows under their own IDs. Throws before any workflow changes if one of them cannot be retried.
 * Each workflow is retried by one statement, children before their parents. After a crash between two statements, the
 * parent is unchanged, and the next call finds its child running.
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
    throw wrongOption(what, 'fromStep', 'can be given only with the ID of one workflow');
  }
  if (version !== undefined) checkName('A version', version);
  engine.lifecycle.checkOpen();
  refuseInWorkflow(what, 'Call it in a step.');
  const prepared = new Map<string, Prepared>();
  for (const id of workflowIds) await prepare(engine, id, fromStep, prepared);
  for (const each of prepared.values()) await retry(engine, each, version);
  return workflowIds.map((id) => createHandle<T>(engine, id));
}

/** Adds a workflow to the workflows to retry, after its failed children whose result the retry drops. */
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
  const past: FailedHistory = { steps, underWay: parseUnderWay(record.underWay) };
  const first = fromStep === undefined ? await chosenStep(engine, record, past) : namedStep(record, steps, fromStep);
  const plan = planRetry(past, first);
  if (fromStep === undefined && first && plan.repeated.length > 0) throw repeatsError(record, first, plan);
  await checkGivesBack(engine, record, plan);
  for (const { name, error, childWorkflowId } of plan.dropped) {
    if (name !== resultName || error === null || childWorkflowId === null) continue;
    const [child] = await engine.storage.workflows.get([childWorkflowId]);
    // Without a retry of the child, the parent would receive the same failure again.
    const isOwn = child?.parentWorkflowId === workflowId && child.status === 'ERROR';
    if (isOwn && !isReplaced(workflowId, childWorkflowId, plan))
      await prepare(engine, childWorkflowId, undefined, prepared);
  }
  prepared.set(workflowId, { record, plan, fromStep });
}

/**
 * Returns true if the retry also drops the step that started the child. The code then starts another child, because
 * the step gets another number, unless the code gives the child an ID of its own.
 */
function isReplaced(workflowId: string, childId: string, { dropped }: RetryPlan): boolean {
  return dropped.some(({ stepNumber, name, childWorkflowId }) => {
    if (name === resultName || childWorkflowId !== childId) return false;
    const generated = `${workflowId}-${stepNumber}`;
    return childId.startsWith(generated) && /^(-r\d+)?$/.test(childId.slice(generated.length));
  });
}

/** Returns the step that the caller named; undefined for the number after the last recorded step. */
function namedStep(
  { workflowId }: WorkflowRecord,
  steps: readonly StepRecord[],
  fromStep: number,
): StepRecord | undefined {
  const count = steps.reduce((highest, { stepNumber }) => Math.max(highest, stepNumber), -1) + 1;
  const step = steps.find(({ stepNumber }) => stepNumber === fromStep);
  if (step || fromStep === count) return step;
  const advice = 'app.workflows.steps(id) shows the recorded steps';
  throw invalidOption(
    what,
    'fromStep',
    fromStep,
    `a recorded step of workflow "${workflowId}", or ${count} to continue after its last step (${advice})`,
  );
}

async function chosenStep(
  { codecs }: Engine,
  { error, serialization }: WorkflowRecord,
  past: FailedHistory,
): Promise<StepRecord | undefined> {
  // An error that cannot be read must not be equal to any other error.
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

/**
 * Throws if a dropped step received a message that cannot be made unread again. The retry would lose that message.
 */
async function checkGivesBack(engine: Engine, { workflowId }: WorkflowRecord, { dropped }: RetryPlan): Promise<void> {
  const received = dropped.filter(({ name, output, error }) => name === receiveName && (output ?? error) !== null);
  if (received.length === 0) return;
  const receipts = new Set(await engine.storage.retries.receipts(workflowId));
  const lost = received.find(({ stepNumber }) => !receipts.has(stepNumber));
  if (!lost) return;
  throw notRetryable(
    `Workflow "${workflowId}" received a message in step ${lost.stepNumber}, and the record does not say which ` +
      'message: DBOS or an older Holdfast wrote it. Running the step again would lose that message. Name a later ' +
      'step: retry(id, { fromStep }).',
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

/**
 * Called when the statement changed nothing. Either an earlier sending of the same statement succeeded and its answer
 * was lost, or another call has retried the workflow first.
 */
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
  if (status === 'ERROR' && retries !== null) {
    return notRetryable(
      `Another call retried workflow "${workflowId}" at the same time, and the workflow has failed again. Look at its ` +
        'new error with app.workflows.get(id) before you call retry(id) again.',
      { workflowId, status },
    );
  }
  const advice = isResumable(status)
    ? 'app.workflows.resume(id) continues it after its last step.'
    : isTerminal(status)
      ? 'app.workflows.fork(id, { fromStep }) runs it again from one of its steps, under another ID.'
      : 'It is not finished: wait for its result.';
  return notRetryable(
    `Workflow "${workflowId}" is ${status}, and retry() continues only workflows that have failed. ${advice}`,
    { workflowId, status },
  );
}

/**
 * A retry could repeat a payment, or continue after a payment that was refunded since. The caller must therefore name
 * the step.
 */
function repeatsError({ workflowId }: WorkflowRecord, first: StepRecord, { repeated }: RetryPlan): HoldfastError {
  const named = repeated.slice(0, 5).map(({ stepNumber, name }) => `${stepNumber} "${name}"`);
  const steps = `${named.join(', ')}${repeated.length > named.length ? ', ...' : ''}`;
  return notRetryable(
    `Workflow "${workflowId}" failed in step ${first.stepNumber} "${first.name}", and ran or began more steps after ` +
      `that: ${steps}. A retry from step ${first.stepNumber} does not undo these steps and may repeat them. If that ` +
      `is correct (for example because no later step is a refund), call retry(id, { fromStep: ${first.stepNumber} }). ` +
      'Otherwise name another step: app.workflows.steps(id) shows the steps.',
    {
      workflowId,
      status: 'ERROR',
      failedStep: first.stepNumber,
      repeated: repeated.map(({ stepNumber, name }) => ({ stepNumber, name })),
    },
  );
}
