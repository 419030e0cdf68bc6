import { activeStatuses, type WorkflowStatus } from '../../model/status.js';
import type { Deletions, ExpiredPage, Obstacle } from '../contract/deletions.js';
import type { Database, Dialect, Row, Statement } from '../database.js';
import { payloadTables } from './payloads.js';

/** Deletes workflows together with all their descendants. A tree of workflows is deleted as a whole or not at all. */
export class SqlDeletions implements Deletions {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = deletionStatements(database.dialect);
  }

  async remove(params: Parameters<Deletions['remove']>[0]): Promise<number> {
    return (await this.database.query(this.sql.remove, this.params(params))).length;
  }

  async obstacles(params: Parameters<Deletions['obstacles']>[0]): Promise<Obstacle[]> {
    return (await this.database.query(this.sql.obstacles, this.params(params))).map(toObstacle);
  }

  async cutoff({ appName, keep }: Parameters<Deletions['cutoff']>[0]): Promise<number | undefined> {
    const [row] = await this.database.query(this.sql.cutoff, [appName, Math.max(0, keep - 1)]);
    return row && Number(row.completed_at) + (keep === 0 ? 1 : 0);
  }

  async expired({ appName, before, after, limit }: Parameters<Deletions['expired']>[0]): Promise<ExpiredPage> {
    const values = [appName, before, after?.completedAt ?? Number.MIN_SAFE_INTEGER, after?.workflowId ?? '', limit];
    const rows = await this.database.query(this.sql.expired, values);
    const last = rows.length < limit ? undefined : rows.at(-1);
    return {
      roots: rows.filter((row) => row.is_root).map((row) => row.id as string),
      next: last && { completedAt: Number(last.completed_at), workflowId: last.id as string },
    };
  }

  async removeExpired({ workflowIds, before }: Parameters<Deletions['removeExpired']>[0]): Promise<number> {
    const values = [this.database.dialect.list(workflowIds), true, before];
    return (await this.database.query(this.sql.removeExpired, values)).length;
  }

  private params({ workflowIds, children }: Parameters<Deletions['remove']>[0]): unknown[] {
    return [this.database.dialect.list(workflowIds), children];
  }
}

function toObstacle({ kind, id, other }: Row): Obstacle {
  const workflowId = id as string;
  if (kind === 'unfinished') return { kind, workflowId, status: other as WorkflowStatus };
  if (kind === 'child') return { kind, workflowId, parentWorkflowId: other as string };
  return { kind: 'needed', workflowId, neededBy: other as string };
}

const active = activeStatuses.map((status) => `'${status}'`).join(', ');

/** Selects the workflows of the list $1, each as a root, and all their descendants. */
function treeOf(d: Dialect): string {
  const roots =
    `select workflow_uuid as root, workflow_uuid as id from ${d.table('workflow_status')} ` +
    `where ${d.anyOf('workflow_uuid', '$1')}`;
  return `tree(root, id) as (${d.few(roots)} union select t.root, c.workflow_uuid from tree t ${d.children('t.id')})`;
}

/**
 * Selects the obstacles that prevent the deletion of each root, over `tree`. Each member costs index probes. On
 * Postgres the form of the query keeps the planner from joining whole tables. An unfinished parent inside the tree is
 * an obstacle of its own.
 */
function obstaclesOf(
  d: Dialect,
  { unfinished, needing }: { readonly unfinished: string; readonly needing: string },
): string {
  const workflows = d.table('workflow_status');
  const member = probe(d, 'w', `from ${workflows} where workflow_uuid = t.id`);
  const parent = probe(d, 'p', `from ${workflows} where workflow_uuid = w.parent_workflow_id`);
  const record = probe(
    d,
    'o',
    `from ${d.table('operation_outputs')} where child_workflow_id = t.id and child_workflow_id is not null`,
  );
  const holder = probe(d, 'u', `from ${workflows} where workflow_uuid = o.workflow_uuid`);
  return (
    'obstacles as materialized (' +
    `select t.root, 'unfinished' as kind, t.id, w.status as other from tree t ${member} where ${unfinished} ` +
    `union all select t.root, 'child', t.id, w.parent_workflow_id from tree t ${member} ` +
    `where not cast($2 as boolean) and t.id <> t.root and not (${d.anyOf('t.id', '$1')}) ` +
    `union all select t.root, 'needed', t.id, p.workflow_uuid from tree t ${member} ${parent} where p.status in (${needing}) ` +
    `union all select t.root, 'needed', t.id, u.workflow_uuid from tree t ${record} ${holder} where u.status in (${needing}))`
  );
}

/** A join that probes an index for each row of the preceding source. */
function probe(d: Dialect, alias: string, from: string): string {
  if (d.name === 'postgres') return `cross join lateral (${d.few(`select * ${from}`)}) ${alias}`;
  const [table, condition = ''] = from.replace(/^from /, '').split(' where ');
  const own = condition.replace(/(^| and )(workflow_uuid|child_workflow_id)/g, `$1${alias}.$2`);
  // `cross join` fixes the order. SQLite could reverse a plain join and read the whole table.
  return `cross join ${table} ${alias} on ${own}`;
}

/**
 * Workflows that `resume` can restart are kept, whatever their age. CANCELLED workflows are the exception: they were
 * cancelled on purpose.
 */
