import type { Timer } from '../../model/clock.js';
import { type Duration, parseDuration } from '../../model/duration.js';
import { HoldfastError } from '../../model/errors.js';
import { checkKnownOptions, refuseOptions } from '../../model/options.js';
import { internalQueue } from '../../model/queues.js';
import type { Ending, WorkflowRecord } from '../../storage/contract/storage.js';
import type { Engine } from '../engine.js';
import type { Execution, Wait } from '../execution/execution.js';
import { once, onceAt } from '../execution/once.js';
import { failed, type Outcome, succeeded } from '../execution/outcome.js';
import { rejecting } from '../execution/rejecting.js';
import { decodeEnding, notFoundError, type Result, resultOf } from '../execution/workflow-errors.js';
import { currentExecution, whileWaiting } from './context.js';
import { toInfo, type WorkflowInfo } from './workflow-info.js';

/** A started workflow, in this process or in another. */
export interface WorkflowHandle<T = unknown> {
  /** ID of the workflow. */
  readonly id: string;
  /**
   * Waits until the workflow ends. Resolves with the returned value. Rejects with the error of the workflow, with a
   * `HoldfastError` if the workflow was cancelled, stalled or given up, or with `RESULT_TIMEOUT` after `timeout`.
   *
   * @example
   * ```ts
   * const handle = await checkout.start(order);
   * try {
   *   const paymentId = await handle.result({ timeout: '30s' });
   * } catch (error) {
   *   if (isHoldfastError(error, 'RESULT_TIMEOUT')) console.log(`${handle.id} is still running`);
   * }
   * ```
   */
  result(options?: { readonly timeout?: Duration }): Promise<T>;
  /**
   * Resolves with the current state of the workflow.
   *
   * @example
   * ```ts
   * const { status, attempts } = await handle.status();
   * if (status === 'PENDING') console.log(`Running, attempt ${attempts}`);
   * if (status === 'ENQUEUED') console.log('Waiting on a queue');
   * ```
   */
  status(): Promise<WorkflowInfo>;
  /**
   * Cancels the workflow and its children, except detached children. A workflow that has already ended does not change.
   *
   * @example
   * ```ts
   * const handle = await checkout.start(order);
   * await handle.cancel();
   * await handle.result(); // rejects with WORKFLOW_CANCELLED
   * ```
   */
  cancel(): Promise<void>;
}

/** Step name under which a wait for a result is recorded, as in DBOS. */
const resultName = 'DBOS.getResult';
const statusName = 'getStatus';
const cancelName = 'DBOS.cancelWorkflow';

/** No size limit for values of other workflows: they are already stored, and their own limit applied. */
const unlimited = Number.POSITIVE_INFINITY;

/** Returns a handle to the workflow with this ID, whether or not the workflow exists. */
export function createHandle<T>(engine: Engine, workflowId: string): WorkflowHandle<T> {
  return {
    id: workflowId,
    result: (options = {}) =>
      rejecting('result()', () => {
        checkKnownOptions('result()', options, ['timeout']);
        const timeoutMs =
          options.timeout === undefined ? undefined : parseDuration(options.timeout, 'The timeout of result()');
        const execution = currentExecution();
        return (
          execution
            ? once(execution, resultName, () => recordableResult(execution, engine, workflowId, timeoutMs))
            : plainResult(engine, workflowId, timeoutMs)
        ) as Promise<T>;
      }),
    status: (...more: unknown[]) =>
      rejecting('status()', () => {
        refuseOptions('status()', more);
        const execution = currentExecution();
        return execution
          ? once(execution, statusName, () => recordableStatus(execution, engine, workflowId))
          : readStatus(engine, workflowId);
      }),
    cancel: (...more: unknown[]) =>
      rejecting('cancel()', () => {
        refuseOptions('cancel()', more);
        const execution = currentExecution();
        if (!execution) return cancelWorkflows(engine, [workflowId]);
        // A short failure of the database must not become the recorded outcome, so the statements are repeated.
        const untilAnswered: Attempt = (statement) => engine.untilAnswered('Cancelling a workflow', statement);
        const cancel = () => cancelWorkflows(engine, [workflowId], untilAnswered);
        return once(execution, cancelName, () => recordableCall(execution, cancel));
      }),
  };
}

