import type { Codec, Encoded } from '../codec/codecs.js';
import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { failed, type Outcome } from '../engine/execution/outcome.js';
import { notifyEffects } from '../engine/wait/notify-effects.js';
import { isHoldfastError } from '../model/errors.js';
import { invalidOption } from '../model/options.js';
import type { Effect, StoredValue } from '../storage/contract/messaging.js';
import { inCallOrder } from './call-order.js';

export type Serialization = 'native' | 'portable';

export function checkSerialization(what: string, serialization: unknown): void {
  if (serialization === undefined || serialization === 'native' || serialization === 'portable') return;
  throw invalidOption(what, 'serialization', serialization, '"native" or "portable"');
}

/**
 * Returns the format for a message, event or stream value: the chosen format. Without one, a portable workflow uses
 * the portable format, and everything else the native format.
 */
export function codecFor(engine: Engine, chosen: Serialization | undefined, execution?: Execution): Codec {
  const { portable, native } = engine.codecs;
  if (chosen !== undefined) return chosen === 'portable' ? portable : native;
  return execution?.claim.serialization === portable.name ? portable : native;
}

/**
 * Returns the outcome of an operation that has effects but no result. The effects are made in call order (`line`). If
 * making them fails, the outcome is that error.
 */
export async function effectsOutcome(
  execution: Execution,
  line: string,
  makeEffects: () => Promise<{ readonly effects: readonly Effect[]; readonly errorIfAbsent?: Encoded }>,
): Promise<Outcome> {
  const startedAt = execution.engine.clock.now();
  const { name } = execution.engine.codecs.native;
  const common = { output: null, error: null, serialization: name, childWorkflowId: null, startedAt, begun: false };
  try {
    const made = await inCallOrder(execution, line, makeEffects);
    const onCommit = (): void => notifyEffects(execution, made.effects);
    return { ...common, ...made, onCommit, result: { ok: true, value: undefined } };
  } catch (error) {
    return failed(execution, startedAt, error);
  }
}

/**
 * Returns the outcome of an operation that received a stored value. `source` is the app that the value comes from.
 * The outcome contains the text of the value. If the value cannot be read, the outcome is that error.
 */
export async function valueOutcome(
  execution: Execution,
  startedAt: number,
  stored: StoredValue | undefined,
  source = execution.engine,
): Promise<Outcome> {
  const { codecs } = execution.engine;
  const common = { error: null, childWorkflowId: null, startedAt, begun: false };
  if (!stored) {
    const nothing = { output: null, serialization: codecs.native.name };
    return { ...common, ...nothing, result: { ok: true, value: undefined } };
  }
  try {
    const own = source === execution.engine ? stored : await inOwnFormat(execution, stored, source);
    const { value: output, serialization } = own;
    const value = await codecs.for(serialization).decode(output);
    return { ...common, output, serialization, result: { ok: true, value } };
  } catch (error) {
    return failed(execution, startedAt, error);
  }
}

/**
 * Converts a value of another app to the format of this app, because a replay can only read the formats of this app.
 */
async function inOwnFormat(execution: Execution, stored: StoredValue, { codecs }: Engine): Promise<StoredValue> {
  const value = await codecs.for(stored.serialization).decode(stored.value);
  const { native } = execution.engine.codecs;
  // The value needs no size limit, because it is already stored, under the limit of the other app.
  const text = await native.encode(value, 'A value of another app', Number.POSITIVE_INFINITY);
  return { value: text, serialization: native.name };
}

/**
 * Returns the outcome of a wait that failed. If the wait used another app and that app was closed, the error is the
 * outcome: it is stored, so that a replay gets the same error. Any other error ends this execution without an
 * outcome.
 */
export function failedWaitOutcome(
  execution: Execution,
  startedAt: number,
  source: Engine,
  error: unknown,
): Promise<Outcome> {
  const otherAppClosed = source !== execution.engine && isHoldfastError(error, 'APP_CLOSED');
  if (!otherAppClosed || !execution.running) throw error;
  return failed(execution, startedAt, error);
}
