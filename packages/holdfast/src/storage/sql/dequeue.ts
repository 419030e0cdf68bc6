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
 * Claims work from a queue. One statement picks rows and makes this executor their owner, for any number of portions.
 *
 * **Lock version.** The column `turn` of the queue's row protects the settings of the queue and the limits of the
 * whole fleet. Every edit of the queue increments it, and so does every claim under a limit that spans processes.
 * Such a claim is planned from counts that were read under a lock version, and commits only under the same lock
 * version. No other process can have claimed work in between, so the counts can only have fallen. A claim without
 * such a limit reads the lock version and locks it against change until commit. An edit or a pause waits for these
 * claims, and later claims see the edit.
 *
 * **Suspects.** A workflow that kills its process also kills the workflows that run beside it, and costs each of them
 * an attempt. A workflow that has used up half of its attempts is therefore claimed alone (`suspects`), so that only
 * the culprit dies.
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

/** The parameters of a statement that hold the application and the version of the claiming process. */
interface Claimer {
  readonly app: string;
  readonly version: string;
}

/** A `suspect` has used up half of its attempts; every other workflow is `healthy`. One claim takes only one kind. */
export type Health = 'healthy' | 'suspect';

/**
 * Returns the condition for waiting rows of one kind, in the same words as the index for these rows. Suspects have
 * indexes of their own, over the rows that were tried before. Without these indexes, a search for suspects would read
 * every waiting row, even if no row is a suspect.
 */
export function waiting(d: Dialect, health: Health, byPartition: boolean): string {
  const rows = health === 'healthy' ? waitingRows[d.name] : retriedRows;
  return rows[byPartition ? 'inPartition' : 'onQueue'];
}

/**
 * Returns the conditions on the version of an ENQUEUED row that a process may claim: the version of the process, or
 * no version if the process has the latest version. Each condition selects one stretch of the index. Rows that wait
 * for other versions are therefore not read, however many there are.
 */
export function stretches(d: Dialect, { app, version }: Claimer): readonly [string, string] {
  const latest = latestVersion(d, app);
  return [`application_version = ${version}`, `application_version is null and ${version} = ${latest}`];
}

/**
 * Returns the other conditions on such a row: it belongs to the application, and the process knows its workflow. The
 * check against `known` is a scalar subquery. The planner could reverse a join or an EXISTS, and then read the whole
 * queue for each known workflow.
 */
export function fitting({ app }: Pick<Claimer, 'app'>, health: Health | 'either'): string {
  const isSuspect = { healthy: '= false', suspect: '= true', either: 'is not null' };
  return [
    `(application_name is null or application_name = ${app})`,
    'and (select coalesce(recovery_attempts, 0) > 0 and recovery_attempts * 2 >= k.most',
    `from known k where ${isKnownAs('k', '')}) ${isSuspect[health]}`,
  ].join(' ');
}

/** Rows that were stored before order numbers existed come first. */
const arrivalOrder = (d: Dialect): string => `enqueue_seq ${d.name === 'postgres' ? 'nulls first' : ''}, created_at`;
export const queueOrder = (d: Dialect): string => `priority, ${arrivalOrder(d)}`;

/**
 * The order within one stretch. It names the version, because Postgres does not recognize the order of the index
 * where the version is null.
 */
export const stretchOrder = (d: Dialect): string => `application_version, ${queueOrder(d)}`;

/**
 * Condition: the workflow was suspended before. A suspended workflow that resumes is not a new start, so it does not
 * count against the rate limit. This also holds if its process died or handed the workflow over in the meantime.
 */
const wasSuspended = '(resting_owner is not null and started_at_epoch_ms is not null)';

const portionColumns: Columns<Portion> = { partition: 'text', n: 'int' };

/** Parameters: $1 owner, $2 executor, $3 app, $4 version, $5 now, $6 names, $7 queue, $8 rate, $9 lock version. */
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
    return { before: `guard as materialized (${d.holdLockVersion('$7', 'cast($9 as bigint)')})`, wrap };
  }
  const current = 'name = $7 and turn = cast($9 as bigint) and not paused';
  return d.exclusively(`update ${d.table('queues')} set turn = turn + 1 where ${current}`);
}

function dequeueStatement(d: Dialect, { health, hold, byPartition, firstCome }: Form): BatchStatement<Portion> {
  const workflows = d.table('workflow_status');
  const guard = guardOf(d, hold);
  // A claim from a whole queue does not use the partition parameter, but the database needs the type of every
  // parameter.
  const scope = (partition: string) =>
    byPartition ? `queue_partition_key = ${partition}` : `cast(${partition} as text) is null`;
  const claimer = { app: '$3', version: '$4' };
  const candidates = d.perRow(portionColumns, 10, (column) => ({
    columns: `workflow_uuid as id, started_at_epoch_ms as started, ${wasSuspended} as returns, (select k.most from known k where ${isKnownAs('k', '')}) as most`,
    stretches: stretches(d, claimer).map(
      (stretch) =>
        `from ${workflows} where ${waiting(d, health, byPartition)} and queue_name = $7 and ${scope(column('partition'))} and ${stretch}`,
    ),
    // The guard is checked here, so that no row is locked if the guard fails, and so that the queue's row is locked
    // before the workflow rows.
    condition: `${fitting(claimer, health)} and (select count(*) from guard) > 0`,
    order: firstCome ? arrivalOrder(d) : queueOrder(d),
    orderOfStretch: stretchOrder(d),
    firstCome,
  }));
  const isDeadLetter = 'recovery_attempts > p.most';
  // Under a rate limit, the start counts from the moment at which the claim got the lock of the queue. The claim may
  // have waited for this lock since the statement was sent.
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
        `status = case when ${isDeadLetter} then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' else 'PENDING' end,`,
        `deduplication_id = case when ${isDeadLetter} then null else deduplication_id end,`,
        `completed_at = case when ${isDeadLetter} then cast($5 as bigint) end`,
        `from picked p where w.workflow_uuid = p.id`,
        `returning ${claimedColumns(d)}, ${d.neverRan('p.started')} as never_ran, ${d.mixed('p')} as mixed`,
      ].join(' '),
    ),
  };
}
