import { type Duration, parseDuration } from '../../model/duration.js';
import { checkName } from '../../model/ids.js';
import { checkKnownOptions, invalidOption, wrongOption } from '../../model/options.js';
import { checkPriority, checkQueueName, internalQueue, type Queue } from '../../model/queues.js';

/** Options of one start, as `with()`, `client.start` and debouncers take them. */
export interface StartOptions {
  /**
   * ID of the workflow, and its idempotency key: a second start with the same ID starts nothing and returns the first
   * workflow. Default: a new UUID.
   */
  readonly id?: string;
  /**
   * Queue on which the workflow waits for an executor, as a `Queue` or its name. Default: the workflow runs at once, in
   * this process.
   */
  readonly queue?: Queue | string;
  /** Order on the queue: workflows with a lower priority value run first. Default: 0, the first of all. */
  readonly priority?: number;
  /**
   * Deduplication ID. While an unfinished workflow on the queue has this ID, no other workflow with the same ID is
   * enqueued.
   */
  readonly dedupId?: string;
  /**
   * Behavior if an unfinished workflow already has the `dedupId`. `reject` (default) throws `QUEUE_DUPLICATE`.
   * `return-existing` returns a handle to that workflow, if it runs the same workflow function.
   */
  readonly onDuplicate?: 'reject' | 'return-existing';
  /** Partition of the queue that the workflow belongs to. Required on a queue with partitions. */
  readonly partition?: string;
  /** Delay before the workflow is enqueued. The status is DELAYED until then. */
  readonly delay?: Duration;
  /**
   * Time limit from start to completion, instead of the workflow's own `timeout`. `null`: no limit, and a child is
   * detached from its parent.
   */
  readonly timeout?: Duration | null;
  /**
   * `true`: the parent's deadline and a cancellation of the parent do not reach this child. The child's own `timeout`
   * still applies.
   */
  readonly detached?: boolean;
  /**
   * Version of the app that runs the workflow. Default: the version of this process, or the latest version if this
   * process does not work on the queue.
   */
  readonly version?: string;
  /** App that runs the workflow, if several apps run in this process. */
  readonly app?: object;
  /** Key-value pairs stored with the workflow as JSON. `status()` and lists show them. */
  readonly attributes?: Readonly<Record<string, unknown>>;
  /** User on whose behalf the workflow runs. Children inherit the user. */
  readonly user?: string;
  /**
   * Roles of the user, checked against `requireRole`. Children inherit the roles unless their start names another user.
   */
  readonly roles?: readonly string[];
}

const startOptionNames = [
  'id',
  'queue',
  'priority',
  'dedupId',
  'onDuplicate',
  'partition',
  'delay',
  'timeout',
  'detached',
  'version',
  'app',
  'attributes',
  'user',
  'roles',
];

/** Checks the start options of one workflow, or throws a typed error. */
export function checkStartOptions(workflowName: string, options: StartOptions): void {
  checkStartOptionNames(workflowName, options);
  checkStartOptionValues(workflowName, options);
}

/**
 * Checks the options of `with()`, each value by itself. Combinations are checked later, because `startAll()` may add
 * options for each of its workflows.
 */
export function checkSomeStartOptions(workflowName: string, options: StartOptions): void {
  checkStartOptionNames(workflowName, options);
  checkEachValue(startOf(workflowName), options);
}

/** The part of {@link checkStartOptions} that checks the names of the options. */
export function checkStartOptionNames(workflowName: string, options: StartOptions): void {
  checkKnownOptions(startOf(workflowName), options, startOptionNames);
}

/** The part of {@link checkStartOptions} that checks the values, also in combination. */
export function checkStartOptionValues(workflowName: string, options: StartOptions): void {
  const what = startOf(workflowName);
  checkEachValue(what, options);
  checkTogether(what, options);
}

function checkEachValue(what: string, options: StartOptions): void {
  if (options.id !== undefined) checkName('A workflow ID', options.id);
  if (options.user !== undefined) checkName('A user', options.user);
  if (options.version !== undefined) checkName('A version', options.version);
  const { roles } = options;
  if (roles !== undefined && !(Array.isArray(roles) && roles.every((role) => typeof role === 'string'))) {
    throw invalidOption(what, 'roles', roles, 'a list of strings');
  }
  checkDetached(what, options);
  checkQueueingValues(what, options);
}

function checkDetached(what: string, { detached, timeout }: StartOptions): void {
  if (detached === undefined) return;
  if (typeof detached !== 'boolean') throw invalidOption(what, 'detached', detached, 'true or false');
  if (!detached && timeout === null) {
    throw wrongOption(what, 'detached', 'cannot be false with "timeout: null", which detaches a child');
  }
}

/** Returns true if the deadline and a cancellation of the parent do not reach the child. */
export function isDetached({ detached, timeout }: StartOptions): boolean {
  return detached === true || timeout === null;
}

function startOf(workflowName: string): string {
  return `The start of workflow "${workflowName}"`;
}

/** The part of {@link checkStartOptions} that checks the options for queues. */
export function checkQueueing(what: string, options: StartOptions): void {
  checkQueueingValues(what, options);
  checkTogether(what, options);
}

function checkQueueingValues(what: string, options: StartOptions): void {
  const { queue, priority, dedupId, onDuplicate, partition, delay } = options;
  if (queue !== undefined) queueNameOf(what, queue);
  if (priority !== undefined) checkPriority(what, priority);
  if (dedupId !== undefined) checkName('A deduplication ID', dedupId);
  if (partition !== undefined) checkName('A partition key', partition);
  if (delay !== undefined) parseDuration(delay, `${what}: "delay"`);
  if (onDuplicate !== undefined && onDuplicate !== 'reject' && onDuplicate !== 'return-existing') {
    throw invalidOption(what, 'onDuplicate', onDuplicate, '"reject" or "return-existing"');
  }
}

/** The part of {@link checkStartOptions} that {@link checkSomeStartOptions} leaves out. */
export function checkStartOptionsTogether(workflowName: string, options: StartOptions): void {
  checkTogether(startOf(workflowName), options);
}

/** Refuses an option without the other option that it depends on. */
function checkTogether(what: string, { queue, priority, dedupId, onDuplicate, partition }: StartOptions): void {
  if (onDuplicate !== undefined && dedupId === undefined) {
    throw wrongOption(what, 'onDuplicate', 'must be given together with "dedupId"');
  }
  for (const [option, value] of Object.entries({ priority, partition })) {
    if (value !== undefined && queue === undefined) throw wrongOption(what, option, 'must be given with a "queue"');
  }
}

/** Returns the name of the queue of a start; the internal queue if the start names none. */
export function queueNameOf(what: string, queue: StartOptions['queue']): string {
  if (queue === undefined) return internalQueue;
  if (typeof queue === 'string') return checkQueueName(queue);
  if (typeof queue === 'object' && queue !== null && typeof queue.name === 'string') return checkQueueName(queue.name);
  throw invalidOption(what, 'queue', queue, 'a Queue from queue(), or the name of a queue');
}

/** Returns whether a start waits on a queue instead of running here at once. */
export function isQueued(options: StartOptions, version: string | null): boolean {
  const { queue, delay, dedupId } = options;
  const elsewhere = options.version !== undefined && options.version !== version;
  return queue !== undefined || delay !== undefined || dedupId !== undefined || elsewhere || version === null;
}
