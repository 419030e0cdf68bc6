import { parseDuration } from '../../model/duration.js';
import type { HoldfastError } from '../../model/errors.js';
import { invalidOption, wrongOption } from '../../model/options.js';
import { internalQueue } from '../../model/queues.js';
import { sameKey } from '../../model/workflow-key.js';
import type { QueueRecord } from '../../storage/contract/queues.js';
import type { EnqueuedWorkflow } from '../../storage/contract/storage.js';
import { currentExecution } from '../api/context.js';
import {
  checkStartOptionNames,
  checkStartOptionValues,
  isDetached,
  queueNameOf,
  type StartOptions,
} from '../api/start-options.js';
import type { Engine } from '../engine.js';
import type { Execution } from '../execution/execution.js';
import { unknownQueue } from '../queue/queue-cache.js';
import type { Topic } from '../wait/news.js';
import { duplicateError, type Enqueued } from '../write/enqueue-writer.js';
import { checkArguments, checkRepeatedStart, commonRow, type Startable } from './workflow-row.js';

/** Maximum number of workflows in one call of `startAll`, which enqueues them in one statement. */
const maxBatch = 100_000;

/**
 * Enqueues a workflow. Resolves once the row is committed, with the ID of the workflow or of the workflow that it
 * duplicates.
 */
export async function enqueueWorkflow(
  engine: Engine,
  workflow: Startable,
  options: StartOptions,
  args: readonly unknown[],
  parent: Execution | null,
): Promise<string> {
  const row = await enqueuedRow(engine, workflow, options, args, parent);
  const enqueued = await engine.enqueueWriter.enqueue(row);
  if (enqueued.is === 'superseded' && parent) {
    engine.executions.supersede(parent.workflowId, parent.claim.owner, enqueued.by);
    return parent.refuse();
  }
  // An existing workflow is announced too: this call may repeat an earlier call that committed the row and ended before
  // its notification.
  if (enqueued.is === 'created' || enqueued.is === 'existing') engine.news.announce(queueTopic(row));
  return enqueuedId(engine, row, options, enqueued);
}

/** One workflow of a batch. */
export interface BatchItem {
  readonly options: StartOptions;
  readonly args: readonly unknown[];
}

/** Checks the arguments of `startAll` and returns the items of the batch. */
export function batchItems<Args extends readonly unknown[]>(
  name: string,
  options: StartOptions,
  inputs: readonly Args[],
  each: ((args: Args, index: number) => StartOptions) | undefined,
): BatchItem[] {
  const what = `startAll() of "${name}"`;
  if (!Array.isArray(inputs))
    throw invalidOption(what, 'inputs', inputs, 'a list of argument lists, such as [[1], [2]]');
  const wrong = inputs.findIndex((args: unknown) => !Array.isArray(args));
  if (wrong >= 0) throw invalidOption(what, `inputs[${wrong}]`, inputs[wrong], 'a list of arguments, such as [1]');
  if (each !== undefined && typeof each !== 'function') {
    throw invalidOption(what, 'each', each, 'a function that returns start options for one of the inputs');
  }
  if (inputs.length > maxBatch) {
    throw invalidOption(what, 'inputs', inputs.length, `at most ${maxBatch} in one call`);
  }
  checkStartOptionNames(name, options);
  return inputs.map((args, i) => {
    const own = each?.(args, i) ?? {};
    // The check comes before the spread: spreading a promise, for example, yields no options, and the mistake would go
    // unnoticed.
    checkStartOptionNames(name, own);
    const merged = { ...options, ...own };
    checkStartOptionValues(name, merged);
    return { args, options: merged };
  });
}

/** Enqueues many workflows in one statement, all or none. */
export async function enqueueTogether(
  engine: Engine,
  workflow: Startable,
  items: readonly BatchItem[],
): Promise<string[]> {
  const rows = await Promise.all(items.map(({ options, args }) => enqueuedRow(engine, workflow, options, args, null)));
  checkDistinct(workflow, items, rows);
  let remaining = rows.map((row, i) => ({ row, options: items[i]?.options ?? {} }));
  const ids = new Map<EnqueuedWorkflow, string>();
  while (remaining.length > 0) {
    const enqueued = await engine.enqueueWriter.enqueueAll(remaining.map(({ row }) => row));
    for (const [i, { row, options }] of remaining.entries()) {
      const each = enqueued[i] as Enqueued;
      if (each.is !== 'left-out') ids.set(row, enqueuedId(engine, row, options, each));
    }
    if (enqueued.every((each) => each.is === 'created' || each.is === 'existing')) break;
    // An item is done if an existing workflow holds its deduplication ID: the item returns that workflow. The other
    // items still share one statement.
    remaining = remaining.filter((_, i) => enqueued[i]?.is !== 'held');
  }
  const counts = new Map<Topic, number>();
  for (const topic of rows.map(queueTopic)) counts.set(topic, (counts.get(topic) ?? 0) + 1);
  for (const [topic, count] of counts) engine.news.announce(topic, count);
  return rows.map((row) => ids.get(row) ?? row.workflowId);
}

function checkDistinct(workflow: Startable, items: readonly BatchItem[], rows: readonly EnqueuedWorkflow[]): void {
  const seen = { id: new Set<string>(), dedupId: new Set<string>() };
  for (const [i, { workflowId, queueName, dedupId }] of rows.entries()) {
    const keys = { id: workflowId, dedupId: dedupId === null ? undefined : JSON.stringify([queueName, dedupId]) };
    for (const [option, key] of Object.entries(keys) as [keyof typeof seen, string | undefined][]) {
      if (key === undefined) continue;
      if (seen[option].has(key)) {
        const what = `startAll() of "${workflow.name}", item ${i}`;
        throw invalidOption(what, option, items[i]?.options[option], 'different for each item of the batch');
      }
      seen[option].add(key);
    }
  }
}

