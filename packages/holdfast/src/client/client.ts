import { codecsOf, type StoredErrorOptions } from '../codec/codecs.js';
import { refuseInWorkflow } from '../engine/api/context.js';
import { createHandle } from '../engine/api/handle.js';
import { checkStartOptions, type StartOptions } from '../engine/api/start-options.js';
import { clockSync, databaseClock } from '../engine/database-clock.js';
import { rejecting } from '../engine/execution/rejecting.js';
import { Registry } from '../engine/registry.js';
import { attachEngine } from '../engine/running-apps.js';
import { Runtime } from '../engine/runtime.js';
import { closeAndHandOver } from '../engine/shutdown.js';
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

/** Options of `connect()`. */
export interface ClientOptions {
  /**
   * The database, as for `launch()`, except `sqlite::memory:`.
   *
   * Default: HOLDFAST_DATABASE_URL, else DBOS_SYSTEM_DATABASE_URL, else the file `./<name>.sqlite`.
   */
  readonly database?: DatabaseOption | undefined;
  /** Name of the app whose workflows the client starts. Without a name, any app of the database can run them. */
  readonly name?: string;
  /** Schema of the system tables on Postgres. Default: `dbos`. */
  readonly schema?: string;
  /** Maximum number of Postgres connections (default 10, minimum 2). One more connection listens for notifications. */
  readonly poolSize?: number;
  /**
   * Any object with the methods debug, info, warn and error. Default: writes warnings and errors to standard error.
   */
  readonly logger?: Logger;
  /** Which parts of errors are logged, as for `launch()`. */
  readonly errors?: StoredErrorOptions;
  /** Maximum size in bytes of a stored input or message. Default: 2 MiB. `Infinity`: no limit. */
  readonly maxValueBytes?: number;
}

/**
 * Access to an application from another process: starts workflows, waits for them, lists and controls them. A client
 * never runs a workflow, and never changes the schema.
 *
 * @example
 * const client = await connect({ name: 'shop' });
 * const handle = await client.start<typeof checkout>('checkout', { id: 'order-7' }, order);
 * console.log(await handle.result());
 * await client.close();
 */
export interface Client extends ClientStarts {
  /** Lists, inspects and controls workflows: cancel, resume, retry, fork, delete. */
  readonly workflows: WorkflowOperations;
  /** Registers, lists, changes, pauses and deletes queues. */
  readonly queues: QueueOperations;
  /** Lists, changes, pauses and triggers schedules. */
  readonly schedules: ScheduleOperations;
  /** Lists versions, and sets the latest version. */
  readonly versions: VersionOperations;
  /**
   * Lists unfinished workflows, including those of processes that died. Only a process of the app can recover them.
   */
  readonly recovery: Pick<RecoveryOperations, 'incomplete'>;
  /**
   * Closes the connections to the database. Workflows that the client started continue.
   *
   * @example
   * await client.close();
   */
  close(): Promise<void>;
}

/**
 * Connects to the database of an application, for a process that starts or manages workflows but does not run them.
 *
 * @example
 * const client = await connect({ name: 'shop', database: process.env.HOLDFAST_DATABASE_URL });
 * await client.start('checkout', { id: 'order-7' }, order);
 * const failed = await client.workflows.list({ status: 'ERROR' });
 * await client.close();
 */
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
    // The app decides whether there is a trigger. Without one, the client polls.
    triggers: false,
    logger,
    applicationName: name === '' ? 'client' : `${name} client`,
  });
  try {
    const clock = await databaseClock(storage);
    const writer = { executorId: '', appName: name };
    const common = { storage, clock, logger, writer, version: '' };
    // A client that only starts workflows needs no connection for notifications.
    const onFirstWait = once(() => void engine.news.start());
    const engine: Runtime = new Runtime({ ...common, codecs, registry: new Registry(), onFirstWait });
    if (name !== '') await warnOfUnknownApp(engine);
    const sync = clockSync(storage, clock, logger);
    sync.start();
    return createClient(engine, () => sync.stop());
  } catch (error) {
    await storage.close().catch(() => {});
    throw error;
  }
}

function once(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) action();
    isDone = true;
  };
}

/**
 * Warns about an unknown app. Only processes of that app run what the client starts. If the name is misspelled,
 * nothing runs.
 */
async function warnOfUnknownApp({ storage, writer, logger }: Runtime): Promise<void> {
  const apps = await storage.versions.apps();
  if (apps.includes(writer.appName)) return;
  logger.warn(
    `connect({ name: '${writer.appName}' }): no process of this app has been launched on this database yet.` +
      `${didYouMean(writer.appName, apps)} Workflows that this client starts wait for such a process.`,
  );
}

function createClient(engine: Runtime, stopClock: () => Promise<void>): Client {
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    engine.lifecycle.refuseStarts();
    await stopClock();
    await closeAndHandOver(engine);
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
        engine.lifecycle.checkOpen();
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
      engine.lifecycle.checkOpen();
      const target = whatToStart(workflow);
      checkStartOptions(target.name, options);
      checkRepeatable(`start() of "${target.name}"`, [options]);
      return enqueueWorkflow(engine, target, options, args, null).then((id) => createHandle(engine, id));
    });
  const startIn = async (tx: unknown, workflow: unknown, options: StartOptions = {}, ...args: unknown[]) => {
    engine.lifecycle.checkOpen();
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
      engine.lifecycle.checkOpen();
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

/**
 * In a workflow function, requires an ID. A replay repeats the start: without an ID it would start another workflow.
 */
function checkRepeatable(call: string, starts: readonly StartOptions[]): void {
  if (starts.every(({ id }) => id !== undefined)) return;
  refuseInWorkflow(
    `${call} without an "id"`,
    'Call it in a step, or give an "id", or start the workflow itself as a child.',
  );
}
