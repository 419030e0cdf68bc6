import { cancelWorkflows, createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import { readable, toInfo, type WorkflowInfo } from '../engine/api/workflow-info.js';
import type { Engine } from '../engine/engine.js';
import { sleepName } from '../engine/execution/deliveries.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import { priorityMisfit } from '../engine/start/enqueue.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { checkName } from '../model/ids.js';
import { refuseOptions, refusingOptions } from '../model/options.js';
import { checkPriority } from '../model/queues.js';
import type { StepRecord } from '../storage/contract/storage.js';
import { eventsOf, type MessageInfo, messagesOf, streamsOf } from './communication.js';
import { type DeleteOptions, deleteWorkflows } from './delete.js';
import { type ForkOptions, forkWorkflow } from './fork.js';
import { type ListOptions, listWorkflows } from './list.js';
import { type ResumeOptions, resumeWorkflows } from './resume.js';
import { retryWorkflows, type WorkflowRetryOptions } from './retry.js';

/** A recorded step as `steps` shows it. */
export interface StepInfo {
  readonly stepNumber: number;
  readonly name: string;
  readonly output: unknown;
  readonly error: unknown;
  readonly childWorkflowId: string | undefined;
  readonly startedAt: number | undefined;
  readonly completedAt: number | undefined;
}

/** `app.workflows`: looking at workflows and steering them. */
export interface WorkflowOperations {
  get(workflowId: string): Promise<WorkflowInfo | undefined>;
  list(options?: ListOptions): Promise<WorkflowInfo[]>;
  steps(workflowId: string): Promise<StepInfo[]>;
  /** Every event that the workflow has set, by key. */
  events(workflowId: string): Promise<Record<string, unknown>>;
  /** All messages to the workflow, oldest first, received or not. */
  messages(workflowId: string): Promise<MessageInfo[]>;
  /** What the workflow has written to its streams, by key. */
  streams(workflowId: string): Promise<Record<string, unknown[]>>;
  handle<T = unknown>(workflowId: string): WorkflowHandle<T>;
  /** Cancels workflows and their children. Those that have ended stay as they are. */
  cancel(workflowIds: string | readonly string[]): Promise<void>;
  /**
   * Starts CANCELLED, STALLED and given-up workflows again after their last recorded step. A workflow that has failed is
   * `WORKFLOW_NOT_RESUMABLE`; one that runs, waits or has succeeded stays as it is.
   */
  resume<T = unknown>(workflowId: string, options?: ResumeOptions): Promise<WorkflowHandle<T>>;
  resume<T = unknown>(workflowIds: readonly string[], options?: ResumeOptions): Promise<WorkflowHandle<T>[]>;
  /**
   * Lets a workflow that has failed go on under its ID, from the step whose error ended it, or from another: that one is run
   * again, with new attempts, and what the workflow had done by then is kept. The former error stays in `retries` of `get`.
   */
  retry<T = unknown>(workflowId: string, options?: WorkflowRetryOptions): Promise<WorkflowHandle<T>>;
  retry<T = unknown>(workflowIds: readonly string[], options?: WorkflowRetryOptions): Promise<WorkflowHandle<T>[]>;
  /**
   * Runs a workflow anew from one of its steps, under another ID: with the same input, and with what the steps before that
   * one left. The original stays as it is.
   */
  fork<T = unknown>(workflowId: string, options?: ForkOptions): Promise<WorkflowHandle<T>>;
  /**
   * Deletes workflows that have ended, with all that belongs to them, all of them or none: their IDs are free again. Returns
   * how many there were.
   */
  delete(workflowIds: string | readonly string[], options?: DeleteOptions): Promise<number>;
  /** A DELAYED workflow takes its place in its queue this long from now. False: it is not DELAYED any more. */
  setDelay(workflowId: string, delay: Duration): Promise<boolean>;
  /**
   * Where a waiting workflow stands in its queue: lower ones come first. False: it does not wait any more. An error, as for
   * a start, where the queue is set to `{ priority: false }`.
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
      const queueName = await storage.workflows.setDelay({ workflowId, delayUntil, now });
      if (queueName !== undefined) engine.news.announce('delays');
      return changed(engine, workflowId, queueName);
    },
    setPriority: async (workflowId, priority) => {
      checkName('A workflow ID', workflowId);
      checkPriority('setPriority()', priority);
      await checkTakesPriority(engine, workflowId);
      const queueName = await storage.workflows.setPriority({ workflowId, priority, now: engine.clock.now() });
      return changed(engine, workflowId, queueName);
    },
  };
  return refusingOptions(operations, {
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

/** Where a start with a priority is refused, one is not given afterwards either. */
async function checkTakesPriority(engine: Engine, workflowId: string): Promise<void> {
  const [record] = await engine.storage.workflows.get([workflowId]);
  const waits = record?.status === 'ENQUEUED' || record?.status === 'DELAYED';
  if (!waits || record.queueName === null) return;
  await engine.queueCache.refresh();
  const queue = engine.queueCache.get(record.queueName);
  const error = queue && priorityMisfit('setPriority()', queue);
  if (error) throw error;
}

async function changed(engine: Engine, workflowId: string, queueName: string | undefined): Promise<boolean> {
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
    // A sleep under way has its wake time there, for readers of the tables.
    completedAt: isUnderWay(step) ? undefined : (step.completedAt ?? undefined),
  };
}

function isUnderWay(step: StepRecord): boolean {
  return step.name === sleepName && step.completionSeq === null;
}
