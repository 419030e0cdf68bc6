import { queueNameOf } from '../engine/api/start-options.js';
import { workflowInternals } from '../engine/api/workflow.js';
import { parseCron } from '../model/cron.js';
import { checkClassName, checkUserName } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { checkQueueName, type Queue } from '../model/queues.js';

/**
 * Decides which missed ticks run later. A tick is missed if no process could start its run within ten seconds, because
 * no process was running or none could reach the database.
 *
 * - `skip`: missed ticks do not run.
 * - `one`: the latest missed tick runs.
 * - `all`: all missed ticks run, oldest first. If there are more than `catchUpLimit`, only the latest of them run.
 */
export type CatchUp = (typeof catchUps)[number];

const catchUps = ['skip', 'one', 'all'] as const;

export interface ScheduleOptions<Context = unknown> {
  /** IANA name of the time zone of the cron expression, such as `Europe/Berlin` (default `UTC`). */
  readonly timezone?: string;
  /** The second argument of every run. */
  readonly context?: Context;
  /** The queue on which runs wait, by value or name. Default: runs start at once. */
  readonly queue?: Queue | string;
  /** Which missed ticks run later (default `skip`). */
  readonly catchUp?: CatchUp;
  /** The maximum number of missed ticks that `catchUp: 'all'` runs, up to 10,000 (default 100). */
  readonly catchUpLimit?: number;
}

/** The definition of a schedule. Nothing is stored until the schedule is given to `launch` or `app.schedules`. */
export interface Schedule {
  readonly name: string;
  readonly cron: string;
  readonly workflowName: string;
  /** The class of the workflow; undefined if the workflow is not a static method. */
  readonly className: string | undefined;
  readonly timezone: string;
  readonly context: unknown;
  readonly queueName: string | undefined;
  readonly catchUp: CatchUp;
  readonly catchUpLimit: number;
}

/** A workflow that a schedule can run: its arguments are the time of the tick and the context of the schedule. */
export interface ScheduledWorkflow<Context> {
  (scheduledAt: Date, context: Context): Promise<unknown>;
  readonly workflowName: string;
}

/** The context is required if the second parameter of the workflow does not accept `undefined`. */
type OptionsFor<Context> = undefined extends Context
  ? [options?: ScheduleOptions<NoInfer<Context>>]
  : [options: ScheduleOptions<NoInfer<Context>> & { readonly context: NoInfer<Context> }];

/**
 * Defines a schedule, which runs a workflow at every tick of a cron expression. Each tick runs once, however many
 * processes of the app are running. The arguments of the workflow are the time of the tick and the schedule's
 * context.
 *
 * The expression has five fields (minute hour day month weekday), or six with the second first. The workflow is a
 * value, or its name, for example in a client that has no workflows.
 *
 * @example
 * const report = workflow('report', async (scheduledAt: Date, region: string) => { ... });
 * const nightly = schedule('nightly', '30 2 * * *', report, {
 *   timezone: 'Europe/Berlin',
 *   context: 'eu',
 * });
 * const app = await launch({ name: 'shop', workflows: [report], schedules: [nightly] });
 */
export function schedule<Context>(
  name: string,
  cron: string,
  workflow: ScheduledWorkflow<Context> | string,
  ...[given]: OptionsFor<Context>
): Schedule {
  const what = whatOf(name);
  const options: ScheduleOptions = given === undefined ? {} : given;
  checkKnownOptions(what, options, ['timezone', 'context', 'queue', 'catchUp', 'catchUpLimit']);
  const { timezone = 'UTC', context, queue, catchUp = 'skip', catchUpLimit = defaultCatchUpLimit } = options;
  return checkSchedule({
    name,
    cron,
    ...targetOf(what, workflow),
    timezone,
    context,
    queueName: queue === undefined ? undefined : queueNameOf(what, queue),
    catchUp,
    catchUpLimit,
  });
}

/** The default limit also applies to schedules that DBOS stored, which have no `catchUpLimit`. */
export const defaultCatchUpLimit = 100;
const maxCatchUpLimit = 10_000;

/**
 * Returns a copy of the schedule, or throws a typed error: a schedule may come from code that no compiler has
 * checked.
 */
export function checkSchedule(given: Schedule): Schedule {
  const { name, cron, workflowName, className, timezone, context, queueName, catchUp, catchUpLimit } = given;
  const what = whatOf(name);
  checkUserName('A workflow name', workflowName);
  if (className !== undefined) checkClassName('A class name', className);
  parseCron(cron, timezone);
  if (queueName !== undefined) checkQueueName(queueName);
  checkCatchUp(what, catchUp);
  checkCatchUpLimit(what, catchUpLimit);
  return Object.freeze({ name, cron, workflowName, className, timezone, context, queueName, catchUp, catchUpLimit });
}

export function isSchedule(value: unknown): value is Schedule {
  return typeof value === 'object' && value !== null && 'cron' in value && 'workflowName' in value && 'name' in value;
}

export function checkScheduleName(name: unknown): string {
  return checkQueueName(name, 'A schedule name');
}

export function checkCatchUp(what: string, catchUp: unknown): CatchUp {
  if (catchUps.includes(catchUp as CatchUp)) return catchUp as CatchUp;
  throw invalidOption(what, 'catchUp', catchUp, `one of ${catchUps.join(', ')}`);
}

export function checkCatchUpLimit(what: string, limit: unknown): number {
  if (Number.isInteger(limit) && Number(limit) >= 1 && Number(limit) <= maxCatchUpLimit) return Number(limit);
  throw invalidOption(what, 'catchUpLimit', limit, `a whole number from 1 to ${maxCatchUpLimit}`);
}

/** The workflow that a schedule runs. */
export type ScheduleTarget = Pick<Schedule, 'workflowName' | 'className'>;

export function keyOf({ workflowName, className }: { workflowName: string; className?: string | null | undefined }) {
  return { name: workflowName, className: className ?? null, configName: null };
}

/** Returns the workflow of a schedule, given by value or name. */
export function targetOf(what: string, workflow: unknown): ScheduleTarget {
  const own = workflowInternals(workflow);
  if (own) {
    const { name, className, configName } = own.definition;
    // A stored schedule has no column for the name of an instance, in Holdfast as in DBOS.
    if (configName !== null) {
      throw invalidOption(what, 'workflow', `${className}/${configName}.${name}`, 'a function or a static method');
    }
    return { workflowName: name, className: className ?? undefined };
  }
  if (typeof workflow === 'string') {
    return { workflowName: checkUserName('A workflow name', workflow), className: undefined };
  }
  throw invalidOption(what, 'workflow', workflow, 'the result of workflow(), or its name');
}

function whatOf(name: unknown): string {
  return `Schedule "${checkScheduleName(name)}"`;
}
