import { checkMaxValueBytes } from '../codec/codec.js';
import {
  currentExecution,
  currentScope,
  requireExecution,
  type StepScope,
  whileWaiting,
} from '../engine/api/context.js';
import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { once } from '../engine/execution/once.js';
import { failed, type Outcome } from '../engine/execution/outcome.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import { checkOpenFor, resolveEngine } from '../engine/running-apps.js';
import { endKey, watchKey } from '../engine/wait/watches.js';
import { HoldfastError } from '../model/errors.js';
import { checkName, checkOwnName } from '../model/ids.js';
import { checkCount, checkKnownOptions, invalidOption, refuseOptions } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import { isTerminal } from '../model/status.js';
import {
  type Effect,
  isStreamEnd,
  type StoredValue,
  type StreamEntry,
  type StreamState,
  streamEnd,
} from '../storage/contract/messaging.js';
import {
  brokenOff,
  checkSerialization,
  codecFor,
  effectsOutcome,
  type Serialization,
  valueOutcome,
} from './message-outcomes.js';
import { type Awaited, foundEventually, waitFor } from './wait-for.js';

export interface StreamOptions {
  /** How values are stored (default `native`, in a portable workflow `portable`). */
  readonly serialization?: Serialization;
  /** Most bytes of a value as it is stored. Default: that of `launch` or `connect`. */
  readonly maxValueBytes?: number;
}

export interface ReadOptions {
  /** The place of the first value to read (default 0: from the beginning). */
  readonly from?: number;
  /** Which app's database: what `launch` or `connect` returned. */
  readonly app?: object;
}

/** Values that a workflow writes one after the other, for any number of readers. */
export interface Stream<T> {
  readonly key: string;
  /**
   * In a workflow: appends a value. In a step: the value is there once the step has succeeded, which it does not if the
   * stream was closed meanwhile.
   */
  write(value: T): Promise<void>;
  /** In a workflow: nothing more will be written. */
  close(): Promise<void>;
  /** The values of a workflow's stream, as they are written, until it is closed or the workflow has ended. */
  read(workflowId: string, options?: ReadOptions): AsyncIterableIterator<T>;
}

const writeName = 'DBOS.writeStream';
const closeName = 'DBOS.closeStream';
const readName = 'DBOS.readStream';

/** What the record of a stream's end reads as. */
const endValue: unknown = JSON.parse(streamEnd.value);

/** Places are integers of 32 bits in the database. */
const lastOffset = 2 ** 31 - 1;

/** Defines a stream. */
export function stream<T>(key: string, options: StreamOptions = {}): Stream<T> {
  const what = `Stream "${checkOwnName('The key of a stream', key)}"`;
  checkKnownOptions(what, options, ['serialization', 'maxValueBytes']);
  checkMaxValueBytes(what, options.maxValueBytes);
  checkSerialization(what, options.serialization);
  const own: StreamParts = { what, key, options };
  return {
    key,
    write: (value, ...more: unknown[]) => {
      refuseOptions(`write() of ${what}`, more);
      return write(own, value);
    },
    close: (...more: unknown[]) => {
      refuseOptions(`close() of ${what}`, more);
      return close(own);
    },
    read: (workflowId, rest = {}) => read(own, workflowId, rest) as AsyncIterableIterator<T>,
  };
}

interface StreamParts {
  readonly what: string;
  readonly key: string;
  readonly options: StreamOptions;
}

/** A value on its way: to text, to what the step brings about, and why it may not, when the step goes on record. */
interface Writing {
  encode(): string | Promise<string>;
  toEffect(text: string): Effect;
  objection(): HoldfastError | undefined;
}

/** The streams that each execution has closed: known from its own calls, which a replay repeats. */
const closed = processWide('closedStreams', () => new WeakMap<Execution, Set<string>>());

