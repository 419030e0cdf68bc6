import { cancelWorkflows, createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import { readable, toInfo, type WorkflowInfo } from '../engine/api/workflow-info.js';
import type { Engine } from '../engine/engine.js';
import { isSleepUnderWay } from '../engine/execution/sleep-record.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import { priorityError } from '../engine/start/enqueue.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { checkName } from '../model/ids.js';
import { refuseOptions, rejectExtraOptions } from '../model/options.js';
import { checkPriority } from '../model/queues.js';
import type { StepRecord } from '../storage/contract/storage.js';
import { eventsOf, type MessageInfo, messagesOf, streamsOf } from './communication.js';
import { type DeleteOptions, deleteWorkflows } from './delete.js';
import { type ForkOptions, forkWorkflow } from './fork.js';
import { type ListOptions, listWorkflows } from './list.js';
import { type ResumeOptions, resumeWorkflows } from './resume.js';
import { retryWorkflows, type WorkflowRetryOptions } from './retry.js';

/** A recorded step of a workflow. Instants are epoch milliseconds. */
export interface StepInfo {
  readonly stepNumber: number;
  readonly name: string;
  readonly output: unknown;
  readonly error: unknown;
  /** The workflow that the step started or waited for. */
  readonly childWorkflowId: string | undefined;
  readonly startedAt: number | undefined;
  /** Undefined while a sleep is under way. */
  readonly completedAt: number | undefined;
}

/** `app.workflows`: reads workflows, and cancels, continues, repeats or deletes them. */
export interface WorkflowOperations {
  /**
   * Returns a workflow, or undefined if there is no workflow with this ID.
   *
   * @example
   * const order = await app.workflows.get('order-7');
   * console.log(order?.status, order?.output);
   */
  get(workflowId: string): Promise<WorkflowInfo | undefined>;
  /**
   * Returns the workflows that match all of the given filters, oldest first, up to 1,000 in one call.
   *
   * @example
   * const failed = await app.workflows.list({ status: 'ERROR', name: 'checkout', newestFirst: true });
   * for (const { workflowId, error } of failed) console.log(workflowId, error);
   */
  list(options?: ListOptions): Promise<WorkflowInfo[]>;
  /**
   * Returns the recorded steps of a workflow, in the order of their numbers.
   *
   * @example
   * for (const { stepNumber, name, error } of await app.workflows.steps('order-7')) {
   *   console.log(stepNumber, name, error ? 'failed' : 'done');
   * }
   */
  steps(workflowId: string): Promise<StepInfo[]>;
  /**
   * Returns the last value of every event that a workflow has set, by key.
   *
   * @example
   * const { progress } = await app.workflows.events('order-7');
   */
  events(workflowId: string): Promise<Record<string, unknown>>;
  /**
   * Returns all messages that were sent to a workflow, oldest first, including received ones.
   *
   * @example
   * const messages = await app.workflows.messages('order-7');
   * console.log(messages.filter(({ consumed }) => !consumed).length, 'messages wait');
   */
  messages(workflowId: string): Promise<MessageInfo[]>;
  /**
   * Returns all values that a workflow has written to its streams, by the key of the stream.
   *
   * @example
   * const { log = [] } = await app.workflows.streams('order-7');
   */
  streams(workflowId: string): Promise<Record<string, unknown[]>>;
  /**
   * Returns a handle to a workflow. Sends no query: an unknown ID becomes an error when the handle is used.
   *
   * @example
   * const handle = app.workflows.handle<Receipt>('order-7');
   * const receipt = await handle.result({ timeout: '30s' });
   */
  handle<T = unknown>(workflowId: string): WorkflowHandle<T>;
  /**
   * Cancels workflows and their children. A workflow that has ended, is STALLED or is a dead letter stays as it is.
   *
   * @example
   * await app.workflows.cancel('order-7');
   * await app.workflows.cancel(['order-8', 'order-9']);
   */
  cancel(workflowIds: string | readonly string[]): Promise<void>;
  /**
   * Continues CANCELLED, STALLED and dead-letter workflows after their last recorded step. Rejects with
   * `WORKFLOW_NOT_RESUMABLE` if a workflow has failed: use `retry` for that. A workflow that runs, waits or has
   * succeeded stays as it is. Resolves with a handle.
   *
   * @example
   * const handle = await app.workflows.resume('order-7');
   * await handle.result();
   */
  resume<T = unknown>(workflowId: string, options?: ResumeOptions): Promise<WorkflowHandle<T>>;
  /**
   * Continues several workflows, as `resume` does with one ID. If one of them has failed, none is resumed. Resolves
   * with a list of handles.
   *
   * @example
   * const cancelled = await app.workflows.list({ status: 'CANCELLED' });
   * await app.workflows.resume(cancelled.map(({ workflowId }) => workflowId));
   */
  resume<T = unknown>(workflowIds: readonly string[], options?: ResumeOptions): Promise<WorkflowHandle<T>[]>;
  /**
   * Continues a failed workflow under its own ID from the step whose error ended it, or from the step `fromStep`.
   * That step runs again with all its attempts, and the results from before the failure are kept. The former error
   * stays in the `retries` that `get` returns. Resolves with a handle. Rejects with `WORKFLOW_NOT_RETRYABLE` if the
   * workflow has not failed, or if the retry could repeat an effect, such as a refund, and no `fromStep` is given.
   *
   * @example
   * const handle = await app.workflows.retry('order-7');
   * await handle.result();
   */
  retry<T = unknown>(workflowId: string, options?: WorkflowRetryOptions): Promise<WorkflowHandle<T>>;
  /**
   * Continues several failed workflows, as `retry` does with one ID. If one of them cannot be retried, none is
   * changed. Resolves with a list of handles.
   *
   * @example
   * const failed = await app.workflows.list({ status: 'ERROR', name: 'checkout' });
   * await app.workflows.retry(failed.map(({ workflowId }) => workflowId));
   */
  retry<T = unknown>(workflowIds: readonly string[], options?: WorkflowRetryOptions): Promise<WorkflowHandle<T>[]>;
  /**
   * Starts a copy of a workflow under another ID. The copy has the same input, keeps the results of the steps before
   * `fromStep`, and runs the other steps again. The original stays as it is.
   *
   * @example
   * const fork = await app.workflows.fork('order-7', { fromStep: 2, id: 'order-7-again' });
   * await fork.result();
   */
  fork<T = unknown>(workflowId: string, options?: ForkOptions): Promise<WorkflowHandle<T>>;
  /**
   * Deletes workflows that have ended, with their steps, messages, events and streams: all of the given workflows, or
   * none. Their IDs can be used again. Resolves with the number of deleted workflows, children included.
   *
   * @example
   * await app.workflows.delete('order-7');
   * await app.workflows.delete(['order-8', 'order-9'], { children: true });
   */
  delete(workflowIds: string | readonly string[], options?: DeleteOptions): Promise<number>;
  /**
   * Changes the delay of a DELAYED workflow: its delay now ends this long after the call. Resolves with false if the
   * workflow is no longer DELAYED.
   *
   * @example
   * await app.workflows.setDelay('reminder-7', '1h');
   */
  setDelay(workflowId: string, delay: Duration): Promise<boolean>;
  /**
   * Changes the priority of a workflow that waits on a queue. Lower numbers run first. Resolves with false if the
   * workflow no longer waits. Rejects if the queue is set to `{ priority: false }`.
   *
   * @example
   * await app.workflows.setPriority('order-7', 1);
   */
  setPriority(workflowId: string, priority: number): Promise<boolean>;
}

export function workflowOperations(engine: Engine): WorkflowOperations {
  const { storage, codecs } = engine;
  const operations: WorkflowOperations = {
    get: async (workflowId) => {
      const [record] = await storage.workflows.get([checkName('A workflow ID', workflowId)]);
      return record && toInfo(codecs, record);
    },
    list: (options = {}) => listWorkflows(engine, options),
    steps: async (workflowId) => {
      const steps = await storage.steps.history([checkName('A workflow ID', workflowId)]);
      const inOrder = steps.sort((a, b) => a.stepNumber - b.stepNumber);
      return Promise.all(inOrder.map((step) => toStepInfo(engine, step)));
    },
    events: async (workflowId) => eventsOf(engine, checkName('A workflow ID', workflowId)),
    messages: async (workflowId) => messagesOf(engine, checkName('A workflow ID', workflowId)),
    streams: async (workflowId) => streamsOf(engine, checkName('A workflow ID', workflowId)),
    handle: (workflowId, ...more: unknown[]) => {
      refuseOptions('handle()', more);
      return createHandle(engine, checkName('A workflow ID', workflowId));
    },
    cancel: async (workflowIds) => {
      const ids = Array.isArray(workflowIds) ? workflowIds : [workflowIds];
      for (const id of ids) checkName('A workflow ID', id);
      await cancelWorkflows(engine, ids);
    },
    resume: ofOneOrMany((ids, options: ResumeOptions) => resumeWorkflows(engine, ids, options)),
    retry: ofOneOrMany((ids, options: WorkflowRetryOptions) => retryWorkflows(engine, ids, options)),
    fork: (workflowId, options = {}) => forkWorkflow(engine, workflowId, options),
    delete: (workflowIds, options = {}) => deleteWorkflows(engine, workflowIds, options),
    setDelay: async (workflowId, delay) => {
      checkName('A workflow ID', workflowId);
      const now = engine.clock.now();
      const delayUntil = now + parseDuration(delay, 'The delay of setDelay()');
      const queueName = await storage.queues.setDelay({ workflowId, delayUntil, now });
      if (queueName !== undefined) engine.news.announce('delays');
      return checkChanged(engine, workflowId, queueName);
    },
    setPriority: async (workflowId, priority) => {
      checkName('A workflow ID', workflowId);
      checkPriority('setPriority()', priority);
      await checkTakesPriority(engine, workflowId);
      const queueName = await storage.queues.setPriority({ workflowId, priority, now: engine.clock.now() });
      return checkChanged(engine, workflowId, queueName);
    },
  };
  return rejectExtraOptions(operations, {
    get: 1,
    steps: 1,
    events: 1,
    messages: 1,
    streams: 1,
    cancel: 1,
    setDelay: 2,
    setPriority: 2,
  });
}

/** Resolves with a handle for an ID, and with a list for a list. */
function ofOneOrMany<Options extends object>(
  operate: (workflowIds: readonly string[], options: Options) => Promise<WorkflowHandle<never>[]>,
) {
  return async (workflowIds: string | readonly string[], options: Options = {} as Options): Promise<never> => {
    const isList = Array.isArray(workflowIds);
    const handles = await operate(isList ? workflowIds : [workflowIds as string], options);
    return (isList ? handles : handles[0]) as never;
  };
}

/** Throws if the queue of a waiting workflow does not allow priorities. */
async function checkTakesPriority(engine: Engine, workflowId: string): Promise<void> {
  const [record] = await engine.storage.workflows.get([workflowId]);
  const waits = record?.status === 'ENQUEUED' || record?.status === 'DELAYED';
  if (!waits || record.queueName === null) return;
  await engine.queueCache.refresh();
  const queue = engine.queueCache.get(record.queueName);
  const error = queue && priorityError('setPriority()', queue);
  if (error) throw error;
}

async function checkChanged(engine: Engine, workflowId: string, queueName: string | undefined): Promise<boolean> {
  if (queueName !== undefined) return true;
  if ((await engine.storage.workflows.endings([workflowId])).length === 0) throw notFoundError(workflowId);
  return false;
}

async function toStepInfo(engine: Engine, step: StepRecord): Promise<StepInfo> {
  const { codecs } = engine;
  return {
    stepNumber: step.stepNumber,
    name: step.name,
    output: await readable(step.output, (text) => codecs.for(step.serialization).decode(text)),
    error: await readable(step.error, (text) => codecs.for(step.serialization).decodeError(text)),
    childWorkflowId: step.childWorkflowId ?? undefined,
    startedAt: step.startedAt ?? undefined,
    // The row of a sleep under way contains its wake time, for people who read the tables.
    completedAt: isSleepUnderWay(step) ? undefined : (step.completedAt ?? undefined),
  };
}
