import { internalQueue } from '../../model/queues.js';
import { activeStatuses } from '../../model/status.js';
import type { CancelledWorkflow } from '../contract/storage.js';
import type {
  FreeWork,
  IncompleteFilter,
  IncompleteRecord,
  RecoveryDecision,
  TakenOver,
  Takeover,
  Takeovers,
} from '../contract/takeovers.js';
import { type Database, type Dialect, type Row, waitingRows } from '../database.js';
import { toCancelled, toKey } from './rows.js';
import { classOf, configOf, isKnownAs } from './runnable-workflows.js';

/**
 * Takes over the work of dead executors, page by page. dequeue.ts later claims this work from queues like any other.
 */
export class SqlTakeovers implements Takeovers {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = takeoverStatements(database.dialect);
  }

  async cancel(takeover: Takeover): Promise<(CancelledWorkflow & { name: string })[]> {
    const rows = await this.database.query(this.sql[selectedBy(takeover.free)].cancel, this.params(takeover));
    return rows.map((row) => ({ ...toCancelled(row), name: row.name as string }));
  }

  async descendants(workflowIds: readonly string[]) {
    const rows = await this.database.query(this.sql.descendants, [this.database.dialect.list(workflowIds)]);
    return rows.map((row) => ({
      workflowId: row.workflow_uuid as string,
      name: row.name as string,
      root: row.root as string,
    }));
  }

  async putBack(takeover: Takeover & { queueName: string; passOverLocked?: boolean }): Promise<TakenOver[]> {
    const params = [...this.params(takeover), takeover.queueName];
    const { putBack, putBackUnlocked } = this.sql[selectedBy(takeover.free)];
    const rows = await this.database.query(takeover.passOverLocked ? putBackUnlocked : putBack, params);
    return rows.map(toTakenOver);
  }

  async left(free: FreeWork) {
    const rows = await this.database.query(this.sql[selectedBy(free)].left, this.freeParams(free));
    return rows.map((row) => ({
      ...toKey(row),
      workflowId: row.workflow_uuid as string,
      count: Number(row.count),
    }));
  }

  async stranded(free: FreeWork) {
    return (await this.database.query(this.sql[selectedBy(free)].stranded, this.freeParams(free))).map(toVersionCount);
  }

  async executors(params: { version: string; appName: string }): Promise<string[]> {
    const rows = await this.database.query(this.sql.executors, [params.appName, params.version]);
    return rows.map((row) => row.executor_id as string);
  }

  async otherVersions(params: { version: string; appName: string }) {
    return (await this.database.query(this.sql.otherVersions, [params.appName, params.version])).map(toVersionCount);
  }

  async pendingUnder({ executorId, version, incarnation }: Parameters<Takeovers['pendingUnder']>[0]) {
    const rows = await this.database.query(this.sql.pendingUnder, [executorId, version, incarnation]);
    return rows.map((row) => ({ workflowId: row.workflow_uuid as string, owner: row.owner_xid as string }));
  }

  async incomplete(filter: IncompleteFilter): Promise<IncompleteRecord[]> {
    const { text, params } = incompleteQuery(this.database.dialect, filter);
    const rows = await this.database.query({ name: 'takeovers.incomplete', text, unprepared: true }, params);
    return rows.map(toIncomplete);
  }

  private freeParams(free: FreeWork): unknown[] {
    const executors = 'executors' in free ? free.executors : [];
    const ids = 'executors' in free ? executors.map(({ executorId }) => executorId) : free.workflowIds;
    const dead = executors.map(({ executorId, incarnation, beats = null }) => ({
      executor: executorId,
      incarnation,
      beats,
    }));
    const live: { incarnation: string | null; dead: boolean }[] = free.live.map((incarnation) => ({
      incarnation,
      dead: false,
    }));
    // The row with the incarnation null makes the statement read the table of executors too.
    if (free.dead) live.push(...[null, ...free.dead].map((incarnation) => ({ incarnation, dead: true })));
    const list = this.database.dialect.list([...new Set(ids)]);
    return [free.appName, free.version, list, JSON.stringify(live), JSON.stringify(dead)];
  }

  private params({ free, decisions, now, limit }: Takeover): unknown[] {
    return [...this.freeParams(free), now, decisionsJson(decisions), limit];
  }
}

