import { checkMaxValueBytes } from '../codec/codecs.js';
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
import { rejecting } from '../engine/execution/rejecting.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import { checkOpenFor, resolveEngine } from '../engine/running-apps.js';
import { endKey, watchKey } from '../engine/wait/watches.js';
import { HoldfastError } from '../model/errors.js';
import { checkName, checkUserName } from '../model/ids.js';
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
  checkSerialization,
  codecFor,
  effectsOutcome,
  failedWaitOutcome,
  type Serialization,
  valueOutcome,
} from './message-outcomes.js';
import { type Awaited, waitFor, waitWithoutDeadline } from './wait-for.js';

export interface StreamOptions {
  /** The format of stored values (default `native`; `portable` in a portable workflow). */
  readonly serialization?: Serialization;
  /** The maximum size of a stored value in bytes. Default: the limit of `launch` or `connect`. */
  readonly maxValueBytes?: number;
}

export interface ReadOptions {
  /** The offset of the first value to read (default 0: the beginning). */
  readonly from?: number;
  /** The app whose database is used: the result of `launch` or `connect`. */
  readonly app?: object;
}

/** A sequence of values that a workflow writes, for any number of readers. */
export interface Stream<T> {
  readonly key: string;
  /**
   * In a workflow: appends a value. In a step: readers see the value when the step has succeeded. The step fails if
   * the stream is closed while the step runs.
   */
  write(value: T): Promise<void>;
  /** In a workflow: ends the stream. Later writes fail. */
  close(): Promise<void>;
  /**
   * Reads the stream of a workflow as its values are written, until the stream is closed or the workflow has ended.
   */
  read(workflowId: string, options?: ReadOptions): AsyncIterableIterator<T>;
}

const writeName = 'DBOS.writeStream';
const closeName = 'DBOS.closeStream';
const readName = 'DBOS.readStream';

/** The value that marks the end of a stream. */
const endValue: unknown = JSON.parse(streamEnd.value);

/** Offsets are 32-bit integers in the database. */
const maxOffset = 2 ** 31 - 1;

/**
 * Defines a stream: a sequence of values that a workflow writes, for any number of readers.
 *
 * @example
 * ```ts
 * const lines = stream<string>('lines');
 *
 * const build = workflow('build', async () => {
 *   await lines.write('compiling');
 *   await lines.write('done');
 *   await lines.close();
 * });
 *
 * for await (const line of lines.read('build-7')) console.log(line);
 * ```
 */
export function stream<T>(key: string, options: StreamOptions = {}): Stream<T> {
  const what = `Stream "${checkUserName('The key of a stream', key)}"`;
  checkKnownOptions(what, options, ['serialization', 'maxValueBytes']);
  checkMaxValueBytes(what, options.maxValueBytes);
  checkSerialization(what, options.serialization);
  const parts: StreamParts = { what, key, options };
  return {
    key,
    write: (value, ...more: unknown[]) =>
      rejecting(`write() of ${what}`, () => {
        refuseOptions(`write() of ${what}`, more);
        return write(parts, value);
      }),
    close: (...more: unknown[]) =>
      rejecting(`close() of ${what}`, () => {
        refuseOptions(`close() of ${what}`, more);
        return close(parts);
      }),
    read: (workflowId, readOptions = {}) => read(parts, workflowId, readOptions) as AsyncIterableIterator<T>,
  };
}

interface StreamParts {
  readonly what: string;
  readonly key: string;
  readonly options: StreamOptions;
}

/** A write in a step. */
interface StepWrite {
  encode(): string | Promise<string>;
  toEffect(text: string): Effect;
  /** Called when the step is about to be stored. A returned error makes the step fail. */
  objection(): HoldfastError | undefined;
}

/**
 * The keys of the streams that each execution has closed. A replay repeats the calls of `close`, and so restores
 * them.
 */
const closed = processWide('closedStreams', () => new WeakMap<Execution, Set<string>>());

