import { currentScope } from '../engine/api/context.js';
import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import { checkQueueing, queueNameOf, type StartOptions } from '../engine/api/start-options.js';
import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { rejecting } from '../engine/execution/rejecting.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import { queueTopic, requireMatchingQueue } from '../engine/start/enqueue.js';
import { recordStart } from '../engine/start/start.js';
import { parseDuration } from '../model/duration.js';
import { closedError, HoldfastError } from '../model/errors.js';
import { checkName, newWorkflowId } from '../model/ids.js';
import { checkCount, checkKnownOptions, invalidOption, maxInt, wrongOption } from '../model/options.js';
import { internalQueue } from '../model/queues.js';
import { describeKey } from '../model/workflow-key.js';
import type { NewFork } from '../storage/contract/forks.js';
import type { WorkflowRecord } from '../storage/contract/storage.js';

/** Options of `app.workflows.fork`. */
export interface ForkOptions extends Pick<StartOptions, 'queue' | 'partition' | 'priority' | 'delay' | 'timeout'> {
  /**
   * The first step that runs again. The fork copies the results of the steps before it. Default 0: the whole workflow
   * runs again.
   */
  readonly fromStep?: number;
  /**
   * The ID of the fork, which is also its idempotency key: a second call with the same original and ID returns the
   * first fork. Default: a generated ID.
   */
  readonly id?: string;
  /** The version of the app that runs the fork (default: the version of the original). */
  readonly version?: string;
  /**
   * Replaces children in the copied steps. Maps the ID of a child to the ID of the workflow that replaces the child.
   */
  readonly replaceChildren?: Readonly<Record<string, string>>;
}

const forkOptionNames = [
  ...['fromStep', 'id', 'version', 'queue', 'partition', 'priority', 'delay', 'timeout', 'replaceChildren'],
];

/** DBOS records a fork that a workflow makes under this name. */
const forkName = 'DBOS.forkWorkflow';
const what = 'fork()';

/**
 * Forks a workflow. Inside a workflow, the call is a step, and the ID of the fork comes from the step number, so the
 * fork is made once. Elsewhere, the statement is repeated under one ID until the database answers, like a start.
 */
export function forkWorkflow<T>(engine: Engine, workflowId: string, options: ForkOptions): Promise<WorkflowHandle<T>> {
  return rejecting(what, () => {
    checkName('A workflow ID', workflowId);
    checkForkOptions(options);
    engine.lifecycle.checkOpen();
    const scope = currentScope();
    if (scope && !scope.step) return forkInside<T>(scope.execution, engine, workflowId, options);
    const made = fork(engine, workflowId, { ...options, id: options.id ?? newId(engine) });
    return made.then((id) => createHandle<T>(engine, id));
  });
}

/** Records the fork like the start of a child: a replay returns the same fork. */
function forkInside<T>(execution: Execution, engine: Engine, workflowId: string, options: ForkOptions) {
  const stepNumber = execution.takeStepNumber();
  const id = options.id ?? execution.childId(stepNumber);
  const made = recordStart(execution, stepNumber, forkName, () => fork(engine, workflowId, { ...options, id }), engine);
  const handle = made.then((forkId) => createHandle<T>(engine, forkId));
  return execution.calls.follow(forkName, stepNumber, handle);
}

function newId(engine: Engine): string {
  return newWorkflowId(engine.clock.now());
}

function checkForkOptions(options: ForkOptions): void {
  checkKnownOptions(what, options, forkOptionNames);
  const { fromStep, id, version, timeout, replaceChildren } = options;
  if (fromStep !== undefined) checkCount(what, 'fromStep', fromStep, 0, maxInt);
  if (id !== undefined) checkName('A workflow ID', id);
  if (version !== undefined) checkName('A version', version);
  if (timeout !== undefined && timeout !== null) parseDuration(timeout, `The timeout of ${what}`);
  checkQueueing(what, options);
  if (replaceChildren === undefined) return;
  if (typeof replaceChildren !== 'object' || replaceChildren === null || Array.isArray(replaceChildren)) {
    throw invalidOption(what, 'replaceChildren', replaceChildren, 'an object that maps workflow IDs to workflow IDs');
  }
  for (const child of Object.entries(replaceChildren).flat()) checkName('A workflow ID in "replaceChildren"', child);
}

async function fork(engine: Engine, workflowId: string, options: ForkOptions & { id: string }): Promise<string> {
  const failsFast = currentScope() === undefined;
  const answered = async <T>(statement: () => Promise<T>): Promise<T> => {
    const answer = await engine.untilAnswered('Forking a workflow', async () => ({ is: await statement() }), failsFast);
    if (!answer) throw closedError();
    return answer.is;
  };
  const row = await newFork(engine, workflowId, options);
  // If an earlier statement succeeded but its answer was lost, the ID is taken by this very fork of this workflow.
  if (!(await answered(() => engine.storage.forks.create(row)))) {
    const [existing, original] = await answered(async () => {
      const found = await engine.storage.workflows.get([row.workflowId, workflowId]);
      return [row.workflowId, workflowId].map((id) => found.find((each) => each.workflowId === id));
    });
    if (!existing) throw await refusal(engine, row, original);
    if (existing.forkedFrom !== workflowId) throw conflict(row, existing);
  }
  engine.news.announce(queueTopic(row));
  return row.workflowId;
}

async function newFork(engine: Engine, forkedFrom: string, options: ForkOptions & { id: string }): Promise<NewFork> {
  const { id, fromStep = 0, version = null, queue, partition = null, priority = 0, delay, timeout } = options;
  const queueName = queueNameOf(what, queue);
  const createdAt = engine.clock.now();
  const found = queueName === internalQueue ? undefined : await requireMatchingQueue(engine, what, queueName, options);
  return {
    workflowId: id,
    forkedFrom,
    fromStep,
    createdAt,
    queueName,
    partition,
    priority,
    version,
    appName: found?.appName ?? null,
    timeoutMs: timeout === undefined || timeout === null ? null : parseDuration(timeout, `The timeout of ${what}`),
    untimed: timeout === null,
    delayUntil: delay === undefined ? null : createdAt + parseDuration(delay, `The delay of ${what}`),
    children: JSON.stringify(
      Object.entries(options.replaceChildren ?? {}).map(([from, to]) => ({ old: from, new: to })),
    ),
  };
}

/** Returns the reason why no fork was made although the ID is free. */
async function refusal(engine: Engine, row: NewFork, original: WorkflowRecord | undefined): Promise<HoldfastError> {
  if (!original) return notFoundError(row.forkedFrom);
  const count = await engine.storage.forks.stepCount(row.forkedFrom);
  const recorded = count === 0 ? 'no recorded steps' : `recorded steps 0 to ${count - 1}`;
  return row.fromStep > count
    ? invalidOption(what, 'fromStep', row.fromStep, `from 0 to ${count}: workflow "${row.forkedFrom}" has ${recorded}`)
    : wrongOption(what, 'queue', `names queue "${row.queueName}", which was deleted during the call`);
}

function conflict({ workflowId, forkedFrom }: NewFork, existing: WorkflowRecord): HoldfastError {
  const origin = existing.forkedFrom === null ? 'not a fork' : `a fork of "${existing.forkedFrom}"`;
  return new HoldfastError(
    'WORKFLOW_CONFLICT',
    `Workflow ID "${workflowId}" belongs to "${describeKey(existing)}", which is ${origin}, so a fork of ` +
      `"${forkedFrom}" cannot use it. Choose another ID.`,
    { details: { workflowId, existing: describeKey(existing), forkedFrom } },
  );
}