function selectedBy(free: FreeWork): 'executor' | 'id' {
  return 'executors' in free ? 'executor' : 'id';
}

const largestInt = 2 ** 31 - 1;

const decisionColumns = {
  runnable: 'text',
  class: 'text',
  config: 'text',
  most: 'int',
  oldest: 'bigint',
  too_old: 'text',
  exceeded: 'text',
  not_resumed: 'text',
  aside: 'text',
  resumes: 'bool',
} as const;

function decisionsJson(decisions: readonly RecoveryDecision[]): string {
  return JSON.stringify(
    decisions.map((decision) => ({
      runnable: decision.name,
      class: decision.className ?? '',
      config: decision.configName ?? '',
      most: Math.min(decision.maxAttempts, largestInt),
      oldest: decision.tooOld?.startedBefore ?? null,
      too_old: decision.tooOld?.reason ?? null,
      exceeded: decision.exceeded,
      not_resumed: decision.notResumed,
      aside: decision.stallReason,
      resumes: decision.resumes,
    })),
  );
}

const ofThisApp = '(application_name is null or application_name = $1)';
const ofThisVersion = `application_version = $2 and ${ofThisApp}`;
const ownedBy = (incarnation: string): string =>
  `substr(owner_xid, 1, length(${incarnation}) + 1) = ${incarnation} || '.'`;

/** A condition: the work was handed over at shutdown. It uses the words of the index on ENQUEUED work by queue. */
const handedOver = (d: Dialect): string => `${waitingRows[d.name].onQueue} and queue_name = '${internalQueue}'`;
const isAnother = 'application_version <> $2';

/** The time of the first start. A takeover keeps this time; each dequeue sets `started_at_epoch_ms` again. */
const firstStart = 'coalesce(first_started_at, started_at_epoch_ms, created_at)';

/**
 * Returns the queries and the condition that select free work.
 *
 * Parameters: $1 app, $2 version, $3 executors or workflows (list), $4 live and dead incarnations (JSON), $5 the dead
 * executors (JSON). The statement reads the live incarnations from the table itself. The work of a process that joined
 * after the caller read the table must not be taken.
 *
 * An executor that was declared dead for its missing heartbeats keeps its remaining work if it sends a heartbeat
 * again. Statements that change something lock the row of the executor (`lock`). A heartbeat then either commits
 * before, and the statement sees it, or waits until the statement has committed, and the executor learns that it lost
 * work.
 *
 * On Postgres, `is true` keeps the planner from turning a condition into a join, which would process all rows before
 * the limit applies. Instead Postgres scans the index over PENDING work by executor, and stops when a page is full.
 */
