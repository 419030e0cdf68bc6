import type { WorkflowHandle } from '../engine/api/handle.js';
import type { StartOptions } from '../engine/api/start-options.js';
import { type AnyWorkflow, type Workflow, workflowInternals } from '../engine/api/workflow.js';
import { type Startable, startableByName } from '../engine/start/workflow-row.js';
import { checkClassName, checkName } from '../model/ids.js';
import { checkKnownOptions, wrongOption } from '../model/options.js';

/**
 * The name of a workflow to start. A workflow that is a method also needs the name of its class. If the method belongs
 * to a configured instance, it needs the name of the instance.
 *
 * @example
 * await client.start('checkout', {}, order);
 * await client.start({ name: 'deliver', className: 'Mailer', configName: 'smtp' }, {}, letter);
 */
export type WorkflowName =
  | string
  | {
      readonly name: string;
      readonly className?: string;
      /** Name of the configured instance. */
      readonly configName?: string;
      /** Refuses a workflow where its name is expected. A workflow is a function and therefore has a `name`, too. */
      readonly workflowName?: never;
    };

type ArgumentsOf<W> = W extends Workflow<infer Args, infer _Result> ? Args : never;
type ResultOf<W> = W extends Workflow<infer _Args, infer Result> ? Result : never;

/** The options can be left out if no arguments follow, and can be undefined if arguments follow. */
type OptionsAndArguments<Args extends unknown[]> = [] extends Args
  ? [options?: StartOptions | undefined, ...args: Args]
  : [options: StartOptions | undefined, ...args: Args];

/** `T` is the type of the result or of the workflow, as in `start<typeof checkout>('checkout', {}, order)`. */
type NamedCall<T> = [T] extends [AnyWorkflow]
  ? OptionsAndArguments<ArgumentsOf<T>>
  : [options?: StartOptions | undefined, ...args: unknown[]];
type NamedArguments<T> = [T] extends [AnyWorkflow] ? ArgumentsOf<T> : readonly unknown[];
type NamedHandle<T> = WorkflowHandle<[T] extends [AnyWorkflow] ? ResultOf<T> : T>;

/**
 * Starts workflows from a client, given by value or by name. For a workflow given by value, the compiler checks
 * arguments and result, and its input schema, roles, timeout and serialization format apply. For a name, none of these
 * is known.
 */
export interface ClientStarts {
  /**
   * Enqueues a workflow, and returns its handle. Without a queue, any process of the app runs it. In a workflow
   * function, `start` and `startAll` require an `id`, because a replay would otherwise start another workflow.
   *
   * @example
   * const handle = await client.start(checkout, { id: 'order-7', queue: 'orders' }, order);
   * const byName = await client.start<typeof checkout>('checkout', { id: 'order-8' }, order);
   * console.log(await handle.result());
   */
  start<Args extends unknown[], Result>(
    workflow: Workflow<Args, Result>,
    ...call: OptionsAndArguments<Args>
  ): Promise<WorkflowHandle<Result>>;
  /** Enqueues a workflow by its name. `T` is the type of the workflow, or of its result. */
  start<T = unknown>(workflow: WorkflowName, ...call: NamedCall<T>): Promise<NamedHandle<T>>;
  /**
   * Enqueues a workflow inside your own transaction on the same database. The workflow exists if, and only if, the
   * transaction commits. `tx` is the transaction object of your library: a client of pg, a transaction of postgres.js,
   * knex, kysely or drizzle, a DatabaseSync of `node:sqlite`, or a Database of better-sqlite3.
   *
   * @example
   * await pg.query('begin');
   * await pg.query('insert into orders (id) values ($1)', ['order-7']);
   * await client.startIn(pg, checkout, { id: 'order-7' }, order);
   * await pg.query('commit');
   */
  startIn<Args extends unknown[], Result>(
    tx: unknown,
    workflow: Workflow<Args, Result>,
    ...call: OptionsAndArguments<Args>
  ): Promise<WorkflowHandle<Result>>;
  /** Enqueues a workflow by its name, inside your own transaction. `T` is the type of the workflow or of its result. */
  startIn<T = unknown>(tx: unknown, workflow: WorkflowName, ...call: NamedCall<T>): Promise<NamedHandle<T>>;
  /**
   * Enqueues one workflow for each list of arguments, in one statement: all of them or none. `each` returns options
   * for a single workflow, such as its ID.
   *
   * @example
   * const inputs = orders.map((order) => [order] as const);
   * const handles = await client.startAll(checkout, { queue: 'orders' }, inputs, ([order]) => ({ id: order.id }));
   */
  startAll<Args extends unknown[], Result>(
    workflow: Workflow<Args, Result>,
    options: StartOptions | undefined,
    inputs: readonly Readonly<Args>[],
    each?: (args: Readonly<Args>, index: number) => StartOptions,
  ): Promise<WorkflowHandle<Result>[]>;
  /** Enqueues one workflow for each list of arguments, by name. `T` is the type of the workflow or its result. */
  startAll<T = unknown>(
    workflow: WorkflowName,
    options: StartOptions | undefined,
    inputs: readonly Readonly<NamedArguments<T>>[],
    each?: (args: Readonly<NamedArguments<T>>, index: number) => StartOptions,
  ): Promise<NamedHandle<T>[]>;
}

/** Returns what a client knows about a workflow that it starts. */
export function whatToStart(workflow: unknown): Startable {
  const own = workflowInternals(workflow);
  if (own) return own.definition;
  const given = (typeof workflow === 'object' && workflow ? workflow : { name: workflow }) as {
    readonly [option in keyof Exclude<WorkflowName, string>]?: unknown;
  };
  checkKnownOptions('The workflow name of start()', given, ['name', 'className', 'configName']);
  const name = checkName('A workflow name', given.name);
  const { className, configName } = given;
  const ofClass = className === undefined ? null : checkClassName('A class name', className as string);
  if (configName === undefined) return startableByName({ name, className: ofClass, configName: null });
  if (ofClass === null) throw wrongOption('start()', 'configName', 'needs a "className"');
  return startableByName({
    name,
    className: ofClass,
    configName: checkClassName('The name of an instance', configName as string),
  });
}
