import type { ConfiguredInstance } from '../classes/configured-instance.js';
import { type ClassInfo, classInfoOf } from '../classes/instances.js';
import { type Codecs, codecsOf, type Serializer, type StoredErrorOptions } from '../codec/codecs.js';
import type { WorkflowDefinition } from '../engine/api/definition.js';
import { type AnyWorkflow, otherReleaseOfWorkflow, workflowInternals } from '../engine/api/workflow.js';
import { defaultMaxRunning } from '../engine/queue/process-capacity.js';
import type { Registry } from '../engine/registry.js';
import { defaultSuspendAfterMs } from '../engine/suspend/evict-idle.js';
import type { DatabaseOption } from '../model/database.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { checkName } from '../model/ids.js';
import { checkLogger, type Logger } from '../model/logger.js';
import { checkKnownOptions, invalidOption, wrongOption } from '../model/options.js';
import { checkQueueName, isQueue, type Queue } from '../model/queues.js';
import { checkNotBeside, checkRecovery, type RecoveryOptions, type RecoverySettings } from '../model/recovery.js';
import { checkRetention, type RetentionOptions, type RetentionSettings } from '../model/retention.js';
import type { Schedule } from '../schedules/schedule.js';
import { checkSchedules } from '../schedules/settings.js';
import type { DatabaseSource } from '../storage/contract/database-source.js';
import { checkCompat, checkPoolSize, checkSchema, databaseOf } from '../storage/open.js';
import { checkVersionOptions } from './version.js';

/**
 * A value that an app can register: a workflow, a class with workflows (for all its instances), or one instance of such
 * a class.
 */
export type Registrable = AnyWorkflow | (abstract new (...args: never[]) => object) | ConfiguredInstance;

/** Options of `launch()`. Only `name` is required. */
export interface LaunchOptions {
  /** Name of the application. All processes of the application use the same name. */
  readonly name: string;
  /**
   * The database that stores the workflows: `postgres://...`, `sqlite:path` or `sqlite::memory:`. A `Pool` of `pg` or
   * the configuration of such a pool can replace the URL. Holdfast reads the settings of your pool and never closes it.
   *
   * Default: HOLDFAST_DATABASE_URL, else DBOS_SYSTEM_DATABASE_URL, else the file `./<name>.sqlite`.
   */
  readonly database?: DatabaseOption | undefined;
  /**
   * The workflows of this process: a list, or the exports of a module. Exports that are not workflows are ignored. A
   * class with workflows (`holdfast/classes`) adds its static workflows and those of all its instances.
   */
  readonly workflows?: readonly Registrable[] | Readonly<Record<string, unknown>>;
  /** Queues to store in the database. The process also works on queues that other processes have stored. */
  readonly queues?: readonly Queue[];
  /**
   * Names of the queues that this process works on. Default: all queues of the app. `[]`: no queue, but the process can
   * still enqueue.
   */
  readonly listen?: readonly string[];
  /** Schedules to store. Stored schedules that are not in this list stay active. */
  readonly schedules?: readonly Schedule[];
  /**
   * Identifies the code of this process. Only a process of the same version continues unfinished work.
   *
   * Default: HOLDFAST_VERSION, else a hash of the source code of all workflow functions. With the hash, every change
   * of a workflow function is a new version. Set a version in production, and if you use `patch()`.
   */
  readonly version?: string | undefined;
  /**
   * For development, instead of a version: this process continues unfinished work of earlier processes that ran with
   * this option on this machine, even after you edited the code. A workflow becomes STALLED if its edited code no
   * longer matches its recorded steps.
   *
   * Default: true under `node --watch` and `tsx watch`, unless a version is set or NODE_ENV is `production`.
   */
  readonly dev?: boolean;
  /**
   * Names this process in lists, logs and `app.recovery.recover()`. Two live processes with the same ID take no work
   * from each other. At launch, a process takes over work under its configured ID that no live process owns.
   *
   * Default: generated from the host name, the process ID, the start time and a random part.
   */
  readonly executorId?: string;
  /** When other processes declare this process dead, and what happens to unfinished work of dead processes. */
  readonly recovery?: RecoveryOptions;
  /** Which finished workflows are deleted in the background. Default: none. */
  readonly retention?: RetentionOptions;
  /**
   * How long a workflow may only wait (for a sleep, a message, an event or another workflow) before it is suspended. A
   * suspended workflow leaves memory, and continues by replay when its wait ends.
   *
   * Default: 1 minute. Workflows are suspended earlier while more than a thousand executions are in memory.
   */
  readonly suspendAfter?: Duration;
  /**
   * This process takes no more work from its queues while it runs this many of their workflows. Workflows that only
   * wait do not count. Default: 1000. `Infinity`: only the limits of the queues apply.
   */
  readonly maxRunning?: number;
  /** Schema of the system tables on Postgres. Default: `dbos`. */
  readonly schema?: string;
  /**
   * Maximum number of Postgres connections (default 10, minimum 2). There are up to two more: one listens for
   * notifications, and one retries rows that another session has locked. Idle connections are closed.
   */
  readonly poolSize?: number;
  /**
   * Any object with the methods debug, info, warn and error. Default: writes warnings and errors to standard error.
   */
  readonly logger?: Logger;
  /** Your own format for stored values. */
  readonly serializer?: Serializer;
  /** Which parts of errors are stored and logged. Default: everything except nested objects and well-known secrets. */
  readonly errors?: StoredErrorOptions;
  /**
   * Maximum size in bytes of a stored input, result, message, event or stream value. Errors are truncated to this
   * size. Default: 2 MiB. `Infinity`: no limit.
   */
  readonly maxValueBytes?: number;
  /** `false`: the schema must already be up to date, and `launch` does not change it. Default: true. */
  readonly migrate?: boolean;
  /**
   * `false`, on Postgres: no trigger is created or required. Then messages from DBOS and from SQL are found by
   * polling, within a second. Messages from Holdfast arrive as fast as with the trigger. Default: true.
   */
  readonly triggers?: boolean;
  /**
   * `'none'`, on Postgres: no DBOS application uses this database, so indexes that only DBOS needs are dropped. The
   * choice is made once per database, and `migrate({ compat })` changes it. Default: the earlier choice, else
   * `'shared'`.
   */
  readonly compat?: 'shared' | 'none' | undefined;
}