function freeWork(d: Dialect, selectBy: 'executor' | 'id', lock = '') {
  const incarnations = d.jsonRows('l', { incarnation: 'text', dead: 'bool' }, '$4');
  const live =
    `said as materialized (${d.few(`select l.incarnation, l.dead from ${incarnations}`)}), ` +
    'live as materialized (select incarnation from said where not dead union ' +
    `select e.incarnation from ${d.table('executors')} e where exists (select 1 from said where incarnation is null) ` +
    'and e.incarnation not in (select s.incarnation from said s where s.dead and s.incarnation is not null))';
  const deadExecutors = d.jsonRows('b', { executor: 'text', incarnation: 'text', beats: 'bigint' }, '$5');
  const queries =
    `${live}, meant as materialized (${d.few(`select b.executor, b.incarnation, b.beats from ${deadExecutors}`)}), ` +
    `heard as materialized (select incarnation, beats from ${d.table('executors')} ` +
    `where incarnation in (select incarnation from meant) ${lock}), ` +
    'bereft as materialized (select b.executor, b.incarnation from meant b where b.beats is null ' +
    'or not exists (select 1 from heard h where h.incarnation = b.incarnation and h.beats > b.beats))';
  const isLive = `exists (select 1 from live l where ${ownedBy('l.incarnation')})`;
  if (selectBy === 'id') return { queries, condition: `${d.anyOf('workflow_uuid', '$3')} and (not ${isLive}) is true` };
  const belongsToDead =
    '(exists (select 1 from bereft b where b.executor = executor_id ' +
    `and case when b.incarnation is null then not ${isLive} else ${ownedBy('b.incarnation')} end)) is true`;
  return { queries, condition: `${d.anyOf('executor_id', '$3')} and ${belongsToDead}` };
}

function takeoverStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  const given =
    `select workflow_uuid as id, workflow_uuid as root from ${workflows} ` + `where ${d.anyOf('workflow_uuid', '$1')}`;
  return {
    executor: freeStatements(d, 'executor'),
    id: freeStatements(d, 'id'),
    executors: {
      name: 'takeovers.executors',
      shared: true as const,
      text:
        `select distinct executor_id from ${workflows} where status = 'PENDING' and executor_id is not null ` +
        `and application_version = $2 and ${ofThisApp}`,
    },
    // The condition uses the words of the index on PENDING work.
    pendingUnder: {
      name: 'takeovers.pendingUnder',
      shared: true as const,
      text:
        `select workflow_uuid, owner_xid from ${workflows} where status = 'PENDING' and executor_id = $1 ` +
        `and application_version = $2 and ${ownedBy('cast($3 as text)')}`,
    },
    otherVersions: {
      name: 'takeovers.otherVersions',
      shared: true as const,
      // The text has two selects, so that each can use its own index.
      text:
        'select application_version, count(*) as count from (' +
        ["status = 'PENDING'", handedOver(d)]
          .map((held) => `select application_version from ${workflows} where ${held} and ${isAnother} and ${ofThisApp}`)
          .join(' union all ') +
        ') as others group by application_version order by application_version',
    },
    descendants: {
      name: 'takeovers.descendants',
      text:
        `with recursive tree(id, root) as (${d.few(given)} union ` +
        `select c.workflow_uuid, t.root from tree t ${d.children('t.id')} where not c.detached) ` +
        `select w.workflow_uuid, w.name, min(t.root) as root from tree t join ${workflows} w on w.workflow_uuid = t.id ` +
        `where t.id <> t.root and w.status in (${quoted(activeStatuses)}) group by w.workflow_uuid, w.name`,
    },
  };
}

/**
 * Parameters, after those of {@link freeWork}: $6 now, $7 decisions (JSON), $8 limit, $9 queue for work without a
 * queue.
 */
function freeStatements(d: Dialect, selectBy: 'executor' | 'id') {
  const workflows = d.table('workflow_status');
  const { queries, condition } = freeWork(d, selectBy);
  const free = `status = 'PENDING' and ${ofThisVersion} and ${condition}`;
  return {
    cancel: { name: `takeovers.cancel-by-${selectBy}`, text: cancelText(d, selectBy) },
    putBack: { name: `takeovers.putBack-by-${selectBy}`, text: putBackText(d, selectBy, d.forUpdate), pinned: true },
    putBackUnlocked: {
      name: `takeovers.putBackUnlocked-by-${selectBy}`,
      text: putBackText(d, selectBy, d.forUpdateSkipLocked),
    },
    left: {
      name: `takeovers.left-by-${selectBy}`,
      text:
        `with ${queries} select name, class_name, config_name, min(workflow_uuid) as workflow_uuid, count(*) as count ` +
        `from ${workflows} where ${free} group by name, class_name, config_name`,
    },
    stranded: {
      name: `takeovers.stranded-by-${selectBy}`,
      text:
        `with ${queries} select application_version, count(*) as count from ${workflows} where status = 'PENDING' ` +
        `and application_version <> $2 and ${ofThisApp} and ${condition} group by application_version`,
    },
  };
}

