import type { Codec } from '../../codec/codecs.js';
import { type HoldfastError, isHoldfastError } from '../../model/errors.js';
import type { FinishedWorkflow } from '../../storage/contract/storage.js';
import { runInScope } from '../api/context.js';
import { authorizationErrorOf } from '../start/authorization.js';
import { schemaError } from '../start/workflow-row.js';
import type { Written } from '../write/confirm-writes.js';
import type { Execution } from './execution.js';
import { codecOf } from './outcome.js';
import { reportUnawaited } from './unawaited.js';
import { mismatchAdvice, type Result, stalledError } from './workflow-errors.js';

/**
 * Runs one execution: reads the input, calls the function, commits the outcome. Passes an error that none of these
 * steps handles to `onFailure`.
 */
export async function runWorkflow(
  execution: Execution,
  onFailure: (execution: Execution, error: unknown) => void,
): Promise<void> {
  // The whole run is one function. With several functions, each waiting workflow would keep another suspended call in
  // memory, and each additional await costs time.
  try {
    if (isInputMissing(execution)) return await stallWithoutInput(execution);
    // The arguments are always awaited, so that no code of the workflow runs before its start has returned.
    const args = await readArguments(execution);
    if (!args.ok && isHoldfastError(args.error, 'UNKNOWN_SERIALIZER')) return await stallUnread(execution, args.error);
    let result: Result = args;
    if (args.ok) {
      try {
        result = { ok: true, value: await call(execution, args.value as unknown[]) };
      } catch (error) {
        result = { ok: false, error };
      }
    }
    // A suspended workflow must run again if its code returns: its wait may end much later, or never.
    if (!execution.running) return void execution.refuse();
    if (args.ok && execution.history?.reaches(execution.stepCount)) return await stallMissingCalls(execution);
    reportUnawaited(execution, result.ok);
    // No result is delivered from here on. Steps that the code did not await may still be running while the output
    // schema runs. Calls that follow such a step would not be repeated by a replay.
    execution.close();
    await settle(execution, execution.claim.definition.output ? await checkOutput(execution, result) : result);
  } catch (error) {
    onFailure(execution, error);
  }
}

function readArguments(execution: Execution): Result | Promise<Result> {
  const { args, inputs, serialization } = execution.claim;
  const refusal = authorizationErrorOf(execution.claim);
  if (refusal) return failed(refusal);
  if (args) return { ok: true, value: args };
  try {
    const value = execution.engine.codecs.for(serialization).decodeArguments(inputs ?? '');
    return Array.isArray(value) ? succeeded(value) : (value as Promise<unknown[]>).then(succeeded, failed);
  } catch (error) {
    return failed(error);
  }
}

function succeeded(value: unknown): Result {
  return { ok: true, value };
}

/**
 * An input that cannot be decoded ends the workflow: no process can read it, now or later. A visible ERROR is better
 * than a workflow that stays PENDING.
 */
function failed(error: unknown): Result {
  return { ok: false, error };
}

function isInputMissing({ claim: { args, inputs } }: Execution): boolean {
  return !args && inputs === null;
}

/**
 * Stalls a workflow without a stored input. Unlike an input that cannot be decoded, this input may be stored elsewhere
 * by another system, as DBOS 5 began to do. An ERROR would destroy such work, so the workflow is stalled with all its
 * data.
 */
function stallWithoutInput({ claim, engine }: Execution): Promise<void> {
  const why =
    'it has no stored input, neither in workflow_status nor in workflow_input. If another system started it, ' +
    'continue it with that system, or upgrade Holdfast and resume it: app.workflows.resume(id). If its input is ' +
    'lost, delete the workflow and start it again.';
  return engine.executions.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
}

/**
 * Stalls a workflow whose input has a format that this process lacks. Another process, or this process with the
 * serializer, can still run the workflow.
 */
function stallUnread({ claim, engine }: Execution, { message }: HoldfastError): Promise<void> {
  const why = `this process cannot read its input. ${message} Then resume it: app.workflows.resume(id).`;
  return engine.executions.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
}

