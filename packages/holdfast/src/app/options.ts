import type { ConfiguredInstance } from '../classes/configured-instance.js';
import { type GivenClass, givenClass } from '../classes/instances.js';
import { type Codecs, codecsOf, type Serializer, type StoredErrorOptions } from '../codec/codec.js';
import type { WorkflowDefinition } from '../engine/api/definition.js';
import { type AnyWorkflow, otherReleaseOfWorkflow, workflowInternals } from '../engine/api/workflow.js';
import { defaultMaxRunning } from '../engine/queue/process-capacity.js';
import type { Registry } from '../engine/registry.js';
import { defaultSuspendAfterMs } from '../engine/suspend/evict-idle.js';
import type { DatabaseOption } from '../model/database.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { checkName } from '../model/ids.js';
import { checkLogger, type Logger } from '../model/logger.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { checkQueueName, isQueue, type Queue } from '../model/queues.js';
import { checkNotBeside, checkRecovery, type RecoveryOptions, type RecoverySettings } from '../model/recovery.js';
import { checkRetention, type RetentionOptions, type RetentionSettings } from '../model/retention.js';
import type { Schedule } from '../schedules/schedule.js';
import { checkSchedules } from '../schedules/settings.js';
import type { DatabaseSource } from '../storage/database-option.js';
import { checkCompat, checkPoolSize, checkSchema, databaseOf } from '../storage/open.js';
import { checkVersionOptions } from './version.js';

/** What an app can be given: a workflow; a class with workflows, for all its instances; one instance. */
export type Registrable = AnyWorkflow | (abstract new (...args: never[]) => object) | ConfiguredInstance;

