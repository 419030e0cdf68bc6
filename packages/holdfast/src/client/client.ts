import { codecsOf, type StoredErrorOptions } from '../codec/codec.js';
import { refuseInWorkflow } from '../engine/api/context.js';
import { createHandle } from '../engine/api/handle.js';
import { checkStartOptions, type StartOptions } from '../engine/api/start-options.js';
import { clockSync, databaseClock } from '../engine/database-clock.js';
import { rejecting } from '../engine/execution/rejecting.js';
import { Registry } from '../engine/registry.js';
import { attachEngine } from '../engine/running-apps.js';
import { Runtime } from '../engine/runtime.js';
import { batchItems, enqueueTogether, enqueueWorkflow } from '../engine/start/enqueue.js';
import { enqueueIn } from '../engine/start/enqueue-in-transaction.js';
import { type VersionOperations, versionOperations } from '../management/versions.js';
import { type WorkflowOperations, workflowOperations } from '../management/workflows.js';
import type { DatabaseOption } from '../model/database.js';
import { checkName } from '../model/ids.js';
import { checkLogger, type Logger } from '../model/logger.js';
import { checkKnownOptions, refuseOptions } from '../model/options.js';
import { didYouMean } from '../model/suggest.js';
import { type QueueOperations, queueOperations } from '../queues/operations.js';
import { clientKnowledge, listIncomplete } from '../recovery/incomplete.js';
import type { RecoveryOperations } from '../recovery/operations.js';
import { type ScheduleOperations, scheduleOperations } from '../schedules/operations.js';
import { checkPoolSize, checkSchema, databaseOf, openStorage } from '../storage/open.js';
import { type ClientStarts, whatToStart } from './what-to-start.js';

export interface ClientOptions {
  /** As for `launch`, without `sqlite::memory:`. Default: HOLDFAST_DATABASE_URL, else DBOS_SYSTEM_DATABASE_URL, else the file ./<name>.sqlite. */
  readonly database?: DatabaseOption | undefined;
  /** The app whose workflows it starts. Without it, what it starts is for any app of the database. */
  readonly name?: string;
  /** Schema of the system tables on Postgres (default `dbos`). */
  readonly schema?: string;
  /** Connections to Postgres (default 10, at least 2), beside one that listens. */
  readonly poolSize?: number;
  readonly logger?: Logger;
  /** What of errors log lines show, as for `launch`. */
  readonly errors?: StoredErrorOptions;
  /** Most bytes of one input or message, as it is stored (default 2 MiB). `Infinity`: no limit. */
  readonly maxValueBytes?: number;
}

/**
 * Access to an application from outside it: starts workflows by name, waits for them, looks at them and steers them.
 * It never runs a workflow and never changes the schema.
 */
export interface Client extends ClientStarts {
  readonly workflows: WorkflowOperations;
  readonly queues: QueueOperations;
  readonly schedules: ScheduleOperations;
  readonly versions: VersionOperations;
  /** What work there is whose process may be dead. To take it over is for a process of the app. */
  readonly recovery: Pick<RecoveryOperations, 'incomplete'>;
  close(): Promise<void>;
}

/** Connects to the database of an application. */
export async function connect(options: ClientOptions): Promise<Client> {
  checkKnownOptions('connect()', options, [
    'database',
    'name',
    'schema',
    'poolSize',
    'logger',
    'errors',
    'maxValueBytes',
  ]);
  const { name = '', schema = 'dbos' } = options;
  if (options.name !== undefined) checkName('The name of an app', name);
  checkSchema('connect()', schema);
  const codecs = codecsOf('connect()', options);
  const logger = codecs.errors.logger(checkLogger('connect()', options.logger));
  const { max, ...database } = databaseOf('connect()', options);
  const storage = await openStorage({
    ...database,
    schema,
    ...checkPoolSize('connect()', options.poolSize ?? max),
    migrate: false,
    // Whether there is to be one is for the app to say; where there is none, the client polls.
    triggers: false,
    logger,
    applicationName: name === '' ? 'client' : `${name} client`,
  });
  try {
    const clock = await databaseClock(storage);
    const writer = { executorId: '', appName: name };
    const common = { storage, clock, logger, writer, version: '' };
    const engine = new Runtime({ ...common, codecs, registry: new Registry() });
    // A client that only enqueues needs no connection to hear by.
    const hear = startOnce(engine);
    engine.completionWaiters.onFirstWait = hear;
    engine.watches.onFirstWait = hear;
    if (name !== '') await warnOfUnknownApp(engine);
    const sync = clockSync(storage, clock, logger);
    sync.start();
    return createClient(engine, () => sync.stop());
  } catch (error) {
    await storage.close().catch(() => {});
    throw error;
  }
}