function call(execution: Execution, args: readonly unknown[]): unknown {
  const fn = execution.claim.definition.fn as (...args: readonly unknown[]) => unknown;
  return runInScope({ execution, step: undefined }, () => fn(...args));
}

async function checkOutput(execution: Execution, result: Result): Promise<Result> {
  const { name, output } = execution.claim.definition;
  if (!output || !result.ok) return result;
  try {
    const checked = await output['~standard'].validate(result.value);
    if (!checked.issues) return { ok: true, value: checked.value };
    return { ok: false, error: schemaError('INVALID_OUTPUT', `The output of "${name}"`, checked.issues) };
  } catch (error) {
    return { ok: false, error };
  }
}

/** Stalls a workflow whose function ended without calling recorded steps: different code recorded these steps. */
function stallMissingCalls(execution: Execution): Promise<void> {
  const { claim, history, stepCount, engine } = execution;
  const diff = history?.diff();
  const advice = mismatchAdvice(stepCount, diff, history?.missing);
  const why = `its code ended after ${stepCount} steps, but its history has more. ${advice}`;
  const error = stalledError('NON_DETERMINISM', claim, why, { stepCount, diff });
  return engine.executions.stall(claim.workflowId, claim.owner, error);
}

async function settle(execution: Execution, result: Result): Promise<void> {
  const { engine, claim } = execution;
  const { workflowId, owner, serialization } = claim;
  const encoded = encodeOutcome(execution, result);
  // The outcome is awaited only if it is a promise: each await costs as much as the rest of this function. Libraries
  // such as zone.js replace the global Promise, so `instanceof Promise` would be unreliable here.
  let outcome: StoredOutcome = 'status' in encoded ? encoded : await encoded;
  const finish = (): Promise<Written> => {
    const underWay = outcome.status === 'ERROR' ? execution.underWay : null;
    const { after } = execution.frontier;
    const completedAt = engine.clock.now();
    return engine.checkpoints.finish({ workflowId, owner, ...outcome, underWay, completedAt, ...after });
  };
  engine.slotsInUse.capacity.settle(execution);
  let written: Written;
  try {
    written = await finish();
  } catch (refusal) {
    // The database refuses this outcome, so the refusal is recorded as the error of the workflow instead.
    outcome = await encodeOutcome(execution, { ok: false, error: refusal });
    written = await finish();
  }
  if (written !== 'written') return engine.executions.supersede(workflowId, owner, written);
  const hasWaiter = engine.executions.finish({ workflowId, ...outcome, serialization, statusReason: null }, owner);
  // A parent gets the error of its child when it awaits the child. The failure of a background workflow must leave a
  // trace in the log.
  if (result.ok || hasWaiter || claim.parentWorkflowId !== null) return;
  engine.logger.warn(`Workflow "${workflowId}" (${claim.name}) failed: ${engine.codecs.errors.describe(result.error)}`);
}

type StoredOutcome = Pick<FinishedWorkflow, 'status' | 'output' | 'error'>;

function encodeOutcome(execution: Execution, result: Result): StoredOutcome | Promise<StoredOutcome> {
  const { engine, claim } = execution;
  const codec = codecOf(engine, claim.serialization);
  if (!result.ok) return encodeFailure(codec, result.error);
  try {
    const output = codec.encode(result.value, `The result of workflow "${claim.name}"`, claim.definition.maxBytes);
    if (typeof output === 'string') return success(output);
    return output.then(success, (error) => encodeFailure(codec, error));
  } catch (error) {
    return encodeFailure(codec, error);
  }
}

function success(output: string): StoredOutcome {
  return { status: 'SUCCESS', output, error: null };
}

async function encodeFailure(codec: Codec, error: unknown): Promise<StoredOutcome> {
  return { status: 'ERROR', output: null, error: (await codec.encodeError(error)).text };
}
