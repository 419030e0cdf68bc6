import { checkMaxValueBytes } from '../codec/codec.js';
import { currentExecution, currentScope, type StepScope, whileWaiting } from '../engine/api/context.js';
import type { Engine } from '../engine/engine.js';
import { sleepName } from '../engine/execution/deliveries.js';
import type { Execution } from '../engine/execution/execution.js';
import { once, onceAt, reserve } from '../engine/execution/once.js';
import { checkOpenFor, resolveEngine } from '../engine/running-apps.js';
import { endKey, watchKey } from '../engine/wait/watches.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { HoldfastError } from '../model/errors.js';
import { checkName, checkOwnName } from '../model/ids.js';
import { checkKnownOptions, refuseOptions } from '../model/options.js';
import type { EventState, StoredValue } from '../storage/contract/messaging.js';
import { doneInCallOrder } from './call-order.js';
import {
  brokenOff,
  checkSerialization,
  codecFor,
  effectsOutcome,
  type Serialization,
  valueOutcome,
} from './message-outcomes.js';
import { type Accept, type Awaited, foundBefore, foundWithin, waitFor } from './wait-for.js';

export interface EventOptions {
  /** How values are stored (default `native`, in a portable workflow `portable`). */
  readonly serialization?: Serialization;
  /** Most bytes of a value as it is stored. Default: that of `launch` or `connect`. */
  readonly maxValueBytes?: number;
}

export interface GetOptions {
  /** How long to wait for it to be set (default 60 seconds). */
  readonly timeout?: Duration;
  /** Which app's database: what `launch` or `connect` returned. */
  readonly app?: object;
}

/** A value that a workflow shows to the outside, under a key. */
export interface Event<T> {
  readonly key: string;
  /** In a workflow or a step of it: sets the value, or replaces it. */
  set(value: T): Promise<void>;
  /** The value that a workflow has set, once it has. `undefined` if it does not in time, or ends without. */
  get(workflowId: string, options?: GetOptions): Promise<T | undefined>;
}

const setName = 'DBOS.setEvent';
const getName = 'DBOS.getEvent';
const defaultTimeoutMs = 60_000;

/** Defines an event. */
export function event<T>(key: string, options: EventOptions = {}): Event<T> {
  const what = `Event "${checkOwnName('The key of an event', key)}"`;
  checkKnownOptions(what, options, ['serialization', 'maxValueBytes']);
  checkMaxValueBytes(what, options.maxValueBytes);
  checkSerialization(what, options.serialization);
  return {
    key,
    set: (value, ...more: unknown[]) => {
      refuseOptions(`set() of ${what}`, more);
      return set({ what, key, options }, value);
    },
    get: (workflowId, rest = {}) => get({ what, key, options }, workflowId, rest) as Promise<T | undefined>,
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
    throw new HoldfastError('NOT_IN_WORKFLOW', `${what} can be set only by a workflow, or in a step of it.`);
  }
  const { execution, step } = scope;
  const codec = codecFor(execution.engine, options.serialization, execution);
  const encode = () => codec.encode(value, `The value of ${what}`, options.maxValueBytes);
  const inTurn = (stepNumber: number) =>
    doneInCallOrder(
      execution,
      lineOf(key),
      async () => encode(),
      (text) => setNow(execution, { stepNumber, key, value: text, serialization: codec.name }),
    );
  if (step) {
    const setting = setInStep(what, step, () => inTurn(step.stepNumber));
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
 * What is set in an attempt that succeeds is there before its step is over, also if nobody awaits it: what the workflow
 * sets next comes later.
 */
async function setInStep(what: string, step: StepScope, inTurn: () => Promise<void>): Promise<void> {
  const { effects } = step;
  if (!effects) {
    throw new HoldfastError(
      'UNSUPPORTED_CALL',
      `${what} cannot be set here: the step has ended (await what it does), or it is a transaction, after which the ` +
        'workflow itself can set it.',
    );
  }
  const setting = inTurn();
  const over = setting.then(
    () => undefined,
    () => undefined,
  );
  effects.push(over);
  try {
    await setting;
  } finally {
    // A step may run for days and set its progress all the time: only what is under way is kept.
    if (step.effects) void effects.splice(effects.lastIndexOf(over), 1);
  }
}

/** From a step it is set at once, for those who watch its progress, and again with each attempt. */
async function setNow(
  execution: Execution,
  event: { readonly stepNumber: number; readonly key: string; readonly value: string; readonly serialization: string },
): Promise<void> {
  const { engine, claim } = execution;
  const { workflowId, owner } = claim;
  if (!execution.running) return execution.refuse();
  const set = () => engine.storage.events.set({ workflowId, owner, ...event });
  const landed = await engine.untilAnswered('Setting an event', set);
  if (!landed) {
    // Not ours any more. Found out here, perhaps before any other way: the step must not wait for ever.
    const [now] = await engine.storage.workflows.get([workflowId]);
    engine.superseded(workflowId, owner, { owner: now?.owner ?? null, status: now?.status });
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
  const sought = seekEvent(engine, workflowId, own.key, absence, true);
  const stored = await whileWaiting(foundWithin(engine, timeoutMs, sought));
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
  const timer = reserve(execution, sleepName);
  return onceAt(execution, stepNumber, getName, async () => {
    const startedAt = execution.engine.clock.now();
    const absence: Absence = {};
    const sought = seekEvent(engine, workflowId, own.key, absence);
    try {
      const stored = await foundBefore(execution, { stepNumber: timer, timeoutMs, startedAt }, sought);
      if (absence.isAbsent) warnOfAbsent(engine, own, workflowId);
      return await valueOutcome(execution, startedAt, stored, engine);
    } catch (error) {
      return brokenOff(execution, startedAt, engine, error);
    }
  });
}

/** Whether the workflow did not exist at the last look. */
interface Absence {
  isAbsent?: boolean;
}

/** It may have been about to begin, which is no error; but an ID that is wrong looks the same to the caller. */
function warnOfAbsent(engine: Engine, { what, key }: EventParts, workflowId: string): void {
  engine.warnOnce(
    `event of nobody ${key}`,
    `get() of ${what} has waited for a workflow with the ID "${workflowId}", which does not exist, and returned undefined. ` +
      'Check the ID.',
  );
}

/** Found with no value: the workflow has ended without setting it, for good. */
function seekEvent(
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
