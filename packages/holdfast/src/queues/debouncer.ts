import { callTarget, registeredIn } from '../engine/api/call-target.js';
import { currentExecution } from '../engine/api/context.js';
import { createHandle, type WorkflowHandle } from '../engine/api/handle.js';
import { checkStartOptions, type StartOptions } from '../engine/api/start-options.js';
import { type Workflow, workflowInternals } from '../engine/api/workflow.js';
import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { rejecting } from '../engine/execution/rejecting.js';
import { engineOf } from '../engine/running-apps.js';
import { enqueuedRow } from '../engine/start/enqueue.js';
import { recordStart } from '../engine/start/start.js';
import { byName, type Startable } from '../engine/start/workflow-row.js';
import { duplicateError } from '../engine/write/enqueue-writer.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { describeError, HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions, invalidOption, misplacedOption } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import { internalQueue } from '../model/queues.js';
import { plainKey, sameKey, type WorkflowKey } from '../model/workflow-key.js';
import type { DebouncedWorkflow } from '../storage/contract/storage.js';

export interface DebouncerOptions {
  /** The longest that calls can put a run off, counted from the first of them. Default: as long as calls go on. */
  readonly timeout?: Duration;
  /** How the workflow is then started: its queue, priority and so on. */
  readonly start?: Omit<StartOptions, 'id' | 'delay' | 'dedupId' | 'onDuplicate' | 'app'>;
  /** The app, or client, to use; needed for a workflow that is given by its name. */
  readonly app?: object;
}

/** Turns a burst of calls into one run of a workflow, with the input of the last of them. */
export interface Debouncer<Args extends unknown[], Result> {
  /**
   * Runs the workflow once no call with this key has come for `delay`. Each call replaces the input and begins the wait
   * anew. Returns the handle of the run that this call belongs to. Keys do not affect each other.
   */
  debounce(key: string, delay: Duration, ...args: Args): Promise<WorkflowHandle<Result>>;
}

const optionNames = ['timeout', 'start', 'app'];
/** As DBOS names it. */
const stepName = 'DBOS.debounceDelayedWorkflow';

/** Defines a debouncer for a workflow, or (for a client) for the name of one. Several of one workflow share its keys. */
export function debouncer<Args extends unknown[], Result>(
  workflow: Workflow<Args, Result>,
  options?: DebouncerOptions,
): Debouncer<Args, Result>;
export function debouncer<Result = unknown>(workflow: string, options?: DebouncerOptions): Debouncer<unknown[], Result>;
export function debouncer(
  workflow: Workflow<unknown[], unknown> | string,
  options: DebouncerOptions = {},
): Debouncer<unknown[], unknown> {
  const target = targetOf(workflow, options);
  const what = `A debouncer of workflow "${target.name}"`;
  checkKnownOptions(what, options, optionNames);
  const { start = {}, timeout } = options;
  checkStartOptions(target.name, start);
  for (const option of ['id', 'delay', 'dedupId', 'onDuplicate', 'app']) {
    if (option in start)
      throw misplacedOption(what, `start.${option}`, 'must be left out: the debouncer decides on it');
  }
  const timeoutMs = timeout === undefined ? null : parseDuration(timeout, `${what}: "timeout"`);
  return {
    debounce: (key, delay, ...args) =>
      rejecting('debounce()', () => {
        checkName('The key of a debouncer', key);
        const delayMs = parseDuration(delay, `${what}: the delay`);
        const execution = currentExecution();
        if (execution) checkSameApp(what, execution, options);
        const { engine, workflow } = execution ? target.within(execution.engine) : target.outside();
        const call: Call = { target: workflow, start, key, delayMs, timeoutMs, args };
        return execution ? debounceInside(execution, call) : debounceOutside(engine, call);
      }),
  };
}

/** What to debounce, which is found anew in each call: by then another app may run. */
interface Target {
  readonly name: string;
  within(engine: Engine): Found;
  outside(): Found;
}

interface Found {
  readonly engine: Engine;
  readonly workflow: Startable;
}

interface Call {
  readonly target: Startable;
  readonly start: StartOptions;
  readonly key: string;
  readonly delayMs: number;
  readonly timeoutMs: number | null;
  readonly args: readonly unknown[];
}

function targetOf(workflow: Workflow<unknown[], unknown> | string, options: DebouncerOptions): Target {
  if (typeof workflow === 'string') {
    const name = checkName('A workflow name', workflow);
    const within = (engine: Engine) => ({ engine, workflow: byName(plainKey(name)) });
    return { name, within, outside: () => within(engineNamed(name, options)) };
  }
  const own = workflowInternals(workflow);
  if (!own) throw invalidOption('debouncer()', 'workflow', workflow, 'what workflow() returns, or a name');
  const { definition } = own;
  const within = (engine: Engine) => ({ engine, workflow: registeredIn(engine, definition) ?? definition });
  const outside = (): Found => {
    if (options.app !== undefined) return within(engineNamed(definition.name, options));
    const found = callTarget(definition, {});
    return { engine: found.engine, workflow: found.definition };
  };
  return { name: definition.name, within, outside };
}