const decisionsQuery = (d: Dialect): string =>
  `fates as materialized (${d.few(`select f.* from ${d.jsonRows('f', decisionColumns, '$7')}`)})`;

/** The reason for which a row is cancelled, or null. */
const cancelReason =
  `(select coalesce(case when ${firstStart} < f.oldest then f.too_old ` +
  `when coalesce(recovery_attempts, 0) > f.most then f.exceeded end, f.not_resumed) ` +
  `from fates f where ${isKnownAs('f', '')})`;

/** Rows that another session has locked are skipped. Waiting for them while holding other locks could deadlock. */
function cancelText(d: Dialect, selectBy: 'executor' | 'id'): string {
  const workflows = d.table('workflow_status');
  const { queries, condition } = freeWork(d, selectBy, d.forShare);
  const free = `status = 'PENDING' and ${ofThisVersion} and ${condition}`;
  const active = quoted(activeStatuses);
  const roots =
    `select workflow_uuid as id, ${cancelReason} as reason from ${workflows} ` +
    `where ${free} and ${cancelReason} is not null limit $8 ${d.forUpdateSkipLocked}`;
  const picked =
    `select workflow_uuid as id from ${workflows} where workflow_uuid in (select id from tree) ` +
    `and status in (${active}) order by ${d.lockOrder('workflow_uuid')} ${d.forUpdate}`;
  return [
    `with recursive ${queries}, ${decisionsQuery(d)},`,
    `roots as materialized (${d.few(roots)}),`,
    `tree(id, reason) as (select id, reason from roots union`,
    `select c.workflow_uuid, t.reason from tree t ${d.children('t.id')} where not c.detached),`,
    `picked as materialized (${d.few(picked)})`,
    `update ${workflows} set status = 'CANCELLED', completed_at = cast($6 as bigint), updated_at = cast($6 as bigint),`,
    `status_reason = (select min(t.reason) from tree t where t.id = workflow_uuid), deduplication_id = null`,
    `where workflow_uuid in (select id from picked) and status in (${active})`,
    'returning workflow_uuid, owner_xid, status_reason, queue_name, name',
  ].join(' ');
}

/**
 * Finds the rows first, then locks them in the order of their IDs, and checks them again. The lock waits for the last
 * checkpoint of the former owner, if that checkpoint is not committed yet. The check leaves out rows that another
 * process has taken in the meantime.
 */
function putBackText(d: Dialect, selectBy: 'executor' | 'id', lock: string): string {
  const workflows = d.table('workflow_status');
  const { queries, condition } = freeWork(d, selectBy, d.forShare);
  const free = `status = 'PENDING' and ${ofThisVersion} and ${condition}`;
  // A dequeue would reach the same result, but only after the workflow has waited for its place on the queue.
  const isDeadLetter = 'coalesce(recovery_attempts, 0) > f.most';
  const isBack = `f.aside is null and not (${isDeadLetter})`;
  return [
    `with ${queries}, ${decisionsQuery(d)},`,
    `found as materialized (select workflow_uuid as id from ${workflows} where ${free} and ${cancelReason} is null`,
    `and ((name, ${classOf('')}, ${configOf('')}) in (select runnable, class, config from fates where resumes)) is true`,
    'limit $8),',
    `picked as materialized (select workflow_uuid as id from ${workflows} w where workflow_uuid in (select id from found)`,
    `and ${d.stillPending('w')} and ${ofThisVersion} and ${condition} order by ${d.lockOrder('workflow_uuid')} ${lock})`,
    `update ${workflows} as w set status = case when f.aside is not null then 'STALLED'`,
    `when ${isDeadLetter} then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' else 'ENQUEUED' end,`,
    `recovery_attempts = case when f.aside is null and ${isDeadLetter} then recovery_attempts + 1 else recovery_attempts end,`,
    'status_reason = f.aside, updated_at = cast($6 as bigint),',
    `completed_at = case when ${isBack} then null else cast($6 as bigint) end,`,
    `owner_xid = case when ${isBack} then null else owner_xid end,`,
    `executor_id = case when ${isBack} then null else executor_id end,`,
    `queue_name = case when ${isBack} then coalesce(queue_name, $9) else queue_name end,`,
    `deduplication_id = case when ${isBack} then deduplication_id end,`,
    'first_started_at = coalesce(first_started_at, started_at_epoch_ms)',
    `from fates f where ${isKnownAs('f', 'w.')} and workflow_uuid in (select id from picked)`,
    'returning workflow_uuid, status, name, class_name, config_name, queue_name, recovery_attempts, created_at',
  ].join(' ');
}

