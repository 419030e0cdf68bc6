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
import { notFoundError, type Result, readEnding, resultOf } from '../execution/workflow-errors.js';
import { currentExecution, whileWaiting } from './context.js';
import { toInfo, type WorkflowInfo } from './workflow-info.js';

/** A workflow that was started, by this process or any other. */
export interface WorkflowHandle<T = unknown> {
  readonly id: string;
  /** The value that the workflow returns; throws its error, or a typed one when it was cancelled or given up. */
  result(options?: { readonly timeout?: Duration }): Promise<T>;
  status(): Promise<WorkflowInfo>;
  /** Cancels the workflow and its children. One that has ended stays as it is. */
  cancel(): Promise<void>;
}

/** Name under which waiting for a workflow's result is recorded, as DBOS does. */
const resultName = 'DBOS.getResult';
const statusName = 'getStatus';
const cancelName = 'DBOS.cancelWorkflow';

/** What is only read is stored already, by whoever was allowed to. */
const unlimited = Number.POSITIVE_INFINITY;

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
        // A database that fails for a moment is no outcome: what is recorded stays.
        const patiently: Attempt = (statement) => engine.untilAnswered('Cancelling a workflow', statement);
        const cancel = () => cancelWorkflows(engine, [workflowId], patiently);
        return once(execution, cancelName, () => recordableCall(execution, cancel));
      }),
  };
}

/** Makes a statement, or repeats it until the database answers. */
type Attempt = <T>(statement: () => Promise<T>) => Promise<T | undefined>;

/** An unknown ID is an error before any workflow changes: a mistyped ID must not pass for a workflow that was cancelled. */
export async function cancelWorkflows(
  engine: Engine,
  workflowIds: readonly string[],
  attempt: Attempt = (statement) => statement(),
): Promise<void> {
  const found = await attempt(() => engine.storage.workflows.endings(workflowIds));
  const known = new Set(found?.map((each) => each.workflowId));
  const unknown = workflowIds.find((id) => !known.has(id));
  if (unknown !== undefined) throw notFoundError(unknown);
  await attempt(() => engine.cancel(workflowIds, null));
}

/** A child's result for the parent that called it directly; the number was taken at the call. */
export function childResult(execution: Execution, stepNumber: number, childId: string): Promise<unknown> {
  return onceAt(execution, stepNumber, resultName, () => recordableResult(execution, execution.engine, childId));
}

async function plainResult(engine: Engine, workflowId: string, timeoutMs: number | undefined): Promise<unknown> {
  return resultOf(engine.codecs, await whileWaiting(waitForEnding(engine, workflowId, timeoutMs, true).ending));
}

/** `giveUp` lets go of everything that the wait holds; its promise then never settles. */
function waitForEnding(
  engine: Engine,
  workflowId: string,
  timeoutMs: number | undefined,
  failsFast = false,
): { readonly ending: Promise<Ending>; readonly giveUp: () => void } {
  const { ending, forget } = engine.completionWaiters.wait(workflowId, failsFast);
  if (timeoutMs === undefined) return { ending, giveUp: forget };
  let timer: Timer | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = engine.clock.at(engine.clock.now() + timeoutMs, () => {
      forget();
      void describeState(engine, workflowId).then((state) => reject(resultTimeout(workflowId, timeoutMs, state)));
    });
  });
  const done = (): void => timer?.cancel();
  ending.then(done, done);
  const giveUp = (): void => {
    forget();
    done();
  };
  return { ending: Promise.race([ending, timeout]), giveUp };
}

function resultTimeout(workflowId: string, timeoutMs: number, state: string): HoldfastError {
  return new HoldfastError(
    'RESULT_TIMEOUT',
    `Workflow "${workflowId}" did not end within ${timeoutMs} ms${state}. Ask again later, by its ID.`,
    { details: { workflowId, timeoutMs } },
  );
}

/** Where it is meanwhile, as far as that can be told. */
async function describeState({ storage, queueCache }: Engine, workflowId: string): Promise<string> {
  const read = storage.workflows.get([workflowId]).catch(() => []);
  // A database out of reach must not keep the caller waiting beyond its time.
  const late = new Promise<[]>((resolve) => setTimeout(() => resolve([]), 1_000).unref());
  const [record] = await Promise.race([read, late]);
  if (!record) return '';
  const { status, name, queueName, version } = record;
  const what = version === null ? `"${name}"` : `"${name}" of version "${version}"`;
  if (status === 'PENDING') return `: ${what} is running`;
  const paused = queueName !== null && queueCache.get(queueName)?.paused ? ', which is paused' : '';
  const where = queueName === null || queueName === internalQueue ? '' : ` on queue "${queueName}"${paused}`;
  return `: ${what} is ${status}${where}, until a process takes it that can run it`;
}

/** Waits like anyone else, but a cancellation of the waiting workflow ends the wait at once. */
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
    // A timeout is not on record: it would begin anew.
    const watchWhileSuspended =
      timeoutMs === undefined && engine === execution.engine ? restFor(engine, workflowId) : undefined;
    stop = execution.onCancel({ ...until, cancelled: cancel, dropped: waiting.giveUp, watchWhileSuspended });
  });
  try {
    const ending = await Promise.race([waiting.ending, cancelled]).finally(() => stop());
    return await endingOutcome(execution, engine, startedAt, ending);
  } catch (error) {
    if (!execution.running) throw error;
    // Without the workflow's ID: no outcome of it is known, and this record would pass for one when both are resumed.
    return await failed(execution, startedAt, error);
  } finally {
    waiting.giveUp();
  }
}

/** Waits for the end of a workflow on behalf of one that is not in memory. */
function restFor(engine: Engine, workflowId: string): Wait['watchWhileSuspended'] {
  return (wake) => {
    const { ending, forget } = engine.completionWaiters.wait(workflowId);
    ending.then(wake, wake);
    return forget;
  };
}

/** What the waiting workflow has on record of the other one's end, in which a replay will find the same as the code now. */
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
    result = await readEnding(engine.codecs, ending);
  } catch (unread) {
    // The text itself would leave a record that nobody can replay.
    return { ...(await failed(execution, startedAt, unread)), ...common };
  }
  const text = status === 'SUCCESS' ? output : status === 'ERROR' ? error : null;
  if (engine === execution.engine && text !== null) return { ...common, output, error, serialization, result };
  // Not as the workflow stored it: another app may use a format that this one cannot read, and some endings have no text.
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
