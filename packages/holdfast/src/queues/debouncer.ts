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
import { type Startable, startableByName } from '../engine/start/workflow-row.js';
import { duplicateError } from '../engine/write/enqueue-writer.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { describeError, HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { checkKnownOptions, invalidOption, wrongOption } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import { internalQueue } from '../model/queues.js';
import { plainKey, sameKey, type WorkflowKey } from '../model/workflow-key.js';
import type { DebouncedWorkflow } from '../storage/contract/storage.js';

export interface DebouncerOptions {
  /**
   * The longest time that calls can postpone a run, counted from the first call. Default: no limit, so a run is
   * postponed until the calls stop.
   */
  readonly timeout?: Duration;
  /** The options with which the workflow is started, such as its queue and priority. */
  readonly start?: Omit<StartOptions, 'id' | 'delay' | 'dedupId' | 'onDuplicate' | 'app'>;
  /** The app or client that starts the workflow. Required if the workflow is given by name. */
  readonly app?: object;
}

/** Turns a burst of calls into one run of a workflow, with the arguments of the last call. */
export interface Debouncer<Args extends unknown[], Result> {
  /**
   * Runs the workflow when no call with the same key has arrived for `delay`. Each call replaces the arguments and
   * restarts the delay. Different keys are independent. Resolves with a handle to the run that this call belongs to.
   *
   * @example
   * const reindex = debouncer(indexDocument);
   * await reindex.debounce('doc-7', '5s', 'first draft');
   * const handle = await reindex.debounce('doc-7', '5s', 'second draft'); // the same run
   * await handle.result(); // indexDocument('second draft') ran once, 5 s after the last call
   */
  debounce(key: string, delay: Duration, ...args: Args): Promise<WorkflowHandle<Result>>;
}

const optionNames = ['timeout', 'start', 'app'];
/** DBOS records a debounced start under this name. */
const stepName = 'DBOS.debounceDelayedWorkflow';

/**
 * Defines a debouncer, which turns a burst of calls into one run of a workflow. The workflow is a value, or its name
 * if the debouncer uses a client. Debouncers of the same workflow share their keys.
 *
 * Inside a workflow, `debounce` is recorded as a step: a replay returns the same run and does not postpone it again.
 *
 * @example
 * const reindex = debouncer(indexDocument, { timeout: '1m', start: { queue: 'indexing' } });
 *
 * // Runs 5 s after the last edit, or 1 min after the first.
 * await reindex.debounce(`doc-${id}`, '5s', id);
 */
export function debouncer<Args extends unknown[], Result>(
  workflow: Workflow<Args, Result>,
  options?: DebouncerOptions,
): Debouncer<Args, Result>;
/**
 * Defines a debouncer for a workflow that is given by name. Requires the option `app`.
 *
 * @example
 * const client = await connect({ database, name: 'shop' });
 * const reindex = debouncer('index document', { app: client });
 * await reindex.debounce('doc-7', '5s', 'doc-7');
 */
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
    if (option in start) throw wrongOption(what, `start.${option}`, 'must be left out: the debouncer sets it');
  }
  const timeoutMs = timeout === undefined ? null : parseDuration(timeout, `${what}: "timeout"`);
  return {
    debounce: (key, delay, ...args) =>
      rejecting('debounce()', () => {
        checkName('The key of a debouncer', key);
        const delayMs = parseDuration(delay, `${what}: the delay`);
        const execution = currentExecution();
        if (execution) checkSameApp(what, execution, options);
        const { engine, workflow } = execution ? target.inEngine(execution.engine) : target.outside();
        const call: Call = { target: workflow, start, key, delayMs, timeoutMs, args };
        return execution ? debounceInside(execution, call) : debounceOutside(engine, call);
      }),
  };
}

/** The workflow to debounce. Each call resolves it again, because another app may run by then. */
interface Target {
  readonly name: string;
  /** Resolves the workflow in the engine of the calling workflow. */
  inEngine(engine: Engine): ResolvedTarget;
  /** Resolves the workflow for a call from outside of workflows. */
  outside(): ResolvedTarget;
}

interface ResolvedTarget {
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
    const inEngine = (engine: Engine) => ({ engine, workflow: startableByName(plainKey(name)) });
    return { name, inEngine, outside: () => inEngine(engineOfApp(name, options)) };
  }
  const own = workflowInternals(workflow);
  if (!own) throw invalidOption('debouncer()', 'workflow', workflow, 'the result of workflow(), or a name');
  const { definition } = own;
  const inEngine = (engine: Engine) => ({ engine, workflow: registeredIn(engine, definition) ?? definition });
  const outside = (): ResolvedTarget => {
    if (options.app !== undefined) return inEngine(engineOfApp(definition.name, options));
    const found = callTarget(definition, {});
    return { engine: found.engine, workflow: found.definition };
  };
  return { name: definition.name, inEngine, outside };
}