function engineNamed(name: string, { app }: DebouncerOptions): Engine {
  const engine = engineOf(app);
  if (engine) return engine;
  const given =
    app === undefined ? 'a workflow that is given by its name needs it' : 'what launch() or connect() returned';
  throw new HoldfastError('NOT_LAUNCHED', `A debouncer of workflow "${name}": give the option "app": ${given}.`, {
    details: { name },
  });
}

async function debounceOutside(engine: Engine, call: Call): Promise<WorkflowHandle> {
  engine.checkOpen();
  return createHandle(engine, await debounceCall(engine, call, null, undefined));
}

/** The run is a child of the workflow: cancelled with it, and looked for by its replays, in one database and app. */
function checkSameApp(what: string, { engine }: Execution, { app }: DebouncerOptions): void {
  if (app === undefined || engineOf(app) === engine) return;
  throw new HoldfastError(
    'UNSUPPORTED_CALL',
    `${what} was given an "app" that is not the one of the workflow that calls it: a run that is debounced in a workflow is its child, ` +
      'and runs in the same app. Leave out "app", or call debounce() in a step.',
  );
}

/** On record like a child: a replay gets the run that the call belonged to, and does not put it off again. */
function debounceInside(execution: Execution, call: Call): Promise<WorkflowHandle> {
  const { engine } = execution;
  const stepNumber = execution.takeStepNumber();
  const id = execution.childId(stepNumber);
  const started = recordStart(execution, stepNumber, stepName, () => debounceCall(engine, call, execution, id), engine);
  const handle = started.then((workflowId) => createHandle(engine, workflowId));
  return execution.calls.follow(stepName, stepNumber, handle);
}

async function debounceCall(
  engine: Engine,
  call: Call,
  parent: Execution | null,
  id: string | undefined,
): Promise<string> {
  const { target, key, delayMs, timeoutMs } = call;
  const dedupId = dedupIdOf(target, key);
  const options = { ...call.start, delay: delayMs, dedupId, ...(id !== undefined && { id }) };
  const { parentOwner: _, ...row } = await enqueuedRow(engine, target, options, call.args, parent);
  return inTurn(engine, `${row.queueName} ${dedupId}`, () => {
    // The wait begins when its turn comes: calls that queue up here would otherwise wait for each other's time as well.
    const now = engine.clock.now();
    const times = { createdAt: now, delayUntil: now + delayMs, debounceTimeoutMs: timeoutMs };
    return store(engine, { ...row, ...times, dedupId });
  });
}

/** Unambiguous, whatever characters names and key are made of. */
function dedupIdOf({ name, className, configName }: WorkflowKey, key: string): string {
  const method = className === null ? [] : [className, configName];
  return `debounce:${JSON.stringify([...method, name, key])}`;
}

const turns = processWide('debouncers', () => new WeakMap<Engine, Map<string, Promise<unknown>>>());

/** Calls of one process under one key reach the database in the order in which they were made. */
function inTurn<T>(engine: Engine, key: string, work: () => Promise<T>): Promise<T> {
  const own = turns.get(engine) ?? new Map<string, Promise<unknown>>();
  turns.set(engine, own);
  const result = (own.get(key) ?? Promise.resolve()).then(work, work);
  const settled = result.then(
    () => {},
    () => {},
  );
  own.set(key, settled);
  void settled.then(() => {
    if (own.get(key) === settled) own.delete(key);
  });
  return result;
}

async function store(engine: Engine, row: DebouncedWorkflow): Promise<string> {
  const { storage } = engine;
  const attempt = () => storage.workflows.debounce(row);
  const isOutside = currentExecution() === undefined;
  try {
    for (;;) {
      const stored = await engine.untilAnswered('Debouncing a workflow', attempt, isOutside);
      engine.checkOpen();
      if (stored) {
        engine.news.announce('delays');
        return stored.workflowId;
      }
      // Unless it is the queue that is missing, or the key is held, what held it has ended since.
      await checkObstacle(engine, row);
    }
  } catch (error) {
    if (storage.classify(error) !== 'refused') throw error;
    // Its own ID is taken: an answer was lost, and by the time the statement was repeated the run had begun.
    const [own] = await storage.workflows.get([row.workflowId]);
    if (!own || !sameKey(own, row)) throw refusal(row.name, error);
    return row.workflowId;
  }
}

function refusal(name: string, cause: unknown): HoldfastError {
  const message = `The database refused to debounce workflow "${name}": ${describeError(cause)}.`;
  return new HoldfastError('STORAGE_REFUSED', message, { cause });
}

async function checkObstacle(engine: Engine, row: DebouncedWorkflow): Promise<void> {
  const { queueName, dedupId } = row;
  const [holder] = await engine.storage.workflows.holders([{ queueName, dedupId }]);
  if (holder) throw duplicateError(row, holder);
  if (queueName === internalQueue) return;
  await engine.queueCache.refresh();
  await engine.queueCache.require(queueName);
}