function write({ what, key, options }: StreamParts, value: unknown): Promise<void> {
  const scope = currentScope();
  if (!scope) {
    throw new HoldfastError('NOT_IN_WORKFLOW', `${what} can be written only by a workflow, or in a step of it.`);
  }
  const { execution, step } = scope;
  if (closed.get(execution)?.has(key)) return refused(execution, closedStream(what, execution));
  if (value === endValue) return refused(execution, endAsValue(what));
  execution.tellAtEnd = (execution.tellAtEnd ?? new Set()).add(streamTopic(execution, key));
  const codec = codecFor(execution.engine, options.serialization, execution);
  const encode = () => codec.encode(value, `A value of ${what}`, options.maxValueBytes);
  const toEffect = (text: string) => ({ kind: 'stream', key, value: text, serialization: codec.name }) as const;
  if (step) {
    const objection = () => (closed.get(execution)?.has(key) ? closedMeanwhile(what, execution) : undefined);
    const writing = writeWithStep(what, step, { encode, toEffect, objection });
    return execution.calls.follow(writeName, step.stepNumber, writing);
  }
  return once(execution, writeName, () =>
    effectsOutcome(execution, lineOf(key), async () => ({ effects: [toEffect(await encode())] })),
  );
}

/**
 * Takes its place among what the attempt brings about in this turn, also if nobody awaits it. Whoever does learns that a
 * value cannot be stored, and may go on without it.
 */
async function writeWithStep(what: string, step: StepScope, { encode, toEffect, objection }: Writing): Promise<void> {
  if (!step.effects) {
    throw new HoldfastError(
      'UNSUPPORTED_CALL',
      `${what} cannot be written here: the step has ended (await what it does), or it is a transaction, after which the ` +
        'workflow itself can write.',
    );
  }
  const text = encode();
  const effect = Promise.resolve(text).then(toEffect);
  const stored = effect.then(
    (each) => {
      step.objections ??= [];
      step.objections.push(objection);
      return each;
    },
    () => undefined,
  );
  step.effects.push(stored);
  await effect;
}

function refused(execution: Execution, error: HoldfastError): Promise<never> {
  return execution.calls.follow(writeName, undefined, Promise.reject(error));
}

function lineOf(key: string): string {
  return `stream:${key}`;
}

function streamTopic({ workflowId }: Execution, key: string) {
  return `stream:${watchKey(workflowId, key)}` as const;
}

function endAsValue(what: string): HoldfastError {
  return new HoldfastError(
    'UNSERIALIZABLE',
    `${what}: the text ${JSON.stringify(endValue)} marks the end of a stream in the database, so that it cannot be a ` +
      'value of one. Write another text, or an object around it.',
  );
}

function closedStream(what: string, { workflowId }: Execution): HoldfastError {
  return new HoldfastError(
    'STREAM_CLOSED',
    `${what} of workflow "${workflowId}" is closed. Write before you close it, or use another stream.`,
    { details: { workflowId } },
  );
}

/** Not a value behind the end, which no reader would come to, and not a value lost without a word. */
function closedMeanwhile(what: string, { workflowId }: Execution): HoldfastError {
  return new HoldfastError(
    'STREAM_CLOSED',
    `${what} of workflow "${workflowId}" was closed while a step that writes to it was running, so that its values are ` +
      'lost and the step has failed. Await the steps that write to a stream before you close it.',
    { details: { workflowId } },
  );
}

function close({ what, key }: StreamParts): Promise<void> {
  const execution = requireExecution(`close() of ${what}`);
  const own = closed.get(execution) ?? new Set<string>();
  if (own.has(key)) return Promise.resolve();
  closed.set(execution, own.add(key));
  execution.tellAtEnd?.delete(streamTopic(execution, key));
  return once(execution, closeName, () =>
    effectsOutcome(execution, lineOf(key), async () => ({ effects: [{ kind: 'stream', key, ...streamEnd }] })),
  );
}

function read(own: StreamParts, workflowId: string, options: ReadOptions): AsyncIterableIterator<unknown> {
  const what = `read() of ${own.what}`;
  checkName('A workflow ID', workflowId);
  checkKnownOptions(what, options, ['from', 'app']);
  const from = checkCount(what, 'from', options.from ?? 0);
  if (from > lastOffset) throw invalidOption(what, 'from', from, `at most ${lastOffset}`);
  const engine = resolveEngine(what, options.app);
  const execution = currentExecution();
  if (execution) return readRecorded(own, workflowId, from, engine, execution);
  checkOpenFor(engine);
  return new PlainReader(engine, workflowId, own.key, from);
}

/**
 * Reads outside a workflow. Not an async generator, in which `return()` would wait for the value that a `next()` before
 * it waits for, perhaps for ever: here it ends that wait.
 */
