import { type AttemptChange, type AttemptState, stepKey } from '../contract/storage.js';
import type { BatchStatement, Columns, Database, Dialect } from '../database.js';
import { inLockOrder } from './lock-order.js';
import { afterColumns, predecessorsOnRecord } from './predecessors.js';

/**
 * The table `step_attempts`: the attempts of a step that has no outcome yet. The row means nothing once the step has
 * an outcome. The writes are fenced like every write of an execution, so an execution that lost its workflow counts no
 * attempts.
 */
export class StepAttempts {
  private readonly statement: BatchStatement<AttemptChange>;

  constructor(private readonly database: Database) {
    this.statement = changeStatement(database.dialect);
  }

  async change(changes: readonly AttemptChange[]): Promise<Map<string, AttemptState>> {
    const now = Math.max(...changes.map(({ at }) => at));
    const inOrder = inLockOrder(this.database.dialect, changes, (change) => change.workflowId);
    const rows = await this.database.batch(this.statement, [now], inOrder);
    return new Map(
      rows.map((row) => {
        const key = { workflowId: row.workflow_uuid as string, stepNumber: Number(row.function_id) };
        const nextAt = row.next_at === null ? null : Number(row.next_at);
        const interrupted = (row.interrupted as string).split(' ').filter(Boolean).map(Number);
        return [
          stepKey(key),
          { ...key, token: row.token as string, attempt: Number(row.attempt), nextAt, interrupted },
        ];
      }),
    );
  }
}

const columns: Columns<AttemptChange> = {
  workflowId: 'text',
  owner: 'text',
  stepNumber: 'int',
  token: 'text',
  attempt: 'int',
  nextAt: 'bigint',
  at: 'bigint',
  ...afterColumns,
};

/**
 * An attempt that has not ended when the next attempt begins was interrupted. A repetition of this statement is
 * recognized by its token. A change that comes before the time of the next attempt leaves the row unchanged.
 */
function changeStatement(d: Dialect): BatchStatement<AttemptChange> {
  const isEnd = 'excluded.next_at is not null';
  const stays = '(a.token = excluded.token or coalesce(a.next_at > cast($1 as bigint), false))';
  const choose = (end: string, kept: string, next: string): string =>
    `case when ${isEnd} then ${end} when ${stays} then ${kept} else ${next} end`;
  const wasInterrupted = "case when a.next_at is null then a.interrupted || ' ' || a.attempt else a.interrupted end";
  return {
    name: 'steps.attempt',
    columns,
    text: [
      `insert into ${d.table('step_attempts')} as a (workflow_uuid, function_id, attempt, next_at, token, interrupted)`,
      `select r."workflowId", r."stepNumber", coalesce(r.attempt, 1), r."nextAt", r.token, '' from ${d.rows('r', columns, 2)}`,
      `${d.fence('r."workflowId"', 'r.owner')} where ${predecessorsOnRecord(d)}`,
      'on conflict (workflow_uuid, function_id) do update set',
      `attempt = ${choose('excluded.attempt', 'a.attempt', 'a.attempt + 1')},`,
      `next_at = ${choose('excluded.next_at', 'a.next_at', 'null')},`,
      `token = ${choose('excluded.token', 'a.token', 'excluded.token')},`,
      `interrupted = ${choose('a.interrupted', 'a.interrupted', wasInterrupted)}`,
      'returning workflow_uuid, function_id, attempt, next_at, token, interrupted',
    ].join(' '),
  };
}
