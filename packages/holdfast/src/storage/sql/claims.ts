import type { Dialect } from '../database.js';
import { classOf, configOf, isKnownAs, knownWorkflows } from './known.js';
import { workflowColumns } from './rows.js';

/**
 * Taking over work: the statement picks rows and makes them this executor's in one go, under a fresh owner token, so
 * that of any number of processes that try only one succeeds, and a former owner is fenced from that moment. Taking
 * work from queues is in dequeue.ts.
 *
 * The rows are picked in a materialized query of their own, which runs once. As a plain subquery Postgres may run it
 * again for each row of the table; it then passes over what the statement has already changed, takes the rows after
 * it, and the limit is none.
 *
 * Parameters: $1 owner, $2 executor, $3 app, $4 version, $5 now, $6 runnable (JSON), $7 limit, $8 where from,
 * $9 owner tokens of the caller's own live work.
 */
export function claimStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  const ofThisApp = '(application_name is null or application_name = $3)';
  return {
    // Waits for a row that is locked instead of skipping it: the lock may be the dying owner's last checkpoint, and
    // a skipped row would stay with a dead executor.
    pending: {
      name: 'workflows.claimPending',
      text: [
        `with ${knownWorkflows(d, '$6')},`,
        `picked as materialized (select workflow_uuid from ${workflows}`,
        `where status = 'PENDING' and ${d.anyOf('executor_id', '$8')}`,
        `and application_version = $4 and ${ofThisApp}`,
        `and (owner_xid is null or owner_xid not like $9)`,
        `and (name, ${classOf('')}, ${configOf('')}) in (select runnable, class, config from known)`,
        `order by created_at limit $7 ${d.forUpdate})`,
        `update ${workflows} as w set updated_at = cast($5 as bigint),`,
        `owner_xid = case when queue_name is null then $1 end,`,
        `executor_id = case when queue_name is null then $2 end,`,
        'recovery_attempts = case when queue_name is null then recovery_attempts + 1 else recovery_attempts end,',
        `status = case when queue_name is not null then 'ENQUEUED'`,
        `when recovery_attempts > k.most then 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' else 'PENDING' end,`,
        'completed_at = case when queue_name is null and recovery_attempts > k.most then cast($5 as bigint) end',
        `from known k where ${isKnownAs('k', 'w.')} and workflow_uuid in (select workflow_uuid from picked)`,
        `returning ${workflowColumns}`,
      ].join(' '),
    },
    ...standingStatements(d),
  };
}

/** What is PENDING where: whose work there is to take, and what a claim has taken. */
function standingStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  return {
    // By executor first: there is an index for that, and none by owner.
    claimedUnder: {
      name: 'workflows.claimedUnder',
      text:
        `select ${workflowColumns} from ${workflows} where status = 'PENDING' and executor_id = $2 ` +
        'and application_version = $3 and owner_xid = $1',
    },
    pendingKeys: {
      name: 'workflows.pendingKeys',
      text:
        `select name, class_name, config_name, min(workflow_uuid) as workflow_uuid from ${workflows} where status = 'PENDING' ` +
        `and ${d.anyOf('executor_id', '$1')} and application_version = $2 ` +
        'and (application_name is null or application_name = $3) group by name, class_name, config_name',
    },
    pendingOfOtherVersions: {
      name: 'workflows.pendingOfOtherVersions',
      text:
        `select application_version, count(*) as count from ${workflows} where status = 'PENDING' ` +
        'and application_version <> $1 and (application_name is null or application_name = $2) ' +
        'group by application_version order by application_version',
    },
    pendingExecutors: {
      name: 'workflows.pendingExecutors',
      text:
        `select distinct executor_id from ${workflows} where status = 'PENDING' and executor_id is not null ` +
        'and application_version = $1 and (application_name is null or application_name = $2)',
    },
  };
}
