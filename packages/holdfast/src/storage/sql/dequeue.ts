import type { Dequeued, DequeueParams, Portion } from '../contract/storage.js';
import {
  type BatchStatement,
  type Columns,
  type Database,
  type Dialect,
  type Guard,
  retriedRows,
  waitingRows,
} from '../database.js';
import { claimedColumns, toClaimed } from './rows.js';
import { isKnownAs, knownWorkflows, runnableJson } from './runnable-workflows.js';
import { latestVersion } from './versions.js';

/**
 * Taking work from a queue: one statement picks rows and makes them this executor's, for any number of portions.
 *
 * **The turn.** Settings, and limits of the whole fleet, are kept by a number in the queue's row. Every edit of the
 * queue moves it on, and so does every claim under a limit that spans processes. Such a claim is planned from counts
 * that were read under a turn, and commits only under that same turn: nobody can have claimed in between, so that the
 * counts can only have fallen since. A claim without such a limit reads the turn and holds it: an edit or a pause
 * waits for claims under way, and the next claim finds it.
 *
 * **Suspects.** A workflow that kills its process takes down those beside it, and their attempts are spent with its
 * own. What has used up half of its attempts is therefore taken alone (`suspects`), so that only the culprit dies.
 */
export class Dequeue {
  private readonly statements;

  constructor(private readonly database: Database) {
    this.statements = dequeueStatements(database.dialect);
  }

  async claim(params: DequeueParams): Promise<Dequeued> {
    const { exclusive, lockVersion, byPartition, suspects, firstCome } = params;
    const hold = lockVersion === null ? 'free' : exclusive ? 'exclusive' : 'shared';
    const statements = this.statements[firstCome ? 'firstCome' : 'byPriority'][suspects ? 'suspect' : 'healthy'];
    const statement = statements[byPartition ? 'byPartition' : 'whole'][hold];
    const rows = await this.database.batch(statement, sharedParams(params), params.portions);
    const claimed = rows.filter((row) => typeof row.workflow_uuid === 'string').map((row) => toClaimed(row, params));
    const held = hold !== 'exclusive' || rows.some((row) => row.held);
    return { claimed, held, mixed: rows.some((row) => row.mixed) };
  }
}

function sharedParams(params: DequeueParams): unknown[] {
  const { owner, writer, version, now, runnable, queueName, rateLimited, lockVersion } = params;
  const { executorId, appName } = writer;
  const names = runnableJson(runnable);
  return [owner, executorId, appName, version, now, names, queueName, rateLimited, lockVersion];
}

/** Where a statement has the application and the version of who takes. */
interface Taker {
  readonly app: string;
  readonly version: string;
}

/** What is taken together: what has used up half of its attempts, or the rest. */
export type Health = 'healthy' | 'suspect';

/**
 * The rows that wait, of one kind, in the words of the index for them. Suspects have indexes of their own, over what has been
 * tried before: all that waits would be read otherwise, however much it is, to find that none of it is suspect.
 */
export function waiting(d: Dialect, health: Health, byPartition: boolean): string {
  const rows = health === 'healthy' ? waitingRows[d.name] : retriedRows;
  return rows[byPartition ? 'inPartition' : 'onQueue'];
}

/**
 * Of which version an ENQUEUED row is that a process may take: of its own, or of none if its own is the latest. Each is
 * a stretch of the index, so that what waits for other versions is not read, however much it is.
 */
export function stretches(d: Dialect, { app, version }: Taker): readonly [string, string] {
  const latest = latestVersion(d, app);
  return [`application_version = ${version}`, `application_version is null and ${version} = ${latest}`];
}

/**
 * What else must be true of it: that it is of the application, and of a workflow that the process knows. What is known is a
 * scalar subquery, not a join or EXISTS: those the planner would turn around, reading all of a queue for each of them.
 */
export function fitting({ app }: Pick<Taker, 'app'>, health: Health | 'either'): string {
  const isSuspect = { healthy: '= false', suspect: '= true', either: 'is not null' };
  return [
    `(application_name is null or application_name = ${app})`,
    'and (select coalesce(recovery_attempts, 0) > 0 and recovery_attempts * 2 >= k.most',
    `from known k where ${isKnownAs('k', '')}) ${isSuspect[health]}`,
  ].join(' ');
}

/** Rows from before there was an order number come first. */
const arrivalOrder = (d: Dialect): string => `enqueue_seq ${d.name === 'postgres' ? 'nulls first' : ''}, created_at`;
export const queueOrder = (d: Dialect): string => `priority, ${arrivalOrder(d)}`;

/** The same within one stretch. Postgres does not see that an index is in this order where the version is null. */
export const stretchOrder = (d: Dialect): string => `application_version, ${queueOrder(d)}`;

/**
 * It rested, so that it has started before: that it goes on is no start, and counts for no rate limit. That its process
 * died meanwhile, or handed it over, makes no difference.
 */
const isReturn = '(resting_owner is not null and started_at_epoch_ms is not null)';