function write({ what, key, options }: StreamParts, value: unknown): Promise<void> {
  const scope = currentScope();
  if (!scope) {
    throw new HoldfastError('NOT_IN_WORKFLOW', `${what} can only be written in a workflow or in one of its steps.`);
  }
  const { execution, step } = scope;
  if (closed.get(execution)?.has(key)) return refused(execution, closedStream(what, execution));
  if (value === endValue) return refused(execution, endAsValue(what));
  execution.announceAtEnd = (execution.announceAtEnd ?? new Set()).add(streamTopic(execution, key));
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
 * Adds the value to the effects of the attempt synchronously, so that the order of the calls is kept even if the code
 * does not await them. Rejects if the value cannot be stored; the step may catch the error and continue.
 */
async function writeWithStep(what: string, step: StepScope, { encode, toEffect, objection }: StepWrite): Promise<void> {
  if (!step.effects) {
    throw new HoldfastError(
      'UNSUPPORTED_CALL',
      `${what} cannot be written here, because the step has ended or is a transaction. Await all work in a step ` +
        'before the step returns. Write to the stream in the workflow after a transaction.',
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
    `${what}: the text ${JSON.stringify(endValue)} cannot be written, because it marks the end of a stream in the ` +
      'database. Write another text, or an object that contains it.',
  );
}

function closedStream(what: string, { workflowId }: Execution): HoldfastError {
  return new HoldfastError(
    'STREAM_CLOSED',
    `${what} of workflow "${workflowId}" is closed. Write before you close the stream, or use another stream.`,
    { details: { workflowId } },
  );
}

/** A value after the end of the stream would reach no reader, and would be lost without an error. */
function closedMeanwhile(what: string, { workflowId }: Execution): HoldfastError {
  return new HoldfastError(
    'STREAM_CLOSED',
    `${what} of workflow "${workflowId}" was closed while a step that writes to it was running. The step failed and ` +
      'its values are lost. Await the steps that write to a stream before you close the stream.',
    { details: { workflowId } },
  );
}

function close({ what, key }: StreamParts): Promise<void> {
  const execution = requireExecution(`close() of ${what}`);
  const own = closed.get(execution) ?? new Set<string>();
  if (own.has(key)) return Promise.resolve();
  closed.set(execution, own.add(key));
  execution.announceAtEnd?.delete(streamTopic(execution, key));
  return once(execution, closeName, () =>
    effectsOutcome(execution, lineOf(key), async () => ({ effects: [{ kind: 'stream', key, ...streamEnd }] })),
  );
}

function read(own: StreamParts, workflowId: string, options: ReadOptions): AsyncIterableIterator<unknown> {
  const what = `read() of ${own.what}`;
  checkName('A workflow ID', workflowId);
  checkKnownOptions(what, options, ['from', 'app']);
  const from = checkCount(what, 'from', options.from ?? 0);
  if (from > maxOffset) throw invalidOption(what, 'from', from, `at most ${maxOffset}`);
  const engine = resolveEngine(what, options.app);
  const execution = currentExecution();
  if (execution) return readRecorded(own, workflowId, from, engine, execution);
  checkOpenFor(engine);
  return new PlainReader(engine, workflowId, own.key, from);
}

/**
 * Reads outside a workflow. In an async generator, `return()` would wait until an earlier `next()` gets its value,
 * perhaps forever. Here `return()` ends that wait.
 */
class PlainReader implements AsyncIterableIterator<unknown> {
  private readonly found: StreamEntry[] = [];
  private ended = false;
  /** The last call of `next()`. Each call waits for the previous call. */
  private lastNext: Promise<unknown> = Promise.resolve();
  private endWait: (() => void) | undefined;

  constructor(
    private readonly engine: Engine,
    readonly workflowId: string,
    readonly key: string,
    private offset: number,
  ) {}

  next(): Promise<IteratorResult<unknown>> {
    const result = whileWaiting(this.lastNext.then(() => this.take()));
    this.lastNext = result.catch(() => {
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

  /** Waits for values. `found` stays empty if the stream has ended or `return()` was called. */
  private async wait(): Promise<void> {
    const awaited = awaitValues(this.engine, this, this.offset, true);
    const returned = new Promise<'ended'>((resolve) => {
      this.endWait = () => {
        awaited.forget();
        resolve('ended');
      };
    });
    const found = await Promise.race([awaited.found, returned]).finally(() => this.endWait?.());
    this.endWait = undefined;
    if (found === 'missing') throw notFoundError(this.workflowId);
    if (found !== 'ended') this.found.push(...found);
  }
}

/**
 * In a workflow each value is a step. Offsets are consecutive, so each call of `next()` knows the offset of its
 * value.
 */
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
    const valueOffset = offset++;
    const value = await once(execution, readName, () => readOne(own, workflowId, valueOffset, engine, execution));
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
    const found = await waitWithoutDeadline(execution, awaitValues(engine, { workflowId, key: own.key }, offset));
    if (found === 'missing') return await failed(execution, startedAt, notFoundError(workflowId));
    const entry: StoredValue | undefined = found === 'ended' ? streamEnd : found[0];
    if (entry && isStreamEnd(entry)) return await valueOutcome(execution, startedAt, streamEnd);
    return await valueOutcome(execution, startedAt, entry, engine);
  } catch (error) {
    return failedWaitOutcome(execution, startedAt, engine, error);
  }
}

type Values = readonly StreamEntry[] | 'ended' | 'missing';

/**
 * One query reads the values and the status of the workflow, so that the last values before its end are not missed.
 */
function awaitValues(
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
