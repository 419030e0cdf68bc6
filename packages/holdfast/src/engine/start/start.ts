import { nativeCodecName } from '../../codec/codecs.js';
import { isPrimitive } from '../../codec/format.js';
import { describeKey } from '../../model/workflow-key.js';
import type { NewWorkflow, WorkflowRecord } from '../../storage/contract/storage.js';
import { runInScope, stepScope } from '../api/context.js';
import type { WorkflowDefinition } from '../api/definition.js';
import { isDetached, isQueued, type StartOptions } from '../api/start-options.js';
import type { Engine } from '../engine.js';
import type { Execution } from '../execution/execution.js';
import { onceAt } from '../execution/once.js';
import { failed } from '../execution/outcome.js';
import type { Started } from '../write/confirm-writes.js';
import { enqueueWorkflow } from './enqueue.js';
import { checkArguments, checkRepeatedStart, commonRow, conflictError } from './workflow-row.js';

/** Starts a workflow from ordinary code. Resolves with its ID once the start is committed. */
export async function startWorkflow(
  engine: Engine,
  definition: WorkflowDefinition,
  options: StartOptions,
  args: readonly unknown[],
): Promise<string> {
  engine.lifecycle.checkOpen();
  if (isQueued(options, engine.version)) return enqueueWorkflow(engine, definition, options, args, null);
  const checked = definition.input ? await checkArguments(definition, options, args, null) : args;
  const row = await newRow(engine, definition, options, checked, null);
  const started = await engine.checkpoints.start(row);
  begin(engine, definition, row, started, checked, null);
  return row.workflowId;
}

/**
 * Starts a child of a workflow. The row of the child is committed before the parent's record of the start, so a record
 * never refers to a missing child. After a crash between the two, the replay finds the same child by its ID.
 */
export function startChild(
  execution: Execution,
  stepNumber: number,
  definition: WorkflowDefinition,
  options: StartOptions,
  args: readonly unknown[],
): Promise<string> {
  return recordStart(execution, stepNumber, definition.name, () =>
    insertChild(execution, stepNumber, definition, options, args),
  );
}

/** Runs an operation that starts another workflow, as a step whose record holds the ID of that workflow. */
export function recordStart(
  execution: Execution,
  stepNumber: number,
  name: string,
  start: () => Promise<string>,
  engine: Engine = execution.engine,
): Promise<string> {
  return onceAt(execution, stepNumber, name, async () => {
    const startedAt = execution.engine.clock.now();
    try {
      // The start runs in the scope of a step, because the input schema is user code that a replay does not run.
      const id = await runInScope(stepScope(execution, stepNumber, 1), start);
      const common = { startedAt, begun: false, output: null, error: null, serialization: null };
      const isHere = engine === execution.engine && { startsChild: true as const };
      return { ...common, childWorkflowId: id, ...isHere, result: { ok: true, value: id } };
    } catch (error) {
      if (!execution.running) throw error;
      return failed(execution, startedAt, error);
    }
  });
}

async function insertChild(
  execution: Execution,
  stepNumber: number,
  definition: WorkflowDefinition,
  options: StartOptions,
  args: readonly unknown[],
): Promise<string> {
  const { engine, claim } = execution;
  const withId = { ...options, id: options.id ?? execution.childId(stepNumber) };
  if (isQueued(options, engine.version)) return enqueueWorkflow(engine, definition, withId, args, execution);
  const checked = definition.input ? await checkArguments(definition, options, args, execution) : args;
  const row = await newRow(engine, definition, withId, checked, execution);
  const started = await engine.checkpoints.startChild({
    ...row,
    parentWorkflowId: claim.workflowId,
    parentOwner: claim.owner,
    ...execution.frontier.after,
    detached: isDetached(options),
  });
  if (isSuperseded(started)) {
    engine.executions.supersede(claim.workflowId, claim.owner, started);
    return execution.refuse();
  }
  begin(engine, definition, row, started, checked, execution);
  return row.workflowId;
}

function isSuperseded(started: Started): started is Exclude<Started, 'created' | WorkflowRecord> {
  return started !== 'created' && !('workflowId' in started);
}

/** Runs a new workflow here, or checks the existing workflow that has the ID. */
function begin(
  engine: Engine,
  definition: WorkflowDefinition,
  row: NewWorkflow,
  started: Started,
  args: readonly unknown[],
  parent: Execution | null,
): void {
  if (started === 'created') {
    const { workflowId, name, owner, createdAt, deadlineAt, inputs, serialization, attributes } = row;
    const { user, roles, assumedRole } = row;
    // One literal without spreads: with spreads, V8 gives each of these objects a hidden class of its own. The objects
    // stay in memory as long as their workflows.
    engine.executions.run({
      workflowId,
      name,
      owner,
      attempt: 1,
      createdAt,
      incarnation: owner,
      seed: null,
      beganAt: null,
      retries: null,
      deadlineAt,
      inputs,
      serialization,
      user,
      roles,
      assumedRole,
      attributes,
      parentWorkflowId: parent?.workflowId ?? null,
      queueName: null,
      partition: null,
      definition,
      args: decodesToSame(row, args) ? args : undefined,
    });
    return;
  }
  if (!('workflowId' in started)) throw conflictError(row.workflowId, 'another workflow', describeKey(definition));
  checkRepeatedStart(engine, definition, row, started);
}

/**
 * Returns whether the arguments in memory equal the arguments that a recovery will read. Other formats than our own may
 * decode to something else (a string for a Date), and the caller may change an object while the workflow runs.
 */
function decodesToSame(row: NewWorkflow, args: readonly unknown[]): boolean {
  return row.serialization === nativeCodecName && args.every(isPrimitive);
}

async function newRow(
  engine: Engine,
  definition: WorkflowDefinition,
  options: StartOptions,
  args: readonly unknown[],
  parent: Execution | null,
): Promise<NewWorkflow> {
  const common = await commonRow(engine, definition, options, args, parent);
  // A child gets the deadline of its parent, or its own deadline if that is earlier.
  const own = common.timeoutMs === null ? Number.POSITIVE_INFINITY : common.createdAt + common.timeoutMs;
  const deadlineAt = Math.min(own, common.deadlineAt ?? Number.POSITIVE_INFINITY);
  return {
    ...common,
    deadlineAt: Number.isFinite(deadlineAt) ? deadlineAt : null,
    owner: engine.owners.next(),
    version: engine.version,
  };
}
