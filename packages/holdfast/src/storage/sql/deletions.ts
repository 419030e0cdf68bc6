import { activeStatuses, type WorkflowStatus } from '../../model/status.js';
import type { Database, Dialect, Row, Statement } from '../database.js';
import type { Deletions, Obstacle } from '../deletions.js';

/** What belongs to a workflow goes with it by its foreign keys; see {@link removeText} for the exception. */
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
  return (
    `tree(root, id) as (select workflow_uuid, workflow_uuid from ${d.table('workflow_status')} ` +
    `where ${d.anyOf('workflow_uuid', '$1')} union select t.root, c.workflow_uuid from tree t ${d.children('t.id')})`
  );
}

/**
 * What is in the way of each root, over `tree`. Probes per member, on Postgres kept from becoming joins over whole tables
 * (`offset 0`). A parent in the tree that is unfinished is in the way by itself.
 */
function obstaclesOf(d: Dialect): string {
  const workflows = d.table('workflow_status');
  const [lateral, once] = d.name === 'postgres' ? ['cross join lateral', 'offset 0'] : ['join', ''];
  const member =
    d.name === 'postgres'
      ? `${lateral} (select * from ${workflows} where workflow_uuid = t.id ${once}) w`
      : `join ${workflows} w on w.workflow_uuid = t.id`;
  const parent =
    d.name === 'postgres'
      ? `${lateral} (select * from ${workflows} where workflow_uuid = w.parent_workflow_id ${once}) p`
      : `join ${workflows} p on p.workflow_uuid = w.parent_workflow_id`;
  const steps = d.table('operation_outputs');
  const holder =
    d.name === 'postgres'
      ? `${lateral} (select u.workflow_uuid, u.status from ${steps} o join ${workflows} u on u.workflow_uuid = o.workflow_uuid ` +
        `where o.child_workflow_id = t.id and o.child_workflow_id is not null ${once}) u`
      : `join ${steps} o on o.child_workflow_id = t.id and o.child_workflow_id is not null ` +
        `join ${workflows} u on u.workflow_uuid = o.workflow_uuid`;
  return (
    'obstacles as materialized (' +
    `select t.root, 'unfinished' as kind, t.id, w.status as other from tree t ${member} where w.status in (${active}) ` +
    `union all select t.root, 'child', t.id, w.parent_workflow_id from tree t ${member} ` +
    `where not cast($2 as boolean) and t.id <> t.root and not (${d.anyOf('t.id', '$1')}) ` +
    `union all select t.root, 'needed', t.id, p.workflow_uuid from tree t ${member} ${parent} where p.status in (${active}) ` +
    `union all select t.root, 'needed', t.id, u.workflow_uuid from tree t ${holder} where u.status in (${active}))`
  );
}

function deletionStatements(d: Dialect) {
  return {
    remove: removeStatement(d),
    obstacles: {
      name: 'workflows.obstacles',
      pinned: true as const,
      text:
        `with recursive ${treeOf(d)}, ${obstaclesOf(d)} select kind, id, other from obstacles ` +
        "order by case kind when 'child' then 0 when 'unfinished' then 1 else 2 end, id limit 100",
    },
  };
}

/**
 * The whole tree is locked first: what is resumed meanwhile is then either seen as unfinished, or waits and finds nothing.
 * Only what has ended is, because what a running workflow holds on to may be waiting for one of these.
 *
 * A database that DBOS 5 has migrated has no foreign key from the steps to their workflow.
 */
function removeStatement(d: Dialect): Statement {
  const workflows = d.table('workflow_status');
  const remove =
    `delete from ${workflows} where workflow_uuid in (select id from tree) ` +
    'and not exists (select 1 from obstacles) returning workflow_uuid';
  const before = `with recursive ${treeOf(d)}, ${obstaclesOf(d)}`;
  const statement = { name: 'workflows.delete', pinned: true as const };
  if (!d.locksRows) return { ...statement, text: `${before} ${remove}` };
  return {
    ...statement,
    first:
      `with recursive ${treeOf(d)} select count(*) from (select 1 from ${workflows} where workflow_uuid in ` +
      `(select id from tree) and status not in (${active}) and cast($2 as boolean) is not null ` +
      `order by ${d.lockOrder('workflow_uuid')} ${d.forUpdate}) locked`,
    text:
      `${before}, gone as (${remove}), steps as (delete from ${d.table('operation_outputs')} ` +
      'where workflow_uuid in (select workflow_uuid from gone)) select workflow_uuid from gone',
  };
}