const launchOptionNames = [
  'name',
  'database',
  'workflows',
  'queues',
  'listen',
  'schedules',
  'version',
  'dev',
  'executorId',
  'recovery',
  'retention',
  'suspendAfter',
  'maxRunning',
  'schema',
  'poolSize',
  'logger',
  'serializer',
  'errors',
  'maxValueBytes',
  'migrate',
  'triggers',
  'compat',
];

export interface CheckedOptions extends DatabaseSource {
  readonly name: string;
  readonly schema: string;
  readonly logger: Logger;
  readonly codecs: Codecs;
  readonly migrate: boolean;
  readonly triggers: boolean;
  readonly compat: 'shared' | 'none' | undefined;
  readonly queues: readonly Queue[];
  readonly listen: readonly string[] | undefined;
  readonly schedules: readonly Schedule[];
  readonly suspendAfterMs: number;
  readonly maxRunning: number;
  readonly recovery: RecoverySettings;
  readonly retention: RetentionSettings | undefined;
  readonly poolSize?: number;
}

/** Checks the option names of a function that takes the options of `launch`, and the options in `more`. */
export function checkOptionNames(what: string, options: object, more: readonly string[] = []): void {
  const known = [...more, ...launchOptionNames];
  if (typeof options === 'object' && options !== null) checkNotBeside(what, options, known);
  checkKnownOptions(what, options, known);
}

