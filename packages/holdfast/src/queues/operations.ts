import type { Engine } from '../engine/engine.js';
import { unknownQueue } from '../engine/queue/queue-cache.js';
import { HoldfastError } from '../model/errors.js';
import { checkKnownOptions, rejectExtraOptions, wrongOption } from '../model/options.js';
import {
  checkQueueName,
  isQueue,
  type LimitSettings,
  type Queue,
  type QueueOptions,
  type QueueSettings,
  type RateLimit,
  type WhileWaiting,
} from '../model/queues.js';
import { afterChange } from '../storage/contract/failure.js';
import type { QueueCounts, QueueRecord } from '../storage/contract/queues.js';
import { checkSettings, queue as defineQueue } from './queue.js';

/** A queue as it is stored in the database. Instants are epoch milliseconds. */
export interface QueueInfo extends LimitInfo {
  readonly name: string;
  /** The app that the queue belongs to; undefined if the queue belongs to every app of the database. */
  readonly appName: string | undefined;
  /** The limits of each partition; undefined if the queue has no partitions. */
  readonly partition: LimitInfo | undefined;
  /** False if the queue is strictly first come, first served. */
  readonly priority: boolean;
  /** Defines whether a suspended workflow keeps its slot (`hold`) or gives the slot back (`release`). */
  readonly whileWaiting: WhileWaiting;
  readonly paused: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A queue as it is stored, with the number of unfinished workflows on it. */
export interface QueueStatus extends QueueInfo {
  /** Workflows that wait for a slot, or for a process that can run them. */
  readonly waiting: number;
  /** Workflows that hold a slot, in all processes together. */
  readonly running: number;
  /** Suspended workflows that have given their slot back (`whileWaiting: 'release'`). */
  readonly suspended: number;
  /** Workflows whose delay has not ended. */
  readonly delayed: number;
}

/** The limits of a queue or of each of its partitions; undefined means that there is no such limit. */
export interface LimitInfo {
  /** How many workflows run at once in all processes together. */
  readonly concurrency: number | undefined;
  /** How many workflows run at once in one process. */
  readonly workerConcurrency: number | undefined;
  /** How many workflows start per period in all processes together; `per` is in milliseconds. */
  readonly rateLimit: RateLimit | undefined;
}

/** Changes to a queue. Settings that are left out stay as they are, and `null` removes a limit. */
export interface QueueChanges {
  /** How many workflows run at once in all processes together. */
  readonly concurrency?: number | null;
  /** How many workflows run at once in one process. */
  readonly workerConcurrency?: number | null;
  /** How many workflows start per period in all processes together. */
  readonly rateLimit?: RateLimit | null;
  /** The limits of each partition. `{}` adds partitions without limits, and `null` removes the partitions. */
  readonly partition?: Omit<QueueChanges, 'partition' | 'priority' | 'whileWaiting'> | null;
  /** `false`: the queue is strictly first come, first served. */
  readonly priority?: boolean;
  /** Defines whether a suspended workflow keeps its slot (`hold`) or gives the slot back (`release`). */
  readonly whileWaiting?: WhileWaiting;
}

/** `app.queues`: reads and changes stored queues. Every process that works on a queue applies a change at once. */
export interface QueueOperations {
  /**
   * Stores a queue. If the queue exists, its `onConflict` option decides whether the stored settings change.
   *
   * @example
   * await app.queues.register('emails', {
   *   concurrency: 20,
   *   rateLimit: { max: 1000, per: '1m' },
   * });
   */
  register(queue: Queue | string, options?: QueueOptions): Promise<QueueInfo>;
  /**
   * Returns a queue with the number of workflows on it, or undefined if there is no such queue. Counting takes some
   * tens of milliseconds per 100,000 workflows.
   *
   * @example
   * const emails = await app.queues.get('emails');
   * console.log(emails?.waiting, emails?.running);
   */
  get(name: string): Promise<QueueStatus | undefined>;
  /**
   * Returns all queues with the number of workflows on each, in one statement.
   *
   * @example
   * for (const { name, waiting } of await app.queues.list()) {
   *   console.log(`${name}: ${waiting} workflows wait`);
   * }
   */
  list(): Promise<QueueStatus[]>;
  /**
   * Changes the settings of a queue. Settings that are left out stay as they are, and `null` removes a limit.
   *
   * @example
   * await app.queues.update('emails', { concurrency: 50, rateLimit: null });
   */
  update(name: string, changes: QueueChanges): Promise<QueueInfo>;
  /**
   * Pauses a queue. Once the promise resolves, no process claims work from the queue. Running workflows continue, and
   * workflows can still be enqueued.
   *
   * @example
   * await app.queues.pause('emails');
   * // ... repair the mail server ...
   * await app.queues.resume('emails');
   */
  pause(name: string): Promise<QueueInfo>;
  /**
   * Ends the pause of a queue.
   *
   * @example
   * await app.queues.resume('emails');
   */
  resume(name: string): Promise<QueueInfo>;
  /**
   * Deletes a queue. Rejects with `QUEUE_NOT_EMPTY` while unfinished workflows are on the queue.
   *
   * @example
   * await app.queues.delete('emails'); // all workflows on the queue have ended
   */
  delete(name: string): Promise<void>;
}

const changeNames = ['concurrency', 'workerConcurrency', 'rateLimit', 'partition', 'priority', 'whileWaiting'];

export function queueOperations(engine: Engine): QueueOperations {
  const { storage } = engine;
  const change = async (name: string, edit: (queue: QueueRecord) => Pick<QueueRecord, 'settings' | 'paused'>) =>
    changeQueue(engine, checkQueueName(name), edit);
  const operations: QueueOperations = {
    register: async (given, options) => {
      if (isQueue(given) && options !== undefined) {
        throw wrongOption('register()', 'options', 'must be left out: the result of queue() has its own options');
      }
      const queue = isQueue(given) ? given : defineQueue(given, options);
      const [stored] = await register(engine, [queue]);
      if (!stored) throw unknownQueue(queue.name, []);
      return toInfo(stored);
    },
    get: async (name) => {
      const [found] = await storage.queues.listWithCounts(checkQueueName(name));
      return found && toStatus(found);
    },
    list: async () => (await storage.queues.listWithCounts(null)).map(toStatus),
    update: async (name, changes) => {
      const what = `update() of queue "${name}"`;
      checkKnownOptions(what, changes, changeNames);
      return change(name, ({ settings, paused }) => ({
        settings: checkSettings(what, changes as QueueOptions, settings),
        paused,
      }));
    },
    pause: (name) => change(name, ({ settings }) => ({ settings, paused: true })),
    resume: (name) => change(name, ({ settings }) => ({ settings, paused: false })),
    delete: async (name) => remove(engine, checkQueueName(name)),
  };
  return rejectExtraOptions(operations, { get: 1, list: 0, pause: 1, resume: 1, delete: 1 });
}

/**
 * Throws if another app owns one of the queues. Runs before a launch writes anything, because a launch that fails must
 * not have made its version the latest.
 */
export async function checkQueueOwners(engine: Engine, queues: readonly Queue[]): Promise<void> {
  if (queues.length === 0) return;
  const stored = new Map((await engine.storage.queues.list()).map((queue) => [queue.name, queue]));
  for (const { name } of queues) checkOwner(engine, stored.get(name));
}

function checkOwner(engine: Engine, stored: QueueRecord | undefined): void {
  const { appName } = engine.writer;
  if (!stored || appName === '' || stored.appName === null || stored.appName === appName) return;
  throw new HoldfastError(
    'QUEUE_CONFLICT',
    `Queue "${stored.name}" belongs to the app "${stored.appName}", so "${appName}" cannot register it. ` +
      'Choose another name.',
    { details: { name: stored.name, owner: stored.appName } },
  );
}

/** Stores the queues that an app is launched with. */
export async function registerQueues(engine: Engine, queues: readonly Queue[]): Promise<void> {
  await register(engine, queues);
}

/** Stores queues with one statement per conflict policy, however many queues there are. */
async function register(engine: Engine, queues: readonly Queue[]): Promise<QueueRecord[]> {
  const { storage, clock, version, writer } = engine;
  const appName = writer.appName === '' ? null : writer.appName;
  const all: QueueRecord[] = [];
  for (const policy of new Set(queues.map((queue) => queue.onConflict))) {
    const given = new Map(queues.filter((queue) => queue.onConflict === policy).map((queue) => [queue.name, queue]));
    const stored = await storage.queues.register({
      queues: [...given.values()],
      policy,
      appName,
      version: version === '' ? null : version,
      now: clock.now(),
    });
    for (const each of stored) {
      checkOwner(engine, each);
      const wanted = given.get(each.name);
      if (wanted && !sameSettings(each.settings, wanted.settings)) logKeptSettings(engine, each.name, policy);
    }
    all.push(...stored);
  }
  if (all.length > 0) announceChange(engine, all);
  return all;
}

function logKeptSettings(engine: Engine, name: string, policy: Queue['onConflict']): void {
  const why = policy === 'never' ? "its onConflict is 'never'" : 'this process does not run the latest version';
  engine.logger.info(`Queue "${name}" keeps its stored settings, because ${why}.`);
}

function sameSettings(a: QueueSettings, b: QueueSettings): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Reads a queue and writes the change. Repeats both if another process has changed the queue in between. */
async function changeQueue(
  engine: Engine,
  name: string,
  edit: (queue: QueueRecord) => Pick<QueueRecord, 'settings' | 'paused'>,
): Promise<QueueInfo> {
  const { storage, clock } = engine;
  for (;;) {
    const queues = await storage.queues.list();
    const queue = queues.find((each) => each.name === name);
    if (!queue)
      throw unknownQueue(
        name,
        queues.map((each) => each.name),
      );
    const stored = await storage.queues.change({ queue, ...edit(queue), now: clock.now() });
    if (!stored) continue;
    announceChange(engine, [stored]);
    return toInfo(stored);
  }
}

async function remove(engine: Engine, name: string): Promise<void> {
  const { storage, queueCache, news } = engine;
  if (!(await storage.queues.remove(name))) {
    const queues = await storage.queues.list();
    if (!queues.some((queue) => queue.name === name))
      throw unknownQueue(
        name,
        queues.map((queue) => queue.name),
      );
    const count = await storage.queues.unfinished(name);
    throw new HoldfastError(
      'QUEUE_NOT_EMPTY',
      `Queue "${name}" has ${count} unfinished ${count === 1 ? 'workflow' : 'workflows'} and cannot be deleted. ` +
        'Wait until they have ended, or cancel them, then delete the queue. Until then, pause() stops the queue.',
      { details: { name, count } },
    );
  }
  await afterChange(() => queueCache.refresh()).finally(() => news.announce('queues'));
}

function announceChange(engine: Engine, queues: readonly QueueRecord[]): void {
  for (const queue of queues) engine.queueCache.put(queue);
  engine.news.announce('queues');
}

function toStatus({ waiting, running, suspended, delayed, ...queue }: QueueRecord & QueueCounts): QueueStatus {
  return { ...toInfo(queue), waiting, running, suspended, delayed };
}

function toInfo({ name, appName, settings, paused, createdAt, updatedAt }: QueueRecord): QueueInfo {
  return {
    name,
    appName: appName ?? undefined,
    ...toLimits(settings.limits),
    partition: settings.partition ? toLimits(settings.partition) : undefined,
    priority: settings.priority,
    whileWaiting: settings.whileWaiting,
    paused,
    createdAt,
    updatedAt,
  };
}

function toLimits({ concurrency, workerConcurrency, rateLimit }: LimitSettings): LimitInfo {
  return {
    concurrency: concurrency ?? undefined,
    workerConcurrency: workerConcurrency ?? undefined,
    rateLimit: rateLimit ? { max: rateLimit.max, per: rateLimit.perMs } : undefined,
  };
}
