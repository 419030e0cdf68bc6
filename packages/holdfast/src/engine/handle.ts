import { type Duration, parseDuration } from '../model/duration.js';
import { HoldfastError } from '../model/errors.js';
import { checkKnownOptions } from '../model/options.js';
import type { Ending } from '../storage/storage.js';
import { currentExecution } from './context.js';
import { notFoundError, resultOf } from './endings.js';
import type { Engine } from './engine.js';
import type { Execution } from './execution.js';
import { toInfo, type WorkflowInfo } from './info.js';
import { type Outcome, once, onceAt, type Result } from './once.js';

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

export function createHandle<T>(engine: Engine, workflowId: string): WorkflowHandle<T> {
  return {
    id: workflowId,
    result: (options = {}) => {
      checkKnownOptions('result()', options, ['timeout']);
      const timeoutMs =
        options.timeout === undefined ? undefined : parseDuration(options.timeout, 'The timeout of result()');
      const execution = currentExecution();
      return (
        execution
          ? once(execution, resultName, () => recordableResult(execution, workflowId, timeoutMs))
          : plainResult(engine, workflowId, timeoutMs)
      ) as Promise<T>;
    },
    status: () => {
      const execution = currentExecution();
      return execution
        ? once(execution, statusName, () => recordableStatus(execution, workflowId))
        : readStatus(engine, workflowId);
    },
    cancel: () => {
      const execution = currentExecution();
      const cancel = () => engine.cancel([workflowId], null);
      return execution ? once(execution, cancelName, () => recordableCall(execution, cancel)) : cancel();
    },
  };
}

/** A child's result for the parent that called it directly; the number was taken at the call. */
export function childResult(execution: Execution, stepNumber: number, childId: string): Promise<unknown> {
  return onceAt(execution, stepNumber, resultName, () => recordableResult(execution, childId, undefined));
}

async function plainResult(engine: Engine, workflowId: string, timeoutMs: number | undefined): Promise<unknown> {
  return resultOf(engine.codecs, await waitForEnding(engine, workflowId, timeoutMs));
}

async function waitForEnding(engine: Engine, workflowId: string, timeoutMs: number | undefined): Promise<Ending> {
  const { ending, forget } = engine.outcomes.wait(workflowId);
  if (timeoutMs === undefined) return ending;
  const timeout = new Promise<never>((_, reject) => {
    const timer = engine.clock.at(engine.clock.now() + timeoutMs, () => {
      forget();
      reject(resultTimeout(workflowId, timeoutMs));
    });
    const done = (): void => timer.cancel();
    ending.then(done, done);
  });
  return Promise.race([ending, timeout]);
}

function resultTimeout(workflowId: string, timeoutMs: number): HoldfastError {
  return new HoldfastError(
    'RESULT_TIMEOUT',
    `Workflow "${workflowId}" did not end within ${timeoutMs} ms. It goes on; ask for its result again later.`,
    { details: { workflowId, timeoutMs } },
  );
}

/** Waits like anyone else, but a cancellation of the waiting workflow ends the wait at once. */
async function recordableResult(execution: Execution, workflowId: string, timeoutMs?: number): Promise<Outcome> {
  const { engine } = execution;
  const startedAt = engine.clock.now();
  const common = { startedAt, begun: false, childWorkflowId: workflowId };
  let forget = (): void => {};
  const cancelled = new Promise<never>((_, reject) => {
    const until = timeoutMs === undefined ? {} : { until: startedAt + timeoutMs };
    const stop = execution.onCancel({ ...until, cancelled: reject, dropped: () => {} });
    forget = () => void stop();
  });
  const waiting = waitForEnding(engine, workflowId, timeoutMs).finally(() => forget());
  try {
    const ending = await Promise.race([waiting, cancelled]);
    const result = await settled(resultOf(engine.codecs, ending));
    if (ending.status === 'SUCCESS' || ending.status === 'ERROR') {
      const { output, error, serialization } = ending;
      return { ...common, output, error, serialization, result };
    }
    return { ...common, ...(await nativeError(execution, result)), result };
  } catch (error) {
    if (!execution.running) throw error;
    const result: Result = { ok: false, error };
    return { ...common, ...(await nativeError(execution, result)), result };
  }
}

async function nativeError(execution: Execution, result: Result) {
  const codec = execution.engine.codecs.native;
  const error = result.ok ? null : await codec.encodeError(result.error);
  return { output: null, error, serialization: codec.name };
}

function settled(promise: Promise<unknown>): Promise<Result> {
  return promise.then(
    (value) => ({ ok: true, value }),
    (error) => ({ ok: false, error }),
  );
}

async function readStatus(engine: Engine, workflowId: string): Promise<WorkflowInfo> {
  const [record] = await engine.storage.workflows.get([workflowId]);
  if (!record) throw notFoundError(workflowId);
  return toInfo(engine.codecs, record);
}

async function recordableStatus(execution: Execution, workflowId: string): Promise<Outcome> {
  const codec = execution.engine.codecs.native;
  const startedAt = execution.engine.clock.now();
  const common = { startedAt, begun: false, childWorkflowId: null, serialization: codec.name };
  const result = await settled(readStatus(execution.engine, workflowId));
  if (!result.ok) return { ...common, output: null, error: await codec.encodeError(result.error), result };
  return { ...common, output: await codec.encode(result.value, 'The status'), error: null, result };
}

async function recordableCall(execution: Execution, call: () => Promise<void>): Promise<Outcome> {
  const codec = execution.engine.codecs.native;
  const startedAt = execution.engine.clock.now();
  const result = await settled(call());
  const error = result.ok ? null : await codec.encodeError(result.error);
  return { startedAt, begun: false, childWorkflowId: null, serialization: codec.name, output: null, error, result };
}