export interface LaunchOptions {
  /** Name of the application, the same in all its processes. */
  readonly name: string;
  /**
   * `postgres://...`, `sqlite:path` or `sqlite::memory:`; or a Pool of `pg`, whose settings are used and which stays yours,
   * or what such a pool is made of. Default: HOLDFAST_DATABASE_URL, else DBOS_SYSTEM_DATABASE_URL, else the file ./<name>.sqlite.
   */
  readonly database?: DatabaseOption | undefined;
  /**
   * The workflows of this process: a list, or a module's exports (what is not a workflow is passed over). A class with
   * workflows (`holdfast/classes`) stands for its static ones and those of all its instances.
   */
  readonly workflows?: readonly Registrable[] | Readonly<Record<string, unknown>>;
  /** Queues to store and work on; those that other processes have stored are worked on as well. */
  readonly queues?: readonly Queue[];
  /** Names of the queues that this process works on. Default: all of its app's. `[]`: none; it still enqueues. */
  readonly listen?: readonly string[];
  /** Schedules to store; those that are stored and not in this list go on. */
  readonly schedules?: readonly Schedule[];
  /**
   * Unfinished work goes on only in a process of its own version. Default: HOLDFAST_VERSION, else a hash of the source of
   * all workflow functions, so that every edit of what one does is a new version. Set it in production, and where you use
   * `patch()`.
   */
  readonly version?: string | undefined;
  /**
   * Instead of a version, while you develop: whatever you edit, this process goes on with what earlier ones of the app
   * left unfinished under this option on this machine. Work that would then ask for other steps than those on record becomes
   * STALLED. Default: true under `node --watch` and `tsx watch`, unless a version is set or NODE_ENV is production.
   */
  readonly dev?: boolean;
  /**
   * Who runs the work of this process. Default: generated from host, pid and start time. Where the host name changes
   * with each restart (containers), give each replica one of its own that stays. No two live processes may share one.
   */
  readonly executorId?: string;
  /** What becomes of work whose process died, and when a process counts as dead. */
  readonly recovery?: RecoveryOptions;
  /** Which workflows that have ended are deleted, in the background. Default: none. */
  readonly retention?: RetentionOptions;
  /**
   * How long a workflow may only wait (for its sleep, a message, an event, another workflow) until it is let go of, to come
   * back by replay when what it waits for is there. Default 1 minute; sooner when more than a thousand wait.
   */
  readonly suspendAfter?: Duration;
  /**
   * How many workflows of all its queues together this process has in hand before it takes more, not counting those that only
   * wait (default 1000). `Infinity`: as many as the limits of the queues allow.
   */
  readonly maxRunning?: number;
  /** Schema of the system tables on Postgres (default `dbos`). */
  readonly schema?: string;
  /** Most connections to Postgres (default 10, at least 2), beside one that listens. Those that are not needed are closed. */
  readonly poolSize?: number;
  /** Any object with debug, info, warn and error. Default: warnings and errors on standard error. */
  readonly logger?: Logger;
  /** Stores values in a format of your own. */
  readonly serializer?: Serializer;
  /** What of errors is stored, and shown in log lines. Default: no nested objects, and no well-known secrets. */
  readonly errors?: StoredErrorOptions;
  /**
   * Most bytes of one input, result, message, event or stream value, as it is stored (default 2 MiB). Errors are cut to it.
   * `Infinity`: no limit.
   */
  readonly maxValueBytes?: number;
  /** `false`: the schema must be in place already (default true). */
  readonly migrate?: boolean;
  /**
   * `false`, on Postgres: no trigger is created or needed (default true). Processes of Holdfast announce messages themselves;
   * messages from DBOS and from SQL are found by polling, within a second.
   */
  readonly triggers?: boolean;
  /**
   * `'none'`, on Postgres: no DBOS application uses the database, so that indexes which only those need are dropped. Chosen
   * once for the database; default: as it was chosen, else `'shared'`. migrate({ compat }) changes the choice.
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

/** Of what takes the options of `launch`, and perhaps `more`. */
export function checkOptionNames(what: string, options: object, more: readonly string[] = []): void {
  const known = [...more, ...launchOptionNames];
  if (typeof options === 'object' && options !== null) checkNotBeside(what, options, known);
  checkKnownOptions(what, options, known);
}

export function checkLaunchOptions(options: LaunchOptions): CheckedOptions {
  checkOptionNames('launch()', options);
  if (options.name === undefined) {
    throw invalidOption('launch()', 'name', undefined, 'given: the name of the application, as in { name: "shop" }');
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
    if (!Array.isArray(listen)) throw invalidOption('launch()', 'listen', listen, 'a list of names of queues');
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
  if (!Array.isArray(queues)) throw invalidOption('launch()', 'queues', queues, 'a list of what queue() returns');
  const seen = new Set<string>();
  for (const [i, each] of queues.entries()) {
    if (!isQueue(each)) throw invalidOption('launch()', `queues[${i}]`, each, 'what queue() returns');
    if (seen.has(each.name)) throw invalidOption('launch()', `queues[${i}]`, each.name, 'the only queue of that name');
    seen.add(each.name);
  }
}

/** The workflows among what an app was given, and the classes that some of them are methods of. */
export interface Picked {
  readonly workflows: readonly AnyWorkflow[];
  readonly classes: readonly GivenClass[];
}

/** `what` says which call was given them. Those of register() are its arguments, and have no name. */
export function pickWorkflows(given: LaunchOptions['workflows'], what = 'launch()'): Picked {
  const plain: AnyWorkflow[] = [];
  const classes: GivenClass[] = [];
  const isList = Array.isArray(given);
  if (workflowInternals(given) || givenClass(given) || (given !== undefined && typeof given !== 'object')) {
    throw invalidOption('launch()', 'workflows', given, 'a list, as in [checkout], or the exports of a module');
  }
  for (const [key, each] of Object.entries(given ?? {})) {
    const ofClass = givenClass(each);
    if (workflowInternals(each)) plain.push(each as AnyWorkflow);
    else if (ofClass) classes.push(ofClass);
    else if (isList) {
      const other = otherReleaseOfWorkflow(each);
      const made =
        other === undefined ? '' : ` of this release (that is one of Holdfast ${other}: see "npm ls holdfast")`;
      const hint = each === undefined ? ' (is an import circular?)' : made;
      const option = what === 'launch()' ? `workflows[${key}]` : `argument ${Number(key) + 1}`;
      throw invalidOption(what, option, each, `what workflow() returns, or a class with workflows${hint}`);
    }
  }
  return { workflows: [...plain, ...classes.flatMap((each) => each.workflows)], classes };
}

/** Makes what was picked known to a registry. */
export function addTo(registry: Registry, { workflows, classes }: Picked): void {
  for (const { className, definedBy } of classes) registry.addClass(className, definedBy);
  for (const each of workflows) {
    const own = workflowInternals(each);
    if (own) registry.add(own.definition);
  }
}

/** The code that a version is made of: a class counts as a whole, whichever of its instances there are by now. */
export function codeOf({ workflows, classes }: Picked): Pick<WorkflowDefinition, 'name' | 'className' | 'source'>[] {
  const plain = workflows.flatMap((each) => workflowInternals(each)?.definition ?? []);
  return [...plain.filter(({ className }) => className === null), ...classes.flatMap(({ code }) => code)];
}