/** Runs a statement once, or repeats it until the database answers. */
type Attempt = <T>(statement: () => Promise<T>) => Promise<T | undefined>;

/**
 * Cancels workflows and their children. An unknown ID is an error before any workflow changes: a mistyped ID must not
 * look like a cancelled workflow.
 */
export async function cancelWorkflows(
  engine: Engine,
  workflowIds: readonly string[],
  attempt: Attempt = (statement) => statement(),
): Promise<void> {
  const found = await attempt(() => engine.storage.workflows.endings(workflowIds));
  const known = new Set(found?.map((each) => each.workflowId));
  const unknown = workflowIds.find((id) => !known.has(id));
  if (unknown !== undefined) throw notFoundError(unknown);
  await attempt(() => engine.cancellations.cancel(workflowIds, null));
}

/** Waits for the result of a child that its parent called directly. The step number was taken at the call. */
export function childResult(execution: Execution, stepNumber: number, childId: string): Promise<unknown> {
  return onceAt(execution, stepNumber, resultName, () => recordableResult(execution, execution.engine, childId));
}

async function plainResult(engine: Engine, workflowId: string, timeoutMs: number | undefined): Promise<unknown> {
  return resultOf(engine.codecs, await whileWaiting(waitForEnding(engine, workflowId, timeoutMs, true).ending));
}

/**
 * Waits for the end of a workflow. `stopWaiting` removes the wait and its timer; the promise `ending` then never
 * settles.
 */
function waitForEnding(
  engine: Engine,
  workflowId: string,
  timeoutMs: number | undefined,
  failsFast = false,
): { readonly ending: Promise<Ending>; readonly stopWaiting: () => void } {
  const { ending, forget } = engine.completionWaiters.wait(workflowId, failsFast);
  if (timeoutMs === undefined) return { ending, stopWaiting: forget };
  let timer: Timer | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = engine.clock.at(engine.clock.now() + timeoutMs, () => {
      forget();
      void describeState(engine, workflowId).then((state) => reject(resultTimeout(workflowId, timeoutMs, state)));
    });
  });
  const done = (): void => timer?.cancel();
  ending.then(done, done);
  const stopWaiting = (): void => {
    forget();
    done();
  };
  return { ending: Promise.race([ending, timeout]), stopWaiting };
}

function resultTimeout(workflowId: string, timeoutMs: number, state: string): HoldfastError {
  return new HoldfastError(
    'RESULT_TIMEOUT',
    `Workflow "${workflowId}" did not end within ${timeoutMs} ms${state}. Call result() again later.`,
    { details: { workflowId, timeoutMs } },
  );
}

/** Describes the current state of the workflow for an error message, as far as it can be read. */
async function describeState({ storage, queueCache }: Engine, workflowId: string): Promise<string> {
  const read = storage.workflows.get([workflowId]).catch(() => []);
  // The caller waits at most one second longer if the database does not answer.
  const timeLimit = new Promise<[]>((resolve) => setTimeout(() => resolve([]), 1_000).unref());
  const [record] = await Promise.race([read, timeLimit]);
  if (!record) return '';
  const { status, name, queueName, version } = record;
  const what = version === null ? `"${name}"` : `"${name}" of version "${version}"`;
  if (status === 'PENDING') return `: ${what} is running`;
  const paused = queueName !== null && queueCache.get(queueName)?.paused ? ', which is paused' : '';
  const where = queueName === null || queueName === internalQueue ? '' : ` on queue "${queueName}"${paused}`;
  return `: ${what} is ${status}${where}, and waits for a process that can run it`;
}

/**
 * Waits for the end of a workflow and returns the outcome to record. A cancellation of the waiting workflow ends the
 * wait at once.
 */
