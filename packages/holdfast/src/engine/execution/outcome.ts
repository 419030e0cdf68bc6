import type { Codec, Encoded } from '../../codec/codecs.js';
import type { Effect } from '../../storage/contract/messaging.js';
import type { Engine } from '../engine.js';
import type { Execution } from './execution.js';
import type { Result } from './workflow-errors.js';

/** The outcome of an operation: the text for its record, and the value or error for the code. */
export interface Outcome {
  readonly output: string | null;
  readonly error: string | null;
  readonly serialization: string | null;
  readonly childWorkflowId: string | null;
  readonly startedAt: number;
  /** True if the row of the operation was written when it began. Only its completion is missing then. */
  readonly begun: boolean;
  readonly result: Result;
  /** Effects that commit together with the record. */
  readonly effects?: readonly Effect[];
  /** The error to record and to return instead, if a recipient of a message does not exist. */
  readonly errorIfAbsent?: Encoded;
  /**
   * Called just before the outcome takes its place in the completion order. Returns the error with which the operation
   * fails instead, or undefined.
   */
  readonly finalCheck?: () => unknown;
  /** Called when the record and its effects are committed. */
  readonly onCommit?: () => void;
  /** Place in the completion order, if the operation had to take its place before its result was known. */
  readonly seq?: number;
  /** Completion time of a record that is already committed, under the place `seq`. */
  readonly writtenAt?: number;
  /** Number of statements that had been confirmed when that record was submitted (frontier.ts). */
  readonly since?: number;
  /** True if the operation started `childWorkflowId`, in the same database. */
  readonly startsChild?: true;
}

/**
 * Returns the outcome of an operation that returned a value. The code gets the value as decoded from the record, like
 * in a replay: later changes of the step's own object must not show. If the value cannot be stored, cannot be read back
 * or is larger than `maxBytes` (default: the limit of the app), the operation has failed.
 *
 * Never throws and never rejects: every replay would repeat an operation without a recorded outcome. Our own codec
 * answers synchronously.
 */
export function succeeded(
  execution: Execution,
  what: string,
  startedAt: number,
  value: unknown,
  maxBytes?: number,
): Outcome | Promise<Outcome> {
  const codec = execution.engine.codecs.native;
  try {
    const encoded = codec.encodeAndRead(value, what, maxBytes);
    if ('text' in encoded) return valueOutcome(codec, startedAt, encoded);
    return encoded.then(
      (later) => valueOutcome(codec, startedAt, later),
      (error) => failed(execution, startedAt, error),
    );
  } catch (error) {
    return failed(execution, startedAt, error);
  }
}

function valueOutcome({ name }: Codec, startedAt: number, { text, value }: Encoded): Outcome {
  const result: Result = { ok: true, value };
  return { output: text, error: null, serialization: name, childWorkflowId: null, startedAt, begun: false, result };
}

/**
 * Returns the outcome of an operation that threw. The code gets the error as decoded from the record, so the first run
 * sees exactly the error that a replay sees. No branch can depend on, for example, a class that the record does not
 * keep. Never rejects.
 */
export async function failed(execution: Execution, startedAt: number, thrown: unknown): Promise<Outcome> {
  const codec = execution.engine.codecs.native;
  const { text, value } = await codec.encodeError(thrown);
  const result: Result = { ok: false, error: value };
  return {
    output: null,
    error: text,
    serialization: codec.name,
    childWorkflowId: null,
    startedAt,
    begun: false,
    result,
  };
}

/** Returns a failed outcome in place of another outcome, without the effects of that outcome. */
export async function failedInstead(execution: Execution, outcome: Outcome, thrown: unknown): Promise<Outcome> {
  const { effects: _, errorIfAbsent: __, onCommit: ___, finalCheck: ____, ...rest } = outcome;
  const { output, error, serialization, result } = await failed(execution, outcome.startedAt, thrown);
  return { ...rest, output, error, serialization, result };
}

/**
 * Returns the codec for the row of a workflow: the format that the row has, or the app's own format if the app lacks
 * that format. The row still needs its ERROR, and readers without the format get an error that names the format.
 */
export function codecOf({ codecs }: Engine, serialization: string | null): Codec {
  try {
    return codecs.for(serialization);
  } catch {
    return codecs.native;
  }
}