class PlainReader implements AsyncIterableIterator<unknown> {
  private readonly found: StreamEntry[] = [];
  private ended = false;
  /** Calls of `next()` are answered one after the other. */
  private line: Promise<unknown> = Promise.resolve();
  private endWait: (() => void) | undefined;

  constructor(
    private readonly engine: Engine,
    readonly workflowId: string,
    readonly key: string,
    private offset: number,
  ) {}

  next(): Promise<IteratorResult<unknown>> {
    const result = whileWaiting(this.line.then(() => this.take()));
    this.line = result.catch(() => {
      this.ended = true;
    });
    return result;
  }

  async return(value?: unknown): Promise<IteratorResult<unknown>> {
    this.ended = true;
    this.endWait?.();
    return { done: true, value: await value };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  private async take(): Promise<IteratorResult<unknown>> {
    if (!this.ended && this.found.length === 0) await this.wait();
    const entry = this.found.shift();
    if (this.ended || !entry || isStreamEnd(entry)) return this.end();
    this.offset = entry.offset + 1;
    const value = await this.engine.codecs.for(entry.serialization).decode(entry.value);
    return this.ended ? this.end() : { done: false, value };
  }

  private end(): IteratorResult<unknown> {
    this.ended = true;
    return { done: true, value: undefined };
  }

  /** Leaves nothing found if there is nothing more to come, or if the reader does not want it any more. */
  private async wait(): Promise<void> {
    const sought = seekValues(this.engine, this, this.offset, true);
    const left = new Promise<'ended'>((resolve) => {
      this.endWait = () => {
        sought.forget();
        resolve('ended');
      };
    });
    const found = await Promise.race([sought.found, left]).finally(() => this.endWait?.());
    this.endWait = undefined;
    if (found === 'missing') throw notFoundError(this.workflowId);
    if (found !== 'ended') this.found.push(...found);
  }
}

/** In a workflow each value is a step. Values have consecutive places, so that the place of each is known at the call. */
function readRecorded(
  own: StreamParts,
  workflowId: string,
  from: number,
  engine: Engine,
  execution: Execution,
): AsyncIterableIterator<unknown> {
  let offset = from;
  let ended = false;
  const next = async (): Promise<IteratorResult<unknown>> => {
    if (ended) return { done: true, value: undefined };
    const place = offset++;
    const value = await once(execution, readName, () => readOne(own, workflowId, place, engine, execution));
    if (value !== endValue) return { done: false, value };
    ended = true;
    return { done: true, value: undefined };
  };
  return {
    next: () => execution.calls.follow(readName, execution.stepCount, next()),
    return: async () => {
      ended = true;
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function readOne(
  own: StreamParts,
  workflowId: string,
  offset: number,
  engine: Engine,
  execution: Execution,
): Promise<Outcome> {
  const startedAt = execution.engine.clock.now();
  try {
    const found = await foundEventually(execution, seekValues(engine, { workflowId, key: own.key }, offset));
    if (found === 'missing') return await failed(execution, startedAt, notFoundError(workflowId));
    const entry: StoredValue | undefined = found === 'ended' ? streamEnd : found[0];
    if (entry && isStreamEnd(entry)) return await valueOutcome(execution, startedAt, streamEnd);
    return await valueOutcome(execution, startedAt, entry, engine);
  } catch (error) {
    return brokenOff(execution, startedAt, engine, error);
  }
}

type Values = readonly StreamEntry[] | 'ended' | 'missing';

/** Values and the workflow's end are seen in one snapshot: what it wrote last is not missed. */
function seekValues(
  { watches }: Engine,
  { workflowId, key }: { readonly workflowId: string; readonly key: string },
  from: number,
  failsFast = false,
): Awaited<Values> {
  const question = { workflowId, key, from };
  return waitFor<typeof question, StreamState, Values>(
    watches.streams,
    [watchKey(workflowId, key), endKey(workflowId)],
    question,
    ({ entries, status, isBehindEnd }) => {
      if (entries.length > 0) return { value: entries };
      if (status === undefined) return { value: 'missing' };
      return isBehindEnd || isTerminal(status) ? { value: 'ended' } : undefined;
    },
    failsFast,
  );
}
