import { checkMaxValueBytes } from '../codec/codecs.js';
import { currentExecution, currentScope, type StepScope, whileWaiting } from '../engine/api/context.js';
import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { once, onceAt, reserveStepNumber } from '../engine/execution/once.js';
import { rejecting } from '../engine/execution/rejecting.js';
import { sleepName } from '../engine/execution/sleep-record.js';
import { checkOpenFor, resolveEngine } from '../engine/running-apps.js';
import { endKey, watchKey } from '../engine/wait/watches.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { HoldfastError } from '../model/errors.js';
import { checkName, checkUserName } from '../model/ids.js';
import { checkKnownOptions, refuseOptions } from '../model/options.js';
import type { EventState, StoredValue } from '../storage/contract/messaging.js';
import { runInCallOrder } from './call-order.js';
import {
  checkSerialization,
  codecFor,
  effectsOutcome,
  failedWaitOutcome,
  type Serialization,
  valueOutcome,
} from './message-outcomes.js';
import { type Accept, type Awaited, waitFor, waitOutsideWorkflow, waitUntilDeadline } from './wait-for.js';

export interface EventOptions {
  /** The format of stored values (default `native`; `portable` in a portable workflow). */
  readonly serialization?: Serialization;
  /** The maximum size of a stored value in bytes. Default: the limit of `launch` or `connect`. */
  readonly maxValueBytes?: number;
}

export interface GetOptions {
  /** How long to wait until the event is set (default 60 seconds). */
  readonly timeout?: Duration;
  /** The app whose database is used: the result of `launch` or `connect`. */
  readonly app?: object;
}

/** A value that a workflow publishes under a key. */
export interface Event<T> {
  readonly key: string;
  /** In a workflow or in one of its steps: sets or replaces the value. */
  set(value: T): Promise<void>;
  /**
   * Waits until the workflow has set a value, and resolves with the value. Resolves with `undefined` after the
   * timeout, or if the workflow ends without setting the event.
   */
  get(workflowId: string, options?: GetOptions): Promise<T | undefined>;
}

const setName = 'DBOS.setEvent';
const getName = 'DBOS.getEvent';
const defaultTimeoutMs = 60_000;

/**
 * Defines an event: a value that a workflow publishes under a key, for readers anywhere.
 *
 * @example
 * ```ts
 * const progress = event<number>('progress');
 *
 * const report = workflow('report', async (pages: number) => {
 *   for (let page = 1; page <= pages; page++) {
 *     await render(page);
 *     await progress.set(page / pages);
 *   }
 * });
 *
 * await progress.get('report-7'); // the last value, or undefined after 60 seconds without one
 * ```
 */
export function event<T>(key: string, options: EventOptions = {}): Event<T> {
  const what = `Event "${checkUserName('The key of an event', key)}"`;
  checkKnownOptions(what, options, ['serialization', 'maxValueBytes']);
  checkMaxValueBytes(what, options.maxValueBytes);
  checkSerialization(what, options.serialization);
  return {
    key,
    set: (value, ...more: unknown[]) =>
      rejecting(`set() of ${what}`, () => {
        refuseOptions(`set() of ${what}`, more);
        return set({ what, key, options }, value);
      }),
    get: (workflowId, getOptions = {}) => {
      const parts = { what, key, options };
      return rejecting(`get() of ${what}`, () => get(parts, workflowId, getOptions) as Promise<T | undefined>);
    },
  };
}

interface EventParts {
  readonly what: string;
  readonly key: string;
  readonly options: EventOptions;
}

function set({ what, key, options }: EventParts, value: unknown): Promise<void> {
  const scope = currentScope();
  if (!scope) {
    throw new HoldfastError('NOT_IN_WORKFLOW', `${what} can only be set in a workflow or in one of its steps.`);
  }
  const { execution, step } = scope;
  const codec = codecFor(execution.engine, options.serialization, execution);
  const encode = () => codec.encode(value, `The value of ${what}`, options.maxValueBytes);
  const setInOrder = (stepNumber: number) =>
    runInCallOrder(
      execution,
      lineOf(key),
      async () => encode(),
      (text) => setNow(execution, { stepNumber, key, value: text, serialization: codec.name }),
    );
  if (step) {
    const setting = setInStep(what, step, () => setInOrder(step.stepNumber));
    return execution.calls.follow(setName, step.stepNumber, setting);
  }
  return once(execution, setName, () =>
    effectsOutcome(execution, lineOf(key), async () => ({
      effects: [{ kind: 'event', key, value: await encode(), serialization: codec.name }],
    })),
  );
}

function lineOf(key: string): string {
  return `event:${key}`;
}

/**
 * Sets the event before the step ends, even if the code does not await the call. A value that the workflow sets after
 * the step therefore comes later.
 */
