import { parseDuration } from '../../model/duration.js';
import type { HoldfastError } from '../../model/errors.js';
import { invalidOption, misplacedOption } from '../../model/options.js';
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
import { checkArguments, checkSame, commonRow, type Startable } from './workflow-row.js';

/** Most workflows that one call of `startAll` enqueues: they become one statement. */
const largestBatch = 100_000;

/** Puts a workflow on a queue. Resolves with its ID, or that of the one it is a duplicate of, once it is durable. */
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
    engine.superseded(parent.workflowId, parent.claim.owner, enqueued.by);
    return parent.refuse();
  }
  // Also when it is there already: the call may be the repetition of one that could not tell.
  if (enqueued.is === 'created' || enqueued.is === 'existing') engine.news.announce(newsOf(row));
  return idOf(engine, row, options, enqueued);
}

/** One of the workflows that are enqueued together. */
export interface BatchItem {
  readonly options: StartOptions;
  readonly args: readonly unknown[];
}

/** What `startAll` was given, checked. */
export function batchItems<Args extends readonly unknown[]>(
  name: string,
  options: StartOptions,
  inputs: readonly Args[],
  each: ((args: Args, index: number) => StartOptions) | undefined,
): BatchItem[] {
  const what = `startAll() of "${name}"`;
  if (!Array.isArray(inputs))
    throw invalidOption(what, 'inputs', inputs, 'a list of lists of arguments, as in [[1], [2]]');
  const odd = inputs.findIndex((args: unknown) => !Array.isArray(args));
  if (odd >= 0) throw invalidOption(what, `inputs[${odd}]`, inputs[odd], 'a list of arguments, as in [1]');
  if (each !== undefined && typeof each !== 'function') {
    throw invalidOption(what, 'each', each, 'a function that returns start options for one of the inputs');
  }
  if (inputs.length > largestBatch) {
    throw invalidOption(what, 'inputs', inputs.length, `at most ${largestBatch} in one call`);
  }
  checkStartOptionNames(name, options);
  return inputs.map((args, i) => {
    const own = each?.(args, i) ?? {};
    // Before they are spread: nothing of a promise would be left to refuse.
    checkStartOptionNames(name, own);
    const both = { ...options, ...own };
    checkStartOptionValues(name, both);
    return { args, options: both };
  });
}

/** Puts many workflows on queues, all or none, in one statement. */
export async function enqueueTogether(
  engine: Engine,
  workflow: Startable,
  items: readonly BatchItem[],
): Promise<string[]> {
  const rows = await Promise.all(items.map(({ options, args }) => enqueuedRow(engine, workflow, options, args, null)));
  checkDistinct(workflow, items, rows);
  let left = rows.map((row, i) => ({ row, options: items[i]?.options ?? {} }));
  const ids = new Map<EnqueuedWorkflow, string>();
  while (left.length > 0) {
    const enqueued = await engine.enqueueWriter.enqueueAll(left.map(({ row }) => row));
    for (const [i, { row, options }] of left.entries()) {
      const each = enqueued[i] as Enqueued;
      if (each.is !== 'left-out') ids.set(row, idOf(engine, row, options, each));
    }
    if (enqueued.every((each) => each.is === 'created' || each.is === 'existing')) break;
    // What was to give way to an existing workflow has; the others still go together.
    left = left.filter((_, i) => enqueued[i]?.is !== 'held');
  }
  const counts = new Map<Topic, number>();
  for (const topic of rows.map(newsOf)) counts.set(topic, (counts.get(topic) ?? 0) + 1);
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
        throw invalidOption(what, option, items[i]?.options[option], 'given to no other item of the batch');
      }
      seen[option].add(key);
    }
  }
}