/** Checks the options of `launch()`, and fills in their defaults. */
export function checkLaunchOptions(options: LaunchOptions): CheckedOptions {
  checkOptionNames('launch()', options);
  if (options.name === undefined) {
    throw wrongOption('launch()', 'name', 'is missing. Give the name of the application, as in { name: "shop" }');
  }
  const name = checkName('The name of an app', options.name);
  const { schema = 'dbos', migrate = true, triggers = true, version, executorId } = options;
  checkSchema('launch()', schema);
  if (version !== undefined) checkName('A version', version);
  if (options.dev !== undefined && typeof options.dev !== 'boolean') {
    throw invalidOption('launch()', 'dev', options.dev, 'true or false');
  }
  checkVersionOptions(options);
  if (executorId !== undefined) checkName('An executor ID', executorId);
  const codecs = codecsOf('launch()', options);
  const logger = codecs.errors.logger(checkLogger('launch()', options.logger));
  if (typeof migrate !== 'boolean') throw invalidOption('launch()', 'migrate', migrate, 'true or false');
  if (typeof triggers !== 'boolean') throw invalidOption('launch()', 'triggers', triggers, 'true or false');
  const { queues = [], listen } = options;
  const schedules = checkSchedules('launch()', options.schedules ?? []);
  checkQueues(queues);
  if (listen !== undefined) {
    if (!Array.isArray(listen)) throw invalidOption('launch()', 'listen', listen, 'a list of queue names');
    for (const each of listen) checkQueueName(each);
  }
  const { suspendAfter = defaultSuspendAfterMs } = options;
  const suspendAfterMs = parseDuration(suspendAfter, 'The suspendAfter of launch()');
  const { maxRunning = defaultMaxRunning } = options;
  if (maxRunning !== Number.POSITIVE_INFINITY && !(Number.isInteger(maxRunning) && maxRunning > 0)) {
    throw invalidOption('launch()', 'maxRunning', maxRunning, 'a whole number of at least 1, or Infinity');
  }
  const recovery = checkRecovery(options.recovery);
  const retention = checkRetention(options.retention);
  const { max, ...database } = databaseOf('launch()', options);
  const pool = checkPoolSize('launch()', options.poolSize ?? max);
  return {
    ...database,
    name,
    schema,
    ...pool,
    logger,
    codecs,
    migrate,
    triggers,
    compat: checkCompat('launch()', options.compat),
    queues,
    listen,
    schedules,
    suspendAfterMs,
    maxRunning,
    recovery,
    retention,
  };
}

function checkQueues(queues: readonly Queue[]): void {
  if (!Array.isArray(queues)) throw invalidOption('launch()', 'queues', queues, 'a list of queue() results');
  const seen = new Set<string>();
  for (const [i, each] of queues.entries()) {
    if (!isQueue(each)) throw invalidOption('launch()', `queues[${i}]`, each, 'the result of queue()');
    if (seen.has(each.name)) throw invalidOption('launch()', `queues[${i}]`, each.name, 'the only queue with its name');
    seen.add(each.name);
  }
}

/** The workflows that an app was given, and the classes of those that are methods. */
export interface Registration {
  readonly workflows: readonly AnyWorkflow[];
  readonly classes: readonly ClassInfo[];
}

/** Finds the workflows in `given`. `what` is the call that received it: `launch()` or `register()`. */
export function collectWorkflows(given: LaunchOptions['workflows'], what = 'launch()'): Registration {
  const plain: AnyWorkflow[] = [];
  const classes: ClassInfo[] = [];
  const isList = Array.isArray(given);
  if (workflowInternals(given) || classInfoOf(given) || (given !== undefined && typeof given !== 'object')) {
    throw invalidOption('launch()', 'workflows', given, 'a list, as in [checkout], or the exports of a module');
  }
  for (const [key, each] of Object.entries(given ?? {})) {
    const ofClass = classInfoOf(each);
    if (workflowInternals(each)) plain.push(each as AnyWorkflow);
    else if (ofClass) classes.push(ofClass);
    else if (isList) {
      const other = otherReleaseOfWorkflow(each);
      const release =
        other === undefined ? '' : ` of this release (this one is from Holdfast ${other}: run "npm ls holdfast")`;
      const hint = each === undefined ? ' (is an import circular?)' : release;
      const option = what === 'launch()' ? `workflows[${key}]` : `argument ${Number(key) + 1}`;
      throw invalidOption(what, option, each, `the result of workflow(), or a class with workflows${hint}`);
    }
  }
  return { workflows: [...plain, ...classes.flatMap((each) => each.workflows)], classes };
}

/** Registers workflows and classes. */
export function addTo(registry: Registry, { workflows, classes }: Registration): void {
  for (const { className, definedBy } of classes) registry.addClass(className, definedBy);
  for (const each of workflows) {
    const own = workflowInternals(each);
    if (own) registry.add(own.definition);
  }
}

/**
 * Returns the code that a version is computed from. All workflows of a class count, whichever instances exist so far.
 */
export function codeOf({
  workflows,
  classes,
}: Registration): Pick<WorkflowDefinition, 'name' | 'className' | 'source'>[] {
  const plain = workflows.flatMap((each) => workflowInternals(each)?.definition ?? []);
  return [...plain.filter(({ className }) => className === null), ...classes.flatMap(({ code }) => code)];
}
