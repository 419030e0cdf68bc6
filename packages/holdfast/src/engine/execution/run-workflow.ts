import type { Codec } from '../../codec/codec.js';
import { type HoldfastError, isHoldfastError } from '../../model/errors.js';
import type { FinishedWorkflow } from '../../storage/contract/storage.js';
import { enter } from '../api/context.js';
import { refusalOf } from '../start/authorization.js';
import { schemaError } from '../start/workflow-row.js';
import type { Written } from '../write/checkpoints.js';
import type { Execution } from './execution.js';
import { codecOf } from './outcome.js';
import { reportUnawaited } from './unawaited.js';
import { mismatchAdvice, type Result, stalledError } from './workflow-errors.js';

/**
 * The life of one execution: read the input, run the function, commit the outcome. What goes wrong with that itself is
 * told to `notRun`.
 */
export async function runWorkflow(
  execution: Execution,
  notRun: (execution: Execution, error: unknown) => void,
): Promise<void> {
  // All in one function: every workflow that waits would hold another suspended call, and each await costs.
  try {
    if (isInputMissing(execution)) return await stallWithoutInput(execution);
    // Awaited in any case, so that none of its code runs before its start has returned.
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
    if (!execution.running) return;
    if (args.ok && execution.history?.reaches(execution.stepCount)) return await stallUnasked(execution);
    reportUnawaited(execution, result.ok);
    // No result is delivered from here on: steps that nobody awaited may still be under way, and what they would set
    // off while a schema takes its time, a replay would not repeat.
    execution.close();
    await settle(execution, execution.claim.definition.output ? await checkOutput(execution, result) : result);
  } catch (error) {
    notRun(execution, error);
  }
}

function readArguments(execution: Execution): Result | Promise<Result> {
  const { args, inputs, serialization } = execution.claim;
  const refusal = refusalOf(execution.claim);
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

/** A damaged input cannot be read by anybody, now or later. An ERROR that people see is better than a workflow that stays PENDING. */
function failed(error: unknown): Result {
  return { ok: false, error };
}

function isInputMissing({ claim: { args, inputs } }: Execution): boolean {
  return !args && inputs === null;
}

/**
 * No input where this code looks for it, unlike one that is there and cannot be read: some other system may keep it
 * elsewhere, as DBOS 5 began to. Ending such work would destroy it, so the workflow is set aside, with all that it has.
 */
function stallWithoutInput({ claim, engine }: Execution): Promise<void> {
  const why =
    'it has no stored input, neither in workflow_status nor in workflow_input. If another system started it, let that one ' +
    'continue it, or upgrade Holdfast and resume it: app.workflows.resume(id). If its input is lost, delete it and start it again.';
  return engine.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
}

/** An input in a format that this process lacks. Another process, or this one with its serializer, can still run the workflow. */
function stallUnread({ claim, engine }: Execution, { message }: HoldfastError): Promise<void> {
  const why = `its input cannot be read here. ${message} Then resume it: app.workflows.resume(id).`;
  return engine.stall(claim.workflowId, claim.owner, stalledError('WORKFLOW_STALLED', claim, why));
}

function call(execution: Execution, args: readonly unknown[]): unknown {
  const fn = execution.claim.definition.fn as (...args: readonly unknown[]) => unknown;
  return enter({ execution, step: undefined }, () => fn(...args));
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

/** The function ended without asking for steps that are on record: the code that recorded them was another. */
function stallUnasked(execution: Execution): Promise<void> {
  const { claim, history, stepCount, engine } = execution;
  const diff = history?.diff();
  const why = `its code ended after ${stepCount} steps, but more are on record. ${mismatchAdvice(stepCount, diff, history?.missing)}`;
  const error = stalledError('NON_DETERMINISM', claim, why, { stepCount, diff });
  return engine.stall(claim.workflowId, claim.owner, error);
}

async function settle(execution: Execution, result: Result): Promise<void> {
  const { engine, claim } = execution;
  const { workflowId, owner, serialization } = claim;
  const encoded = encodeOutcome(execution, result);
  // Not awaited in any case: each await costs as much as the rest of this function. And not told by its class: programs that
  // replace the global Promise have promises of two.
  let outcome: StoredOutcome = 'status' in encoded ? encoded : await encoded;
  const finish = (): Promise<Written> => {
    const underWay = outcome.status === 'ERROR' ? execution.underWay : null;
    const { after } = execution.frontier;
    const completedAt = engine.clock.now();
    return engine.checkpoints.finish({ workflowId, owner, ...outcome, underWay, completedAt, ...after });
  };
  engine.queueLoad.capacity.settle(execution);
  let written: Written;
  try {
    written = await finish();
  } catch (refusal) {
    // The database will not have this outcome; that it will not is one that it does have.
    outcome = await encodeOutcome(execution, { ok: false, error: refusal });
    written = await finish();
  }
  if (written !== 'written') return engine.superseded(workflowId, owner, written);
  const heard = engine.finished({ workflowId, ...outcome, serialization, statusReason: null }, owner);
  // A parent hears of its child later, by its record; but the failure of work in the background must leave a trace.
  if (result.ok || heard || claim.parentWorkflowId !== null) return;
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
