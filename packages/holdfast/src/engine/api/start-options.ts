import { type Duration, parseDuration } from '../../model/duration.js';
import { checkName } from '../../model/ids.js';
import { checkKnownOptions, invalidOption, misplacedOption } from '../../model/options.js';
import { checkPriority, checkQueueName, internalQueue, type Queue } from '../../model/queues.js';

/** How a workflow is started. */
export interface StartOptions {
  /** The workflow's ID, and its idempotency key: a second start under it is the first one. Default: a new UUID. */
  readonly id?: string;
  /** Where it waits for its turn, by value or name. Default: it runs at once, in this process. */
  readonly queue?: Queue | string;
  /** Lower ones first (default 0, before all others). */
  readonly priority?: number;
  /** While an unfinished workflow on the queue has it, no other one with it is enqueued. */
  readonly dedupId?: string;
  /** What a start is that meets its `dedupId`: a typed error (default), or the workflow that has it. */
  readonly onDuplicate?: 'reject' | 'return-existing';
  /** Which partition of the queue it belongs to. */
  readonly partition?: string;
  /** How long it waits before it takes its place in the queue. */
  readonly delay?: Duration;
  /** Start-to-completion, over the workflow's own default. `null`: none, and a child is detached from its parent. */
  readonly timeout?: Duration | null;
  /** `true`: neither the deadline nor a cancellation of its parent reaches a child. The child's own `timeout` holds. */
  readonly detached?: boolean;
  /** Which version of the app is to run it (default: this one). */
  readonly version?: string;
  /** Which of several running apps is to run it. */
  readonly app?: object;
  /** Key-values stored with the workflow, shown by `status()` and lists. */
  readonly attributes?: Readonly<Record<string, unknown>>;
  /** On whose behalf it runs; children inherit it. */
  readonly user?: string;
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

export function checkStartOptions(workflowName: string, options: StartOptions): void {
  checkStartOptionNames(workflowName, options);
  checkStartOptionValues(workflowName, options);
}

/** What `with()` is given, to which `startAll()` may add for each of its starts: each value is checked, by itself. */
export function checkSomeStartOptions(workflowName: string, options: StartOptions): void {
  checkStartOptionNames(workflowName, options);
  checkEachValue(startOf(workflowName), options);
}

/** The part of {@link checkStartOptions} that holds for some of the options as for all of them. */
export function checkStartOptionNames(workflowName: string, options: StartOptions): void {
  checkKnownOptions(startOf(workflowName), options, startOptionNames);
}

/** The part of {@link checkStartOptions} that takes all of the options. */
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
    throw invalidOption(what, 'roles', roles, 'a list of texts');
  }
  checkDetached(what, options);
  checkQueueingValues(what, options);
}

function checkDetached(what: string, { detached, timeout }: StartOptions): void {
  if (detached === undefined) return;
  if (typeof detached !== 'boolean') throw invalidOption(what, 'detached', detached, 'true or false');
  if (!detached && timeout === null) {
    throw misplacedOption(what, 'detached', 'cannot be false with "timeout: null", which detaches a child');
  }
}

/** Whether neither the deadline nor a cancellation of its parent is to reach a child. */
export function isDetached({ detached, timeout }: StartOptions): boolean {
  return detached === true || timeout === null;
}

function startOf(workflowName: string): string {
  return `The start of workflow "${workflowName}"`;
}

/** The part of {@link checkStartOptions} that is about queues. */
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

/** The part of {@link checkStartOptions} that is left when {@link checkSomeStartOptions} was done. */
export function checkStartOptionsTogether(workflowName: string, options: StartOptions): void {
  checkTogether(startOf(workflowName), options);
}

/** Options that mean something only beside another one. */
function checkTogether(what: string, { queue, priority, dedupId, onDuplicate, partition }: StartOptions): void {
  if (onDuplicate !== undefined && dedupId === undefined) {
    throw misplacedOption(what, 'onDuplicate', 'must be given together with "dedupId"');
  }
  for (const [option, value] of Object.entries({ priority, partition })) {
    if (value !== undefined && queue === undefined) throw misplacedOption(what, option, 'must be given with a "queue"');
  }
}

/** The name of the queue that a start asks for; the internal one when it asks for none. */
export function queueNameOf(what: string, queue: StartOptions['queue']): string {
  if (queue === undefined) return internalQueue;
  if (typeof queue === 'string') return checkQueueName(queue);
  if (typeof queue === 'object' && queue !== null && typeof queue.name === 'string') return checkQueueName(queue.name);
  throw invalidOption(what, 'queue', queue, 'what queue() returns, or its name');
}

/** Whether a start waits somewhere for its turn, instead of running here at once. */
export function isQueued(options: StartOptions, version: string | null): boolean {
  const { queue, delay, dedupId } = options;
  const elsewhere = options.version !== undefined && options.version !== version;
  return queue !== undefined || delay !== undefined || dedupId !== undefined || elsewhere || version === null;
}