/** Builds the row of an enqueued workflow and checks the row against its queue. */
export async function enqueuedRow(
  engine: Engine,
  workflow: Startable,
  options: StartOptions,
  args: readonly unknown[],
  parent: Execution | null,
): Promise<EnqueuedWorkflow> {
  // Without a schema, the arguments are encoded before the first await, because the caller may change them afterwards.
  const checked = workflow.input ? await checkArguments(workflow, options, args, parent) : args;
  const common = await commonRow(engine, workflow, options, checked, parent);
  const place = await placeOf(engine, workflow, options);
  const { priority = 0, dedupId = null, partition = null, delay } = options;
  return {
    ...common,
    ...place,
    priority,
    dedupId,
    partition,
    delayUntil: delay === undefined ? null : common.createdAt + parseDuration(delay, 'The delay of a start'),
    scheduleName: null,
    parentWorkflowId: parent?.workflowId ?? null,
    parentOwner: parent?.claim.owner ?? null,
    ...parent?.frontier.after,
    detached: isDetached(options),
  };
}

/** Returns the queue, and the app and version whose workers take the workflow from the queue. */
async function placeOf(
  engine: Engine,
  workflow: Pick<Startable, 'name'>,
  options: StartOptions,
): Promise<Pick<EnqueuedWorkflow, 'queueName' | 'appName' | 'version'>> {
  const what = `The start of workflow "${workflow.name}"`;
  const queueName = queueNameOf(what, options.queue);
  const own = engine.writer.appName === '' ? null : engine.writer.appName;
  // A process that does not work on the queue does not know the version of the processes that do.
  const version = options.version ?? (engine.worksOn(queueName) ? engine.version : null);
  if (queueName === internalQueue) return { queueName, appName: own, version };
  const queue = await requireMatchingQueue(engine, what, queueName, options);
  if (queue.appName === null || queue.appName === own) return { queueName, appName: own, version };
  // The queue belongs to another app. The workers of that app take the workflow, whatever their version.
  if (own !== null)
    engine.warnOnce(
      `queue ${queueName}`,
      `Queue "${queueName}" belongs to the app "${queue.appName}". Workflows on this queue run in that app.`,
    );
  return { queueName, appName: queue.appName, version: options.version ?? null };
}

/** Returns the queue if it accepts these options, or throws a typed error. */
export async function requireMatchingQueue(
  engine: Engine,
  what: string,
  name: string,
  options: Pick<StartOptions, 'partition' | 'priority'>,
): Promise<QueueRecord> {
  const { queueCache } = engine;
  // In a workflow, an error becomes the recorded outcome of the call. A database out of reach must not become that
  // outcome, so the read is repeated until the database answers.
  const refresh = async (): Promise<void> => {
    if (currentExecution()) await engine.untilAnswered('Reading the queues', () => queueCache.refresh());
    else await queueCache.refresh();
  };
  const queue = await queueCache.require(name, refresh);
  if (mismatch(what, queue, options) === undefined) return queue;
  // The cached settings may be out of date, so the queue is read again.
  await refresh();
  const current = await queueCache.require(name, refresh);
  const error = mismatch(what, current, options);
  if (error) throw error;
  return current;
}

function mismatch(
  what: string,
  queue: QueueRecord,
  options: Pick<StartOptions, 'partition' | 'priority'>,
): HoldfastError | undefined {
  const { name, settings } = queue;
  const { partition, priority } = options;
  if (settings.partition !== null && partition === undefined) {
    return wrongOption(what, 'partition', `is missing: queue "${name}" is divided into partitions`);
  }
  if (settings.partition === null && partition !== undefined) {
    return wrongOption(what, 'partition', `must be left out: queue "${name}" has no partitions`);
  }
  return priority === undefined ? undefined : priorityError(what, queue);
}

/**
 * Returns the error for a workflow with a priority on a queue without priorities. Undefined: the queue has priorities.
 */
export function priorityError(what: string, { name, settings }: QueueRecord): HoldfastError | undefined {
  if (settings.priority) return undefined;
  return wrongOption(what, 'priority', `must be left out: queue "${name}" is set to { priority: false }`);
}

/** Returns the workflow ID for the caller of an enqueue, or throws a typed error. */
export function enqueuedId(engine: Engine, row: EnqueuedWorkflow, options: StartOptions, enqueued: Enqueued): string {
  if (enqueued.is === 'existing') checkRepeatedStart(engine, row, row, enqueued.workflow);
  if (enqueued.is === 'queueless') throw unknownQueue(row.queueName, []);
  if (enqueued.is !== 'held') return row.workflowId;
  const { by } = enqueued;
  // A handle to a different workflow would return the result of that workflow, and the requested workflow would never
  // run.
  if (options.onDuplicate === 'return-existing' && sameKey(by, row)) return by.workflowId;
  throw duplicateError({ ...row, dedupId: row.dedupId ?? '' }, by);
}

/** Returns the topic that tells the workers of the queue to poll it now. */
export function queueTopic({ queueName, delayUntil }: Pick<EnqueuedWorkflow, 'queueName' | 'delayUntil'>): Topic {
  return delayUntil === null ? `queue:${queueName}` : 'delays';
}