/** What an enqueueing stores, checked against its queue. */
export async function enqueuedRow(
  engine: Engine,
  workflow: Startable,
  options: StartOptions,
  args: readonly unknown[],
  parent: Execution | null,
): Promise<EnqueuedWorkflow> {
  // Without a schema the arguments are encoded before anything is awaited: the caller may change them afterwards.
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

/** The queue, and whose workers are to take it from there. */
async function placeOf(
  engine: Engine,
  workflow: Pick<Startable, 'name'>,
  options: StartOptions,
): Promise<Pick<EnqueuedWorkflow, 'queueName' | 'appName' | 'version'>> {
  const what = `The start of workflow "${workflow.name}"`;
  const queueName = queueNameOf(what, options.queue);
  const own = engine.writer.appName === '' ? null : engine.writer.appName;
  // A process that does not work on the queue does not know at which version those are that do.
  const version = options.version ?? (engine.worksOn(queueName) ? engine.version : null);
  if (queueName === internalQueue) return { queueName, appName: own, version };
  const queue = await fittingQueue(engine, what, queueName, options);
  if (queue.appName === null || queue.appName === own) return { queueName, appName: own, version };
  // Another application's: its workers take it, at whatever version they are.
  if (own !== null)
    engine.warnOnce(
      `queue ${queueName}`,
      `Queue "${queueName}" belongs to the app "${queue.appName}": work runs there.`,
    );
  return { queueName, appName: queue.appName, version: options.version ?? null };
}

/** The queue, if what is to be put on it has what it asks for. */
export async function fittingQueue(
  engine: Engine,
  what: string,
  name: string,
  options: Pick<StartOptions, 'partition' | 'priority'>,
): Promise<QueueRecord> {
  const { queueCache } = engine;
  // In a workflow what fails goes on record as the outcome: that the database was out of reach must not be that.
  const refresh = async (): Promise<void> => {
    if (currentExecution()) await engine.untilAnswered('Reading the queues', () => queueCache.refresh());
    else await queueCache.refresh();
  };
  const queue = await queueCache.require(name, refresh);
  if (misfit(what, queue, options) === undefined) return queue;
  // It may have been changed a moment ago.
  await refresh();
  const now = await queueCache.require(name, refresh);
  const error = misfit(what, now, options);
  if (error) throw error;
  return now;
}

function misfit(
  what: string,
  queue: QueueRecord,
  options: Pick<StartOptions, 'partition' | 'priority'>,
): HoldfastError | undefined {
  const { name, settings } = queue;
  const { partition, priority } = options;
  if (settings.partition !== null && partition === undefined) {
    return misplacedOption(what, 'partition', `is missing: queue "${name}" is divided into partitions`);
  }
  if (settings.partition === null && partition !== undefined) {
    return misplacedOption(what, 'partition', `must be left out: queue "${name}" has no partitions`);
  }
  return priority === undefined ? undefined : priorityMisfit(what, queue);
}

/** Why a workflow of the queue cannot have a priority. */
export function priorityMisfit(what: string, { name, settings }: QueueRecord): HoldfastError | undefined {
  if (settings.priority) return undefined;
  return misplacedOption(what, 'priority', `must be left out: queue "${name}" is set to { priority: false }`);
}

/** What became of an enqueueing, for its caller: the workflow's ID, or a typed error. */
export function idOf(engine: Engine, row: EnqueuedWorkflow, options: StartOptions, enqueued: Enqueued): string {
  if (enqueued.is === 'existing') checkSame(engine, row, row, enqueued.workflow);
  if (enqueued.is === 'queueless') throw unknownQueue(row.queueName, []);
  if (enqueued.is !== 'held') return row.workflowId;
  const { by } = enqueued;
  // Another workflow's handle would have the result of that, and this one would never run.
  if (options.onDuplicate === 'return-existing' && sameKey(by, row)) return by.workflowId;
  throw duplicateError({ ...row, dedupId: row.dedupId ?? '' }, by);
}

/** Who works on the queue is to look at it now. */
export function newsOf({ queueName, delayUntil }: Pick<EnqueuedWorkflow, 'queueName' | 'delayUntil'>): Topic {
  return delayUntil === null ? `queue:${queueName}` : 'delays';
}
