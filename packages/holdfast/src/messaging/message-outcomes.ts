import type { Codec, Encoded } from '../codec/codec.js';
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

/** The format of what a workflow says to others: as it was told; else its own, if that is the portable one. */
export function codecFor(engine: Engine, chosen: Serialization | undefined, execution?: Execution): Codec {
  const { portable, native } = engine.codecs;
  if (chosen !== undefined) return chosen === 'portable' ? portable : native;
  return execution?.claim.serialization === portable.name ? portable : native;
}

/** What an operation without a result of its own comes to: its effects, in its turn, or why there are none. */
export async function effectsOutcome(
  execution: Execution,
  line: string,
  effects: () => Promise<{ readonly effects: readonly Effect[]; readonly errorIfAbsent?: Encoded }>,
): Promise<Outcome> {
  const startedAt = execution.engine.clock.now();
  const { name } = execution.engine.codecs.native;
  const common = { output: null, error: null, serialization: name, childWorkflowId: null, startedAt, begun: false };
  try {
    const made = await inCallOrder(execution, line, effects);
    const onCommit = (): void => notifyEffects(execution, made.effects);
    return { ...common, ...made, onCommit, result: { ok: true, value: undefined } };
  } catch (error) {
    return failed(execution, startedAt, error);
  }
}

/**
 * What an operation comes to that found a stored value, of this app or of the one that was asked: with its text on record,
 * or, if that cannot be read, why.
 */
export async function valueOutcome(
  execution: Execution,
  startedAt: number,
  stored: StoredValue | undefined,
  asked = execution.engine,
): Promise<Outcome> {
  const { codecs } = execution.engine;
  const common = { error: null, childWorkflowId: null, startedAt, begun: false };
  if (!stored) {
    const nothing = { output: null, serialization: codecs.native.name };
    return { ...common, ...nothing, result: { ok: true, value: undefined } };
  }
  try {
    const own = asked === execution.engine ? stored : await inOwnFormat(execution, stored, asked);
    const { value: output, serialization } = own;
    const value = await codecs.for(serialization).decode(output);
    return { ...common, output, serialization, result: { ok: true, value } };
  } catch (error) {
    return failed(execution, startedAt, error);
  }
}

/** Another app may use a format that this one cannot read, and a replay reads only what this one can. */
async function inOwnFormat(execution: Execution, stored: StoredValue, { codecs }: Engine): Promise<StoredValue> {
  const value = await codecs.for(stored.serialization).decode(stored.value);
  const { native } = execution.engine.codecs;
  // It is stored already, under the limit of the other app.
  const text = await native.encode(value, 'A value of another app', Number.POSITIVE_INFINITY);
  return { value: text, serialization: native.name };
}

/**
 * What a wait comes to that was broken off. That another app, by which it waited, has closed is for the code to see, and
 * goes on record for a replay to see the same; all else is the end of this execution, and no outcome.
 */
export function brokenOff(execution: Execution, startedAt: number, asked: Engine, error: unknown): Promise<Outcome> {
  const isOthers = asked !== execution.engine && isHoldfastError(error, 'APP_CLOSED');
  if (!isOthers || !execution.running) throw error;
  return failed(execution, startedAt, error);
}
