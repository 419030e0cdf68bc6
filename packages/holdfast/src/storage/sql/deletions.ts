import { activeStatuses, type WorkflowStatus } from '../../model/status.js';
import type { Deletions, ExpiredPage, Obstacle } from '../contract/deletions.js';
import type { Database, Dialect, Row, Statement } from '../database.js';
import { payloadTables } from './payloads.js';

/** Trees of workflows that go, or stay, as a whole. */
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
  return { kind: 'needed', workflowId, by: other as string };
}

const active = activeStatuses.map((status) => `'${status}'`).join(', ');

/** The workflows of the list $1, each a root, and all below them. */
function treeOf(d: Dialect): string {
  const roots =
    `select workflow_uuid as root, workflow_uuid as id from ${d.table('workflow_status')} ` +
    `where ${d.anyOf('workflow_uuid', '$1')}`;
  return `tree(root, id) as (${d.few(roots)} union select t.root, c.workflow_uuid from tree t ${d.children('t.id')})`;
}

/**
 * What is in the way of each root, over `tree`: probes per member, on Postgres kept from becoming joins over whole tables.
 * A parent in the tree that is unfinished is in the way by itself.
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

/** A join to what is found by an index for each row before it. */
function probe(d: Dialect, alias: string, from: string): string {
  if (d.name === 'postgres') return `cross join lateral (${d.few(`select * ${from}`)}) ${alias}`;
  const [table, condition = ''] = from.replace(/^from /, '').split(' where ');
  const own = condition.replace(/(^| and )(workflow_uuid|child_workflow_id)/g, `$1${alias}.$2`);
  // In this order: SQLite might turn a plain join around, and read the whole table.
  return `cross join ${table} ${alias} on ${own}`;
}

/** What can be started again by `resume` stays whatever its age, but for what was cancelled on purpose. */
const setAside = "'STALLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'";
const expiring = "'SUCCESS', 'ERROR', 'CANCELLED'";

const byHand = { unfinished: `w.status in (${active})`, needing: active };
/** Parameter $3: before when all must have ended. */
const byAge = {
  unfinished: `(w.status not in (${expiring}) or coalesce(w.completed_at >= cast($3 as bigint), true))`,
  needing: `${active}, ${setAside}`,
};

function deletionStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  const ofThisApp = '(application_name is null or application_name = $1)';
  return {
    remove: removeStatement(d, 'workflows.delete', byHand, 'not exists (select 1 from obstacles)'),
    removeExpired: removeStatement(d, 'workflows.delete-expired', byAge, 't.root not in (select root from obstacles)'),
    obstacles: {
      name: 'workflows.obstacles',
      pinned: true as const,
      text:
        `with recursive ${treeOf(d)}, ${obstaclesOf(d, byHand)} select kind, id, other from obstacles ` +
        "order by case kind when 'child' then 0 when 'unfinished' then 1 else 2 end, id limit 100",
    },
    cutoff: {
      name: 'workflows.retention-cutoff',
      pinned: true as const,
      text:
        `select completed_at from ${workflows} where completed_at is not null and ${ofThisApp} ` +
        'order by completed_at desc limit 1 offset cast($2 as int)',
    },
    // The page first, whatever is of use in it: one that passed over children would read all of them to fill itself.
    expired: {
      name: 'workflows.expired-page',
      pinned: true as const,
      text: [
        `with page as materialized (select workflow_uuid as id, completed_at, parent_workflow_id, status, application_name, schedule_name from ${workflows}`,
        'where completed_at is not null and completed_at < cast($2 as bigint) and completed_at >= cast($3 as bigint)',
        'and (completed_at > cast($3 as bigint) or workflow_uuid > $4) order by completed_at, workflow_uuid limit cast($5 as int))',
        `select id, completed_at, (status in (${expiring}) and ${ofThisApp} and not exists`,
        `(select 1 from ${workflows} w where w.workflow_uuid = page.parent_workflow_id) and not ${isMemory(d)}) as is_root`,
        'from page order by completed_at, id',
      ].join(' '),
    },
  };
}

/**
 * Whether a run of `page` is all that says that its tick was run: who fired it died before noting that. Whoever next
 * follows the schedule would catch up with the tick if the ID, which ends with its instant, were free. One that was
 * triggered has an ID of another form, and is no tick.
 */
function isMemory(d: Dialect): string {
  const instant = 'substr(page.id, length(page.id) - 23)';
  return (
    `exists (select 1 from ${d.table('workflow_schedules')} s where s.schedule_name = page.schedule_name ` +
    `and page.id = 'sched-' || s.schedule_name || '-' || ${instant} ` +
    `and s.active_since is not null and coalesce(s.last_fired_at, '') < ${instant})`
  );
}

/**
 * The whole tree is locked first: what is resumed meanwhile is then either seen as unfinished, or waits and finds nothing.
 * Only what has ended is, because what a running workflow holds on to may be waiting for one of these.
 *
 * What belongs to a workflow goes with it by foreign keys, but a database that DBOS 5 has migrated has none for steps, and
 * there is none for payloads. A payload that stayed would be the input of the next workflow of that ID: DBOS 5 inserts with
 * `on conflict do nothing`, and reads it before anything else. On SQLite a trigger sees to payloads.
 */
function removeStatement(d: Dialect, name: string, rules: typeof byHand, condition: string): Statement {
  const workflows = d.table('workflow_status');
  const before =
    `with recursive ${treeOf(d)}, ${obstaclesOf(d, rules)}, ` +
    `picked as materialized (select t.id from tree t where ${condition})`;
  const remove = `delete from ${workflows} where workflow_uuid in (select id from picked) returning workflow_uuid`;
  const statement = { name, pinned: true as const };
  if (!d.locksRows) return { ...statement, text: `${before} ${remove}` };
  // Both statements get all parameters, and each must have a type.
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
