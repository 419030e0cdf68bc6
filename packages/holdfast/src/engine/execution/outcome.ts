import type { Codec, Encoded } from '../../codec/codec.js';
import type { Effect } from '../../storage/contract/messaging.js';
import type { Engine } from '../engine.js';
import type { Execution } from './execution.js';
import type { Result } from './workflow-errors.js';

/** What an operation came to: the text for the record and the value or error for the code. */
export interface Outcome {
  readonly output: string | null;
  readonly error: string | null;
  readonly serialization: string | null;
  readonly childWorkflowId: string | null;
  readonly startedAt: number;
  /** Its row was written when it began, so that only its end is missing. */
  readonly begun: boolean;
  readonly result: Result;
  /** What it brings about, committed together with its record. */
  readonly effects?: readonly Effect[];
  /** The record's error, and the result, if a recipient of its messages does not exist. */
  readonly errorIfAbsent?: Encoded;
  /** Asked in the moment in which it takes its place: what it fails with after all, if anything. */
  readonly objection?: () => unknown;
  /** Called when record and effects are committed. */
  readonly onCommit?: () => void;
  /** Its place among the results, if it had to take that before it was known. */
  readonly seq?: number;
  /** Its record is committed already, with that place and this time of completion. */
  readonly writtenAt?: number;
  /** How many statements had been confirmed when that record was submitted (frontier.ts). */
  readonly since?: number;
  /** It records the start of `childWorkflowId`, in the same database. */
  readonly startsChild?: true;
}

/**
 * The outcome of an operation that gave a value. The code gets the value as it reads from the record, as a replay would:
 * what becomes of the step's own object later must not show. A value that cannot be stored, not be read back, or is larger than
 * `maxBytes` (default: the limit of the app) makes the operation one that failed.
 *
 * Never throws and never rejects: an operation without an outcome on record would be done again by every replay. Our own
 * codec answers at once.
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
 * The outcome of an operation that threw. The code gets the error as it reads from the record: in the first run exactly
 * what it gets in a replay, so that no branch depends on, say, a class that the record does not keep. Never rejects.
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

/** The same in the place of another outcome, with nothing of what that was to bring about. */
export async function failedInstead(execution: Execution, outcome: Outcome, thrown: unknown): Promise<Outcome> {
  const { effects: _, errorIfAbsent: __, onCommit: ___, objection: ____, ...rest } = outcome;
  const { output, error, serialization, result } = await failed(execution, outcome.startedAt, thrown);
  return { ...rest, output, error, serialization, result };
}

/**
 * What a workflow's own row is written with: the format that it has; or, if this app lacks that, the app's own, since the
 * row still needs its ERROR, and whoever reads that learns of the format.
 */
export function codecOf({ codecs }: Engine, serialization: string | null): Codec {
  try {
    return codecs.for(serialization);
  } catch {
    return codecs.native;
  }
}