function startOnce({ news }: Runtime): () => void {
  let started = false;
  return () => {
    if (!started) void news.start();
    started = true;
  };
}

/** What it starts is for processes of that app only, and waits for them: for ever, if the name is misspelt. */
async function warnOfUnknownApp({ storage, writer, logger }: Runtime): Promise<void> {
  const apps = await storage.versions.apps();
  if (apps.includes(writer.appName)) return;
  logger.warn(
    `connect({ name: '${writer.appName}' }): no process of this app has been launched on this database yet.` +
      `${didYouMean(writer.appName, apps)} What the client starts waits for one.`,
  );
}

function createClient(engine: Runtime, stopClock: () => Promise<void>): Client {
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    engine.refuseStarts();
    await stopClock();
    await engine.handOver();
    await engine.news.stop();
    await engine.storage.close();
  };
  const client: Client = {
    workflows: workflowOperations(engine),
    queues: queueOperations(engine),
    schedules: scheduleOperations(engine),
    versions: versionOperations(engine),
    recovery: {
      incomplete: async (options) => {
        engine.checkOpen();
        return listIncomplete(engine, await clientKnowledge(engine), options);
      },
    },
    ...clientStarts(engine),
    close: async (...more: unknown[]) => {
      refuseOptions('close()', more);
      closing ??= close();
      return closing;
    },
  };
  attachEngine(client, engine);
  return client;
}

function clientStarts(engine: Runtime): ClientStarts {
  const start = (workflow: unknown, options: StartOptions = {}, ...args: unknown[]) =>
    rejecting('start()', () => {
      engine.checkOpen();
      const target = whatToStart(workflow);
      checkStartOptions(target.name, options);
      checkRepeatable(`start() of "${target.name}"`, [options]);
      return enqueueWorkflow(engine, target, options, args, null).then((id) => createHandle(engine, id));
    });
  const startIn = async (tx: unknown, workflow: unknown, options: StartOptions = {}, ...args: unknown[]) => {
    engine.checkOpen();
    const target = whatToStart(workflow);
    checkStartOptions(target.name, options);
    return createHandle(engine, await enqueueIn(engine, tx, target, options, args));
  };
  const startAll = (
    workflow: unknown,
    options: StartOptions = {},
    inputs: readonly (readonly unknown[])[],
    each?: (args: readonly unknown[], index: number) => StartOptions,
  ) =>
    rejecting('startAll()', () => {
      engine.checkOpen();
      const target = whatToStart(workflow);
      const items = batchItems(target.name, options, inputs, each);
      checkRepeatable(
        `startAll() of "${target.name}"`,
        items.map((item) => item.options),
      );
      return enqueueTogether(engine, target, items).then((ids) => ids.map((id) => createHandle(engine, id)));
    });
  return { start, startIn, startAll } as ClientStarts;
}

/** Under an ID a start that a replay repeats is the first one; without one, each would start another workflow. */
function checkRepeatable(call: string, starts: readonly StartOptions[]): void {
  if (starts.every(({ id }) => id !== undefined)) return;
  refuseInWorkflow(
    `${call} without an "id"`,
    'Call it in a step, or give an "id", or start the workflow itself as a child.',
  );
}
