import { queueNameOf } from '../engine/api/start-options.js';
import { workflowInternals } from '../engine/api/workflow.js';
import { parseCron } from '../model/cron.js';
import { checkClassName, checkOwnName } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { checkQueueName, type Queue } from '../model/queues.js';

/**
 * What becomes of ticks that nobody could run within ten seconds, because no process was up, or none could reach the
 * database.
 *
 * - `skip`: they are not run.
 * - `one`: the latest of them is, once.
 * - `all`: they all are, oldest first, up to `catchUpLimit`: then the latest ones.
 */
export type CatchUp = (typeof catchUps)[number];

const catchUps = ['skip', 'one', 'all'] as const;

export interface ScheduleOptions<Context = unknown> {
  /** IANA name of the time zone that the cron expression is in, such as `Europe/Berlin` (default `UTC`). */
  readonly timezone?: string;
  /** Given to every run as its second argument. */
  readonly context?: Context;
  /** Where its runs wait for their turn, by value or name. Default: they run at once. */
  readonly queue?: Queue | string;
  /** What becomes of missed ticks (default `skip`). */
  readonly catchUp?: CatchUp;
  /** How many missed ticks `catchUp: 'all'` runs at most (default 100). */
  readonly catchUpLimit?: number;
}

/** A schedule, defined: nothing is stored until it is given to `launch` or `app.schedules`. */
export interface Schedule {
  readonly name: string;
  readonly cron: string;
  readonly workflowName: string;
  /** Of a static method. */
  readonly className: string | undefined;
  readonly timezone: string;
  readonly context: unknown;
  readonly queueName: string | undefined;
  readonly catchUp: CatchUp;
  readonly catchUpLimit: number;
}

/** A workflow that can be called with the time of a tick and the schedule's context. */
export interface ScheduledWorkflow<Context> {
  (scheduledAt: Date, context: Context): Promise<unknown>;
  readonly workflowName: string;
}

/** A context must be given if the workflow cannot do without one. */
type OptionsFor<Context> = undefined extends Context
  ? [options?: ScheduleOptions<NoInfer<Context>>]
  : [options: ScheduleOptions<NoInfer<Context>> & { readonly context: NoInfer<Context> }];

/**
 * Defines a schedule: the workflow is run at every tick of the cron expression, once in the whole fleet, with the time of
 * the tick and the schedule's context as arguments. The expression has five fields (minute hour day month weekday) or
 * six (second first). A client, which has no workflows, names the workflow.
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

/** What DBOS's schedules have too, which know no such bound. */
export const defaultCatchUpLimit = 100;
const largestCatchUpLimit = 10_000;

/** A schedule in which everything can be used, or a typed error: it may come from code that no compiler has seen. */
export function checkSchedule(given: Schedule): Schedule {
  const { name, cron, workflowName, className, timezone, context, queueName, catchUp, catchUpLimit } = given;
  const what = whatOf(name);
  checkOwnName('A workflow name', workflowName);
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
  if (Number.isInteger(limit) && Number(limit) >= 1 && Number(limit) <= largestCatchUpLimit) return Number(limit);
  throw invalidOption(what, 'catchUpLimit', limit, `a whole number from 1 to ${largestCatchUpLimit}`);
}

/** What a schedule runs. */
export type ScheduleTarget = Pick<Schedule, 'workflowName' | 'className'>;

export function keyOf({ workflowName, className }: { workflowName: string; className?: string | null | undefined }) {
  return { name: workflowName, className: className ?? null, configName: null };
}

/** What to run, given by value or name. */
export function targetOf(what: string, workflow: unknown): ScheduleTarget {
  const own = workflowInternals(workflow);
  if (own) {
    const { name, className, configName } = own.definition;
    // A schedule on record has no place for it, here as with DBOS.
    if (configName !== null) {
      throw invalidOption(what, 'workflow', `${className}/${configName}.${name}`, 'a function or a static method');
    }
    return { workflowName: name, className: className ?? undefined };
  }
  if (typeof workflow === 'string') {
    return { workflowName: checkOwnName('A workflow name', workflow), className: undefined };
  }
  throw invalidOption(what, 'workflow', workflow, 'what workflow() returns, or its name');
}

function whatOf(name: unknown): string {
  return `Schedule "${checkScheduleName(name)}"`;
}