const waitingForOperator = "'STALLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'";
const expiring = "'SUCCESS', 'ERROR', 'CANCELLED'";

const onRequest = { unfinished: `w.status in (${active})`, needing: active };
/** Parameter $3: every workflow of the tree must have ended before this instant. */
const byAge = {
  unfinished: `(w.status not in (${expiring}) or coalesce(w.completed_at >= cast($3 as bigint), true))`,
  needing: `${active}, ${waitingForOperator}`,
};

function deletionStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  const ofThisApp = '(application_name is null or application_name = $1)';
  return {
    remove: removeStatement(d, 'workflows.delete', onRequest, 'not exists (select 1 from obstacles)'),
    removeExpired: removeStatement(d, 'workflows.delete-expired', byAge, 't.root not in (select root from obstacles)'),
    obstacles: {
      name: 'workflows.obstacles',
      pinned: true as const,
      text:
        `with recursive ${treeOf(d)}, ${obstaclesOf(d, onRequest)} select kind, id, other from obstacles ` +
        "order by case kind when 'child' then 0 when 'unfinished' then 1 else 2 end, id limit 100",
    },
    cutoff: {
      name: 'workflows.retention-cutoff',
      pinned: true as const,
      text:
        `select completed_at from ${workflows} where completed_at is not null and ${ofThisApp} ` +
        'order by completed_at desc limit 1 offset cast($2 as int)',
    },
    // The page is cut first, including rows that are not roots. To fill a page with roots alone, the statement would
    // have to read all children that come between the roots.
    expired: {
      name: 'workflows.expired-page',
      pinned: true as const,
      text: [
        `with page as materialized (select workflow_uuid as id, completed_at, parent_workflow_id, status, application_name, schedule_name from ${workflows}`,
        'where completed_at is not null and completed_at < cast($2 as bigint) and completed_at >= cast($3 as bigint)',
        'and (completed_at > cast($3 as bigint) or workflow_uuid > $4) order by completed_at, workflow_uuid limit cast($5 as int))',
        `select id, completed_at, (status in (${expiring}) and ${ofThisApp} and not exists`,
        `(select 1 from ${workflows} w where w.workflow_uuid = page.parent_workflow_id) and not ${isOnlyRecordOfTick(d)}) as is_root`,
        'from page order by completed_at, id',
      ].join(' '),
    },
  };
}

/**
 * Returns a condition: the workflow of `page` is the only record that its tick was fired, because the process that
 * fired the tick died before it updated `last_fired_at`. If this workflow were deleted, the next process that runs the
 * schedule would fire the tick again: the ID of the workflow, which ends with the instant of the tick, would be free.
 * Workflows that were triggered by hand have IDs of another form and are no ticks.
 */
function isOnlyRecordOfTick(d: Dialect): string {
  const instant = 'substr(page.id, length(page.id) - 23)';
  return (
    `exists (select 1 from ${d.table('workflow_schedules')} s where s.schedule_name = page.schedule_name ` +
    `and page.id = 'sched-' || s.schedule_name || '-' || ${instant} ` +
    `and s.active_since is not null and coalesce(s.last_fired_at, '') < ${instant})`
  );
}

/**
 * Locks the whole tree first. A concurrent `resume` then either commits before, and the deletion sees an unfinished
 * workflow, or waits for the lock and finds no workflow. Only ended workflows are locked: waiting for the lock of a
 * running workflow could deadlock, because the transaction that holds this lock may itself wait for a workflow of the
 * tree.
 *
 * Foreign keys delete the rows that belong to a workflow. But a database that DBOS 5 migrated has no foreign key for
 * steps, and there is none for payloads. A payload that remained would become the input of the next workflow with that
 * ID: DBOS 5 inserts with `on conflict do nothing`, and reads this table before any other. On SQLite a trigger deletes
 * payloads.
 */
function removeStatement(d: Dialect, name: string, rules: typeof onRequest, condition: string): Statement {
  const workflows = d.table('workflow_status');
  const before =
    `with recursive ${treeOf(d)}, ${obstaclesOf(d, rules)}, ` +
    `picked as materialized (select t.id from tree t where ${condition})`;
  const remove = `delete from ${workflows} where workflow_uuid in (select id from picked) returning workflow_uuid`;
  const statement = { name, pinned: true as const };
  if (!d.locksRows) return { ...statement, text: `${before} ${remove}` };
  // Both statements get all parameters, and the database needs the type of every parameter.
  const typed =
    rules === byAge ? 'cast($2 as boolean) and cast($3 as bigint) is not null' : 'cast($2 as boolean) is not null';
  return {
    ...statement,
    first:
      `with recursive ${treeOf(d)} select count(*) from (select 1 from ${workflows} where workflow_uuid in ` +
      `(select id from tree) and status not in (${active}) and ${typed} ` +
      `order by ${d.lockOrder('workflow_uuid')} ${d.forUpdate}) locked`,
    text:
      `${before}, gone as (${remove}), ${payloadTables.map((table) => `${table} as (${clear(d, table)})`).join(', ')}, ` +
      `steps as (${clear(d, 'operation_outputs')}) select workflow_uuid from gone`,
  };
}

const clear = (d: Dialect, table: string): string =>
  `delete from ${d.table(table)} where workflow_uuid in (select workflow_uuid from gone)`;
