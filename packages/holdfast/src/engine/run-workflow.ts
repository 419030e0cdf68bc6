import type { FinishedWorkflow } from '../storage/storage.js';
import { enter } from './context.js';
import type { Execution } from './execution.js';
import type { Result } from './once.js';
import { schemaError } from './start.js';

/** The life of one execution: read the input, run the function, commit the outcome. */
export async function runWorkflow(execution: Execution): Promise<void> {
  const args = await readArguments(execution);
  const result = args.ok ? await invoke(execution, args.value as unknown[]) : args;
  if (!execution.running) return;
  if (args.ok && execution.history?.reaches(execution.stepCount)) return stallUnasked(execution);
  // No result is delivered from here on: steps that nobody awaited may still be under way.
  execution.close();
  await settle(execution, result);
}

async function readArguments(execution: Execution): Promise<Result> {
  const { args, inputs, serialization } = execution.facts;
  if (args) return { ok: true, value: args };
  try {
    const { codecs } = execution.engine;
    return { ok: true, value: inputs === null ? [] : await codecs.for(serialization).decodeArguments(inputs) };
  } catch (error) {
    // Nobody can run it, now or later: better an ERROR that is seen than a workflow that stays PENDING.
    return { ok: false, error };
  }
}

async function invoke(execution: Execution, args: readonly unknown[]): Promise<Result> {
  const { definition } = execution.facts;
  try {
    const fn = definition.fn as (...args: readonly unknown[]) => unknown;
    const value = await enter({ execution, step: undefined }, () => fn(...args));
    if (!definition.output) return { ok: true, value };
    const checked = await definition.output['~standard'].validate(value);
    if (!checked.issues) return { ok: true, value: checked.value };
    return { ok: false, error: schemaError('INVALID_OUTPUT', `The output of "${definition.name}"`, checked.issues) };
  } catch (error) {
    return { ok: false, error };
  }
}

/** The function ended without asking for steps that are on record: the code that recorded them was another. */
function stallUnasked(execution: Execution): Promise<void> {
  const { workflowId, name, owner } = execution.facts;
  const reason =
    `NON_DETERMINISM: workflow "${name}" (${workflowId}) ended after ${execution.stepCount} steps, but more are on ` +
    `record. Deploy the code that started it (or use patch()), then resume; or fork.\n${execution.history?.diff()}`;
  return execution.engine.stall(workflowId, owner, reason);
}

async function settle(execution: Execution, result: Result): Promise<void> {
  const { engine, facts } = execution;
  const outcome = await encodeOutcome(execution, result);
  const { workflowId, owner, serialization } = facts;
  const finished: FinishedWorkflow = { workflowId, owner, ...outcome, completedAt: engine.clock.now() };
  const written = await engine.checkpoints.finish(finished);
  if (written !== 'written') return engine.superseded(workflowId, owner, written);
  engine.finished({ workflowId, ...outcome, serialization, statusReason: null }, owner);
}

type StoredOutcome = Pick<FinishedWorkflow, 'status' | 'output' | 'error'>;

async function encodeOutcome(execution: Execution, result: Result): Promise<StoredOutcome> {
  const { engine, facts } = execution;
  const codec = engine.codecs.for(facts.serialization);
  if (!result.ok) return { status: 'ERROR', output: null, error: await codec.encodeError(result.error) };
  try {
    const output = await codec.encode(result.value, `The result of workflow "${facts.name}"`);
    return { status: 'SUCCESS', output, error: null };
  } catch (error) {
    return { status: 'ERROR', output: null, error: await codec.encodeError(error) };
  }
}