async function setInStep(what: string, step: StepScope, setInOrder: () => Promise<void>): Promise<void> {
  const { effects } = step;
  if (!effects) {
    throw new HoldfastError(
      'UNSUPPORTED_CALL',
      `${what} cannot be set here, because the step has ended or is a transaction. Await all work in a step before ` +
        'the step returns. Set the event in the workflow after a transaction.',
    );
  }
  const setting = setInOrder();
  const ended = setting.then(
    () => undefined,
    () => undefined,
  );
  effects.push(ended);
  try {
    await setting;
  } finally {
    // A step may run for days and set its progress very often, so only unfinished calls are kept in memory.
    if (step.effects) void effects.splice(effects.lastIndexOf(ended), 1);
  }
}

/** Sets the event from a step: immediately, so that readers see the progress, and again with each attempt. */
async function setNow(
  execution: Execution,
  event: { readonly stepNumber: number; readonly key: string; readonly value: string; readonly serialization: string },
): Promise<void> {
  const { engine, claim } = execution;
  const { workflowId, owner } = claim;
  if (!execution.running) return execution.refuse();
  const set = () => engine.storage.events.set({ workflowId, owner, ...event });
  const isSet = await engine.untilAnswered('Setting an event', set);
  if (!isSet) {
    // Another execution owns the workflow. This may be the first place to notice it, so the step must not wait
    // forever.
    const [now] = await engine.storage.workflows.get([workflowId]);
    engine.executions.supersede(workflowId, owner, { owner: now?.owner ?? null, status: now?.status });
    return execution.refuse();
  }
  engine.news.announce(`event:${watchKey(workflowId, event.key)}`);
}

function get(own: EventParts, workflowId: string, options: GetOptions): Promise<unknown> {
  checkName('A workflow ID', workflowId);
  checkKnownOptions(`get() of ${own.what}`, options, ['timeout', 'app']);
  const { timeout = defaultTimeoutMs } = options;
  const timeoutMs = parseDuration(timeout, `The timeout of get() of ${own.what}`);
  const engine = resolveEngine(`get() of ${own.what}`, options.app);
  const execution = currentExecution();
  if (execution) return getRecorded(own, workflowId, timeoutMs, engine, execution);
  checkOpenFor(engine);
  return getPlain(own, workflowId, timeoutMs, engine);
}

async function getPlain(own: EventParts, workflowId: string, timeoutMs: number, engine: Engine): Promise<unknown> {
  const absence: Absence = {};
  const awaited = awaitEvent(engine, workflowId, own.key, absence, true);
  const stored = await whileWaiting(waitOutsideWorkflow(engine, timeoutMs, awaited));
  if (absence.isAbsent) warnOfAbsent(engine, own, workflowId);
  return stored && engine.codecs.for(stored.serialization).decode(stored.value);
}

function getRecorded(
  own: EventParts,
  workflowId: string,
  timeoutMs: number,
  engine: Engine,
  execution: Execution,
): Promise<unknown> {
  const stepNumber = execution.takeStepNumber();
  const timer = reserveStepNumber(execution, sleepName);
  return onceAt(execution, stepNumber, getName, async () => {
    const startedAt = execution.engine.clock.now();
    const absence: Absence = {};
    const awaited = awaitEvent(engine, workflowId, own.key, absence);
    try {
      const stored = await waitUntilDeadline(execution, { stepNumber: timer, timeoutMs, startedAt }, awaited);
      if (absence.isAbsent) warnOfAbsent(engine, own, workflowId);
      return await valueOutcome(execution, startedAt, stored, engine);
    } catch (error) {
      return failedWaitOutcome(execution, startedAt, engine, error);
    }
  });
}

/** Each query sets the flag: true if the workflow did not exist. */
interface Absence {
  isAbsent?: boolean;
}

/** A missing workflow is no error, because it may start later. The warning helps if the ID is wrong. */
function warnOfAbsent(engine: Engine, { what, key }: EventParts, workflowId: string): void {
  engine.warnOnce(
    `event of missing workflow ${key}`,
    `get() of ${what} returned undefined, because workflow "${workflowId}" does not exist. Check the ID.`,
  );
}

/** Waits for the event. `undefined` is found if the workflow has ended without setting the event. */
function awaitEvent(
  { watches }: Engine,
  workflowId: string,
  key: string,
  absence: Absence,
  failsFast = false,
): Awaited<StoredValue | undefined> {
  const keys = [watchKey(workflowId, key), endKey(workflowId)];
  const accept: Accept<EventState, StoredValue | undefined> = ({ event, status }) => {
    absence.isAbsent = status === undefined;
    if (event) return { value: event };
    return status === 'SUCCESS' || status === 'ERROR' ? { value: undefined } : undefined;
  };
  return waitFor(watches.events, keys, { workflowId, key }, accept, failsFast);
}
