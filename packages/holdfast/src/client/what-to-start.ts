import type { WorkflowHandle } from '../engine/api/handle.js';
import type { StartOptions } from '../engine/api/start-options.js';
import { type AnyWorkflow, type Workflow, workflowInternals } from '../engine/api/workflow.js';
import { byName, type Startable } from '../engine/start/workflow-row.js';
import { checkClassName, checkName } from '../model/ids.js';
import { checkKnownOptions, misplacedOption } from '../model/options.js';

/** What to start: a workflow's name; of a method, with its class and (of an instance) the instance's name. */
export type WorkflowName =
  | string
  | {
      readonly name: string;
      readonly className?: string;
      readonly configName?: string;
      /** A workflow is a function and has a name too, but is more than that. */
      readonly workflowName?: never;
    };

type ArgumentsOf<W> = W extends Workflow<infer Args, infer _Result> ? Args : never;
type ResultOf<W> = W extends Workflow<infer _Args, infer Result> ? Result : never;

/** Options may be left out before no arguments, and be undefined before some. */
type OptionsAndArguments<Args extends unknown[]> = [] extends Args
  ? [options?: StartOptions | undefined, ...args: Args]
  : [options: StartOptions | undefined, ...args: Args];

/** `T` is the type of the result, or of the workflow: `start<typeof checkout>('checkout', {}, order)`. */
type NamedCall<T> = [T] extends [AnyWorkflow]
  ? OptionsAndArguments<ArgumentsOf<T>>
  : [options?: StartOptions | undefined, ...args: unknown[]];
type NamedArguments<T> = [T] extends [AnyWorkflow] ? ArgumentsOf<T> : readonly unknown[];
type NamedHandle<T> = WorkflowHandle<[T] extends [AnyWorkflow] ? ResultOf<T> : T>;

/**
 * How a client starts workflows. One that is given by its value has its arguments and result checked by the compiler, and
 * is started as an app starts it: by its schema, roles, timeout and format. Of a name no more is known than the name.
 */
export interface ClientStarts {
  /**
   * Enqueues a workflow; without a queue it runs in any process of the app. In a workflow function it takes an `id`, as
   * startAll does: without one a replay would start another.
   */
  start<Args extends unknown[], Result>(
    workflow: Workflow<Args, Result>,
    ...call: OptionsAndArguments<Args>
  ): Promise<WorkflowHandle<Result>>;
  start<T = unknown>(workflow: WorkflowName, ...call: NamedCall<T>): Promise<NamedHandle<T>>;
  /**
   * The same inside a transaction of the caller's own, of the same database: the workflow is there when, and only if, that
   * commits. `tx` is what the library gives: a client of pg, a transaction of postgres.js, knex, kysely or drizzle, or a
   * DatabaseSync of `node:sqlite` or Database of better-sqlite3.
   */
  startIn<Args extends unknown[], Result>(
    tx: unknown,
    workflow: Workflow<Args, Result>,
    ...call: OptionsAndArguments<Args>
  ): Promise<WorkflowHandle<Result>>;
  startIn<T = unknown>(tx: unknown, workflow: WorkflowName, ...call: NamedCall<T>): Promise<NamedHandle<T>>;
  /** Enqueues one workflow for each list of arguments: all of them or none, in one statement. */
  startAll<Args extends unknown[], Result>(
    workflow: Workflow<Args, Result>,
    options: StartOptions | undefined,
    inputs: readonly Readonly<Args>[],
    each?: (args: Readonly<Args>, index: number) => StartOptions,
  ): Promise<WorkflowHandle<Result>[]>;
  startAll<T = unknown>(
    workflow: WorkflowName,
    options: StartOptions | undefined,
    inputs: readonly Readonly<NamedArguments<T>>[],
    each?: (args: Readonly<NamedArguments<T>>, index: number) => StartOptions,
  ): Promise<NamedHandle<T>[]>;
}

/** What is known of a workflow that a client is to start. */
export function whatToStart(workflow: unknown): Startable {
  const own = workflowInternals(workflow);
  if (own) return own.definition;
  const given = (typeof workflow === 'object' && workflow ? workflow : { name: workflow }) as {
    readonly [option in keyof Exclude<WorkflowName, string>]?: unknown;
  };
  checkKnownOptions('What start() is given', given, ['name', 'className', 'configName']);
  const name = checkName('A workflow name', given.name);
  const { className, configName } = given;
  const ofClass = className === undefined ? null : checkClassName('A class name', className as string);
  if (configName === undefined) return byName({ name, className: ofClass, configName: null });
  if (ofClass === null) throw misplacedOption('start()', 'configName', 'needs a className beside it');
  return byName({
    name,
    className: ofClass,
    configName: checkClassName('The name of an instance', configName as string),
  });
}