async function recordableResult(
  execution: Execution,
  engine: Engine,
  workflowId: string,
  timeoutMs?: number,
): Promise<Outcome> {
  const startedAt = engine.clock.now();
  const until = timeoutMs === undefined ? {} : { until: startedAt + timeoutMs };
  const waiting = waitForEnding(engine, workflowId, timeoutMs);
  let stop = (): void => {};
  const cancelled = new Promise<never>((_, cancel) => {
    // A wait with a timeout keeps its workflow in memory: the timeout is not recorded, so a replay would restart the
    // timeout.
    const watchWhileSuspended =
      timeoutMs === undefined && engine === execution.engine ? watchEnding(engine, workflowId) : undefined;
    stop = execution.onCancel({ ...until, cancelled: cancel, abandoned: waiting.stopWaiting, watchWhileSuspended });
  });
  try {
    const ending = await Promise.race([waiting.ending, cancelled]).finally(() => stop());
    return await endingOutcome(execution, engine, startedAt, ending);
  } catch (error) {
    if (!execution.running) throw error;
    // The record leaves out the ID of the awaited workflow, whose outcome is not known. With the ID, a later execution
    // would take the record for the outcome of that workflow, after both workflows are resumed.
    return await failed(execution, startedAt, error);
  } finally {
    waiting.stopWaiting();
  }
}

/** Watches for the end of a workflow while the waiting workflow is suspended. */
function watchEnding(engine: Engine, workflowId: string): Wait['watchWhileSuspended'] {
  return (wake) => {
    const { ending, forget } = engine.completionWaiters.wait(workflowId);
    ending.then(wake, wake);
    return forget;
  };
}

/**
 * Returns the outcome that the waiting workflow records for the end of the other workflow. A replay finds the same
 * value that the code gets now.
 */
async function endingOutcome(
  execution: Execution,
  engine: Engine,
  startedAt: number,
  ending: Ending,
): Promise<Outcome> {
  const { workflowId, status, output, error, serialization } = ending;
  const common = { startedAt, begun: false, childWorkflowId: workflowId };
  let result: Result;
  try {
    result = await decodeEnding(engine.codecs, ending);
  } catch (unread) {
    // This process cannot read the stored text. A copy of the text would be a record that no replay can read.
    return { ...(await failed(execution, startedAt, unread)), ...common };
  }
  const text = status === 'SUCCESS' ? output : status === 'ERROR' ? error : null;
  if (engine === execution.engine && text !== null) return { ...common, output, error, serialization, result };
  // The value is encoded again: another app may use a format that this app cannot read, and some endings have no stored
  // text.
  const own = result.ok
    ? await succeeded(execution, `The result of workflow "${workflowId}"`, startedAt, result.value, unlimited)
    : await failed(execution, startedAt, result.error);
  return { ...own, ...common };
}

async function readStatus(engine: Engine, workflowId: string): Promise<WorkflowInfo> {
  return toStatus(engine, workflowId, await engine.storage.workflows.get([workflowId]));
}

function toStatus(engine: Engine, workflowId: string, [record]: readonly WorkflowRecord[]): Promise<WorkflowInfo> {
  if (!record) throw notFoundError(workflowId);
  return toInfo(engine.codecs, record);
}

async function recordableStatus(execution: Execution, engine: Engine, workflowId: string): Promise<Outcome> {
  const startedAt = execution.engine.clock.now();
  const read = () => engine.storage.workflows.get([workflowId]);
  const records = await engine.untilAnswered('Reading the status of a workflow', read);
  try {
    const status = await toStatus(engine, workflowId, records ?? []);
    return await succeeded(execution, `The status of workflow "${workflowId}"`, startedAt, status, unlimited);
  } catch (error) {
    return failed(execution, startedAt, error);
  }
}

async function recordableCall(execution: Execution, call: () => Promise<unknown>): Promise<Outcome> {
  const { clock, codecs } = execution.engine;
  const startedAt = clock.now();
  try {
    await call();
  } catch (error) {
    return failed(execution, startedAt, error);
  }
  const nothing = { output: null, error: null, serialization: codecs.native.name, childWorkflowId: null };
  return { ...nothing, startedAt, begun: false, result: { ok: true, value: undefined } };
}