function engineOfApp(name: string, { app }: DebouncerOptions): Engine {
  const engine = engineOf(app);
  if (engine) return engine;
  const problem =
    app === undefined
      ? 'the option "app" is missing, and a workflow that is given by name requires it'
      : 'the option "app" is neither an app nor a client';
  throw new HoldfastError(
    'NOT_LAUNCHED',
    `A debouncer of workflow "${name}": ${problem}. Give the object that launch() or connect() returned.`,
    { details: { name } },
  );
}

async function debounceOutside(engine: Engine, call: Call): Promise<WorkflowHandle> {
  engine.lifecycle.checkOpen();
  return createHandle(engine, await debounceCall(engine, call, null, undefined));
}

/**
 * A run that is debounced in a workflow is a child of that workflow. Both must have the same database and app: the
 * child is cancelled with its parent, and replays of the parent find the child by its ID.
 */
function checkSameApp(what: string, { engine }: Execution, { app }: DebouncerOptions): void {
  if (app === undefined || engineOf(app) === engine) return;
  throw new HoldfastError(
    'UNSUPPORTED_CALL',
    `${what} has a different "app" from the workflow that calls debounce(). A run that is debounced in a workflow ` +
      'is a child of that workflow and runs in the same app. Leave out "app", or call debounce() in a step.',
  );
}

/** Records the call like the start of a child. A replay returns the same run and does not postpone it again. */
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
  return inCallOrder(engine, `${row.queueName} ${dedupId}`, () => {
    // The delay begins when the call is sent. Otherwise the time spent behind earlier calls would shorten the delay.
    const now = engine.clock.now();
    const times = { createdAt: now, delayUntil: now + delayMs, debounceTimeoutMs: timeoutMs };
    return store(engine, { ...row, ...times, dedupId });
  });
}

/**
 * The ID is encoded as JSON, so that different names and keys never give the same ID, whatever characters they contain.
 */
function dedupIdOf({ name, className, configName }: WorkflowKey, key: string): string {
  const method = className === null ? [] : [className, configName];
  return `debounce:${JSON.stringify([...method, name, key])}`;
}

const lastCalls = processWide('debouncers', () => new WeakMap<Engine, Map<string, Promise<unknown>>>());

/** Sends the calls of one process with the same key to the database in the order in which they were made. */
function inCallOrder<T>(engine: Engine, key: string, work: () => Promise<T>): Promise<T> {
  const calls = lastCalls.get(engine) ?? new Map<string, Promise<unknown>>();
  lastCalls.set(engine, calls);
  const result = (calls.get(key) ?? Promise.resolve()).then(work, work);
  const settled = result.then(
    () => {},
    () => {},
  );
  calls.set(key, settled);
  void settled.then(() => {
    if (calls.get(key) === settled) calls.delete(key);
  });
  return result;
}

async function store(engine: Engine, row: DebouncedWorkflow): Promise<string> {
  const { storage } = engine;
  const attempt = () => storage.queues.debounce(row);
  const isOutside = currentExecution() === undefined;
  try {
    for (;;) {
      const stored = await engine.untilAnswered('Debouncing a workflow', attempt, isOutside);
      engine.lifecycle.checkOpen();
      if (stored) {
        engine.news.announce('delays');
        return stored.workflowId;
      }
      // Without an obstacle, the workflow that held the key has ended since: try again.
      await checkObstacle(engine, row);
    }
  } catch (error) {
    if (storage.classify(error) !== 'refused') throw error;
    // The ID may be taken by this very call: its first answer was lost, and the run began before the repetition.
    const [own] = await storage.workflows.get([row.workflowId]);
    if (!own || !sameKey(own, row)) throw refusal(row.name, error);
    return row.workflowId;
  }
}

function refusal(name: string, cause: unknown): HoldfastError {
  const message = `The database refused to debounce workflow "${name}": ${describeError(cause)}.`;
  return new HoldfastError('STORAGE_REFUSED', message, { cause });
}

/** Throws if the queue does not exist, or if another workflow holds the key. */
async function checkObstacle(engine: Engine, row: DebouncedWorkflow): Promise<void> {
  const { queueName, dedupId } = row;
  const [holder] = await engine.storage.queues.holders([{ queueName, dedupId }]);
  if (holder) throw duplicateError(row, holder);
  if (queueName === internalQueue) return;
  await engine.queueCache.refresh();
  await engine.queueCache.require(queueName);
}