const portionColumns: Columns<Portion> = { partition: 'text', n: 'int' };

/** Parameters: $1 owner, $2 executor, $3 app, $4 version, $5 now, $6 names, $7 queue, $8 rate, $9 turn. */
function dequeueStatements(d: Dialect) {
  const forms = (form: Omit<Form, 'hold'>) => ({
    free: dequeueStatement(d, { ...form, hold: 'free' }),
    shared: dequeueStatement(d, { ...form, hold: 'shared' }),
    exclusive: dequeueStatement(d, { ...form, hold: 'exclusive' }),
  });
  const of = (health: Health, firstCome: boolean) => ({
    whole: forms({ health, firstCome, byPartition: false }),
    byPartition: forms({ health, firstCome, byPartition: true }),
  });
  return {
    byPriority: { healthy: of('healthy', false), suspect: of('suspect', false) },
    firstCome: { healthy: of('healthy', true), suspect: of('suspect', true) },
  };
}

type Hold = 'free' | 'shared' | 'exclusive';

interface Form {
  readonly health: Health;
  readonly hold: Hold;
  readonly byPartition: boolean;
  readonly firstCome: boolean;
}

function guardOf(d: Dialect, hold: Hold): Guard {
  const wrap = (before: string, change: string): string => `${before} ${change}`;
  if (hold === 'free') return { before: 'guard as (select 1 as held where cast($9 as bigint) is null)', wrap };
  if (hold === 'shared') {
    return { before: `guard as materialized (${d.heldTurn('$7', 'cast($9 as bigint)')})`, wrap };
  }
  const current = 'name = $7 and turn = cast($9 as bigint) and not paused';
  return d.exclusively(`update ${d.table('queues')} set turn = turn + 1 where ${current}`);
}

function dequeueStatement(d: Dialect, { health, hold, byPartition, firstCome }: Form): BatchStatement<Portion> {
  const workflows = d.table('workflow_status');
  const guard = guardOf(d, hold);
  // A whole queue has no use for the parameter, but a database wants to know the type of each.
  const scope = (partition: string) =>
    byPartition ? `queue_partition_key = ${partition}` : `cast(${partition} as text) is null`;
  const taker = { app: '$3', version: '$4' };
  const candidates = d.perRow(portionColumns, 10, (column) => ({
    columns: `workflow_uuid as id, started_at_epoch_ms as started, ${isReturn} as returns, (select k.most from known k where ${isKnownAs('k', '')}) as most`,
    stretches: stretches(d, taker).map(
      (stretch) =>
        `from ${workflows} where ${waiting(d, health, byPartition)} and queue_name = $7 and ${scope(column('partition'))} and ${stretch}`,
    ),
    // In here, so that nothing is locked in vain; and before the rows, so that the turn is taken first.
    condition: `${fitting(taker, health)} and (select count(*) from guard) > 0`,
    order: firstCome ? arrivalOrder(d) : queueOrder(d),
    orderOfStretch: stretchOrder(d),
    firstCome,
  }));
  const dead = 'recovery_attempts > p.most';
  // Under a rate limit, not before the claim could go ahead: it may have waited for its turn since it was sent.
  const start = `case when cast($8 as boolean) then ${d.notBeforeNow('cast($5 as bigint)')} else cast($5 as bigint) end`;
  return {
    name: `workflows.dequeue-${health === 'suspect' ? 'suspects-' : ''}${byPartition ? 'partitions-' : ''}${hold}`,
    ...(firstCome && { variant: 'first-come' }),
    columns: portionColumns,
    ...(guard.guard && { guard: guard.guard }),
    text: guard.wrap(
      `with ${knownWorkflows(d, '$6')}, ${guard.before}, ` +
        `picked as materialized (select per_row.* from ${candidates})`,
      [
        `update ${workflows} as w set owner_xid = $1, executor_id = $2,`,
        'application_version = coalesce(application_version, $4), application_name = coalesce(application_name, $3),',
        'updated_at = cast($5 as bigint),',
        `started_at_epoch_ms = case when p.returns then started_at_epoch_ms else ${start} end,`,
        'rate_limited = case when p.returns then rate_limited else cast($8 as boolean) end,',
        'resting_owner = null, recovery_attempts = recovery_attempts + 1,',
        'workflow_deadline_epoch_ms = case when workflow_timeout_ms is null then workflow_deadline_epoch_ms',
        'when workflow_deadline_epoch_ms < cast($5 as bigint) + workflow_timeout_ms then workflow_deadline_epoch_ms',
        'else cast($5 as bigint) + workflow_timeout_ms end,',
        `status = case when ${dead} then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' else 'PENDING' end,`,
        `deduplication_id = case when ${dead} then null else deduplication_id end,`,
        `completed_at = case when ${dead} then cast($5 as bigint) end`,
        `from picked p where w.workflow_uuid = p.id`,
        `returning ${claimedColumns(d)}, ${d.neverRan('p.started')} as never_ran, ${d.mixed('p')} as mixed`,
      ].join(' '),
    ),
  };
}
