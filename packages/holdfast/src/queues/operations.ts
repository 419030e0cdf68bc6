import type { Engine } from '../engine/engine.js';
import { unknownQueue } from '../engine/queue/queue-cache.js';
import { HoldfastError } from '../model/errors.js';
import { checkKnownOptions, misplacedOption, refusingOptions } from '../model/options.js';
import {
  checkQueueName,
  checkSettings,
  queue as defineQueue,
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

/** A queue as it is stored. */
export interface QueueInfo extends LimitInfo {
  readonly name: string;
  /** The app it belongs to; undefined: to every app of the database. */
  readonly appName: string | undefined;
  readonly partition: LimitInfo | undefined;
  readonly priority: boolean;
  readonly whileWaiting: WhileWaiting;
  readonly paused: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** A queue with what is on it at the moment. */
export interface QueueStatus extends QueueInfo {
  /** Workflows that wait for their turn, or for a process that can run them. */
  readonly waiting: number;
  /** Workflows that hold a slot, of whichever process. */
  readonly running: number;
  /** Workflows that only wait and have given their slot back (`whileWaiting: 'release'`). */
  readonly suspended: number;
  /** Workflows whose delay is not over. */
  readonly delayed: number;
}

export interface LimitInfo {
  readonly concurrency: number | undefined;
  readonly workerConcurrency: number | undefined;
  readonly rateLimit: RateLimit | undefined;
}

/** What to change of a queue: what is left out stays, and `null` takes a limit away. */
export interface QueueChanges {
  readonly concurrency?: number | null;
  readonly workerConcurrency?: number | null;
  readonly rateLimit?: RateLimit | null;
  readonly partition?: Omit<QueueChanges, 'partition' | 'priority' | 'whileWaiting'> | null;
  readonly priority?: boolean;
  readonly whileWaiting?: WhileWaiting;
}

/** `app.queues`: queues as they are stored. Every process that works on them notices a change at once. */
export interface QueueOperations {
  /** Stores a queue; one that is there already is changed as its `onConflict` says. */
  register(queue: Queue | string, options?: QueueOptions): Promise<QueueInfo>;
  /** With the number of workflows on it. Takes the longer the more of them there are: tens of milliseconds per 100,000. */
  get(name: string): Promise<QueueStatus | undefined>;
  /** All queues, in one statement, like `get`. */
  list(): Promise<QueueStatus[]>;
  update(name: string, changes: QueueChanges): Promise<QueueInfo>;
  /** Nothing more is taken from the queue once this resolves; what runs goes on, and enqueueing too. */
  pause(name: string): Promise<QueueInfo>;
  resume(name: string): Promise<QueueInfo>;
  /** Refused while unfinished workflows are on the queue. */
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
        throw misplacedOption('register()', 'options', 'must be left out: what queue() returns has its own');
      }
      const queue = isQueue(given) ? given : defineQueue(given, options);
      const [stored] = await register(engine, [queue]);
      if (!stored) throw unknownQueue(queue.name, []);
      return toInfo(stored);
    },
    get: async (name) => {
      const [found] = await storage.queues.counted(checkQueueName(name));
      return found && toStatus(found);
    },
    list: async () => (await storage.queues.counted(null)).map(toStatus),
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
  return refusingOptions(operations, { get: 1, list: 0, pause: 1, resume: 1, delete: 1 });
}

/** Before a launch writes anything: one that is going to fail must not become the latest version first. */
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
    `Queue "${stored.name}" belongs to the app "${stored.appName}", so "${appName}" cannot register it. Choose another name.`,
    { details: { name: stored.name, owner: stored.appName } },
  );
}

/** Stores the queues that an app is launched with. */
export async function registerQueues(engine: Engine, queues: readonly Queue[]): Promise<void> {
  await register(engine, queues);
}

/** In one statement for each policy, however many queues there are. */
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
      if (wanted && !sameSettings(each.settings, wanted.settings)) noteOtherSettings(engine, each.name, policy);
    }
    all.push(...stored);
  }
  if (all.length > 0) changed(engine, all);
  return all;
}

function noteOtherSettings(engine: Engine, name: string, policy: Queue['onConflict']): void {
  const why = policy === 'never' ? "its onConflict is 'never'" : 'this process does not run the latest version';
  engine.logger.info(`Queue "${name}" keeps the settings that are stored, because ${why}.`);
}

function sameSettings(a: QueueSettings, b: QueueSettings): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Read, change, and write only if nobody else has changed it since; else from the beginning. */
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
    changed(engine, [stored]);
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
      `Queue "${name}" has ${count} unfinished ${count === 1 ? 'workflow' : 'workflows'}, which would wait for ever ` +
        'without it. Let them end or cancel them, then delete it; pause() stops it meanwhile.',
      { details: { name, count } },
    );
  }
  await afterChange(() => queueCache.refresh()).finally(() => news.announce('queues'));
}

function changed(engine: Engine, queues: readonly QueueRecord[]): void {
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
