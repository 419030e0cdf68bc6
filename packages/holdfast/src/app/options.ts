import type { Serializer } from '../codec/codec.js';
import type { WorkflowDefinition } from '../engine/definition.js';
import { type Workflow, workflowInternals } from '../engine/workflow.js';
import { HoldfastError } from '../model/errors.js';
import { checkName } from '../model/ids.js';
import { defaultLogger, type Logger } from '../model/logger.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';

// biome-ignore lint/suspicious/noExplicitAny: any workflow, whatever its arguments and result.
export type AnyWorkflow = Workflow<any[], any>;

export interface LaunchOptions {
  /** Name of the application, the same in all its processes. */
  readonly name: string;
  /** `postgres://...`, `sqlite:path` or `sqlite::memory:`. Default: HOLDFAST_DATABASE_URL, else the file ./<name>.sqlite. */
  readonly database?: string | undefined;
  /** The workflows of this process: a list, or a module's exports (what is not a workflow is passed over). */
  readonly workflows?: readonly AnyWorkflow[] | Readonly<Record<string, unknown>>;
  /**
   * Unfinished work goes on only in a process of its own version. Default: a hash of the source of all workflow
   * functions, so that every edit of one is a new version. Set it while developing, and where you use `patch()`.
   */
  readonly version?: string;
  /**
   * Who runs the work of this process. Default: generated from host, pid and start time. Where the host name changes
   * with each restart (containers), give each replica one of its own that stays. No two live processes may share one.
   */
  readonly executorId?: string;
  /** Schema of the system tables on Postgres (default `dbos`). */
  readonly schema?: string;
  /** Any object with debug, info, warn and error. Default: warnings and errors on standard error. */
  readonly logger?: Logger;
  /** Stores values in a format of your own. */
  readonly serializer?: Serializer;
  /** `false`: the schema must be in place already (default true). */
  readonly migrate?: boolean;
}

const launchOptionNames = [
  'name',
  'database',
  'workflows',
  'version',
  'executorId',
  'schema',
  'logger',
  'serializer',
  'migrate',
];

export interface CheckedOptions {
  readonly name: string;
  readonly url: string;
  readonly schema: string;
  readonly logger: Logger;
  readonly migrate: boolean;
}

export function checkLaunchOptions(options: LaunchOptions): CheckedOptions {
  checkKnownOptions('launch()', options, launchOptionNames);
  if (options.name === undefined) {
    throw invalidOption('launch()', 'name', undefined, 'given: the name of the application, as in { name: "shop" }');
  }
  const name = checkName('The name of an app', options.name);
  const { schema = 'dbos', logger = defaultLogger, migrate = true, version, executorId } = options;
  checkName('A schema name', schema);
  // Postgres cuts longer identifiers off, silently.
  if (Buffer.byteLength(schema) > 63) throw invalidOption('launch()', 'schema', schema, 'at most 63 bytes long');
  if (version !== undefined) checkName('A version', version);
  if (executorId !== undefined) checkName('An executor ID', executorId);
  for (const method of ['debug', 'info', 'warn', 'error'] as const) {
    if (typeof logger?.[method] !== 'function')
      throw invalidOption('launch()', 'logger', logger, `an object with ${method}()`);
  }
  if (typeof migrate !== 'boolean') throw invalidOption('launch()', 'migrate', migrate, 'true or false');
  return { name, url: databaseUrl(options), schema, logger, migrate };
}

function databaseUrl(options: LaunchOptions): string {
  const url = options.database ?? process.env.HOLDFAST_DATABASE_URL ?? `sqlite:./${options.name}.sqlite`;
  if (typeof url === 'string' && url !== '') return url;
  throw new HoldfastError(
    'DATABASE_URL_INVALID',
    'The database URL is empty. Give "postgres://...", "sqlite:path", or leave it out for a file beside the process.',
  );
}

/** The workflows among the values given to `launch` or `register`. */
export function pickWorkflows(given: LaunchOptions['workflows']): AnyWorkflow[] {
  if (given === undefined) return [];
  if (!Array.isArray(given)) return Object.values(given).filter((value) => workflowInternals(value)) as AnyWorkflow[];
  for (const [i, each] of given.entries()) {
    if (workflowInternals(each)) continue;
    const hint = each === undefined ? ' (is an import circular?)' : '';
    throw invalidOption('launch()', `workflows[${i}]`, each, `what workflow() returns${hint}`);
  }
  return [...given];
}

export function definitionsOf(workflows: readonly AnyWorkflow[]): WorkflowDefinition[] {
  return workflows.flatMap((each) => workflowInternals(each)?.definition ?? []);
}