function quoted(statuses: readonly string[]): string {
  return statuses.map((status) => `'${status}'`).join(', ');
}

function incompleteQuery(d: Dialect, filter: IncompleteFilter): { text: string; params: unknown[] } {
  const params: unknown[] = [];
  const param = (value: unknown): string => `$${params.push(value)}`;
  const conditions: string[] = ['true'];
  const { appName, workflowIds, executorIds, name, after } = filter;
  if (appName !== '') conditions.push(`(application_name is null or application_name = ${param(appName)})`);
  if (workflowIds) conditions.push(d.anyOf('workflow_uuid', param(d.list(workflowIds))));
  if (executorIds) conditions.push(d.anyOf('executor_id', param(d.list(executorIds))));
  if (name !== undefined) conditions.push(`name = ${param(name)}`);
  if (after) {
    const [createdAt, id] = [`cast(${param(after.createdAt)} as bigint)`, param(after.workflowId)];
    conditions.push(`(created_at > ${createdAt} or (created_at = ${createdAt} and workflow_uuid > ${id}))`);
  }
  const sources = filter.handedOver?.only ? [] : ["status = 'PENDING'"];
  if (filter.handedOver) {
    const isKept = d.anyOf('application_version', param(d.list(filter.handedOver.butFor)));
    sources.push(`${handedOver(d)} and application_version is not null and not (${isKept})`);
  }
  const selects = sources.map(
    (source) =>
      'select workflow_uuid, name, class_name, config_name, executor_id, owner_xid, application_version, status, ' +
      `recovery_attempts, created_at, ${firstStart} as started_at from ${d.table('workflow_status')} ` +
      `where ${source} and ${conditions.join(' and ')}`,
  );
  const text =
    `${selects.join(' union all ')} order by created_at, workflow_uuid ` +
    `limit ${param(filter.limit)} offset ${param(filter.offset ?? 0)}`;
  return { text, params };
}

function toTakenOver(row: Row): TakenOver {
  return {
    ...toKey(row),
    workflowId: row.workflow_uuid as string,
    status: row.status as TakenOver['status'],
    queueName: row.queue_name as string | null,
    attempts: Number(row.recovery_attempts ?? 0),
    createdAt: Number(row.created_at),
  };
}

function toVersionCount(row: Row): { version: string; count: number } {
  return { version: row.application_version as string, count: Number(row.count) };
}

function toIncomplete(row: Row): IncompleteRecord {
  return {
    ...toKey(row),
    workflowId: row.workflow_uuid as string,
    status: row.status as IncompleteRecord['status'],
    executorId: row.executor_id as string | null,
    owner: row.owner_xid as string | null,
    version: row.application_version as string | null,
    attempts: Number(row.recovery_attempts ?? 0),
    createdAt: Number(row.created_at),
    startedAt: Number(row.started_at),
  };
}
