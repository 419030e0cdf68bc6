import { define } from './functions.js';
import type { Ddl } from './migration.js';

/**
 * The locks by which claims and enqueues protect a queue against concurrent edits and deletions. Postgres only.
 *
 * Earlier releases locked the row of the queue (`for share`, `for key share`). Whenever two transactions held such a
 * row lock at once, Postgres created a MultiXact ID. A fleet creates thousands of them per second, and after 2^32 of
 * them the database needs a vacuum for this reason alone. Shared advisory locks leave no such trace. Each advisory lock
 * has two numbers: a class for the purpose of the lock, and a hash of the schema and the queue. If two queues
 * have equal hashes, they wait for each other, which is harmless.
 *
 * A statement that waits for a lock continues with its old snapshot, and would not see the edit for which it waited. A
 * query in a volatile function has a new snapshot. Therefore the functions lock first and read the queue afterwards. If
 * all queries of a transaction share one snapshot (`repeatable read`), only a row lock detects that the snapshot is
 * outdated.
 *
 * **Invariant:** a transaction that locks the row of a queue and also takes one of these locks locks the row first. A
 * transaction that holds one of these locks without the row lock, as claims and enqueues do, never waits for the row.
 */
const lockClasses = { lockVersion: 0x486f6c71, existence: 0x486f6c72 } as const;

/**
 * An enqueue on more queues than this takes one lock for all queues, because a server has space for some thousands of
 * locks.
 */
const maxApart = 32;

/** The lock for all queues. An enqueue on many queues and the deletion of any queue take this lock. */
const all = `${lockClasses.existence}, 0`;

/** The names of the functions, and of the triggers on the table `queues`. */
export const queueLocks = {
  functions: [
    'holdfast_hold_turn',
    'holdfast_hold_queues',
    'holdfast_close_queue',
    'holdfast_queue_edited',
    'holdfast_queue_deleted',
  ],
  triggers: ['holdfast_queue_edited', 'holdfast_queue_deleted'],
} as const;

export function createQueueLocks(d: Ddl): string[] {
  return [holdTurn(d), holdQueues(d), closeQueue(d), ...editTrigger(d), ...deletionTrigger(d)];
}

function keyOf(d: Ddl, lock: keyof typeof lockClasses, queue: string): string {
  const table = `'${d.table('queues').replaceAll("'", "''")} '`;
  return `${lockClasses[lock]}, hashtext((${table} || ${queue}) collate "C")`;
}

const hasOwnSnapshots = "current_setting('transaction_isolation') = 'read committed'";

/**
 * Creates the function that returns true if the queue has the given lock version and is not paused. If the function
 * returns true, neither changes until the end of the transaction.
 */
function holdTurn(d: Ddl): string {
  const body = `
begin
  if ${hasOwnSnapshots} then
    perform pg_advisory_xact_lock_shared(${keyOf(d, 'lockVersion', 'queue')});
  else
    perform 1 from ${d.table('queues')} q where q.name = queue for share;
  end if;
  return exists (select 1 from ${d.table('queues')} q where q.name = queue and q.turn = known and not q.paused);
end;`;
  const parameters = [
    { name: 'queue', type: 'text' },
    { name: 'known', type: 'bigint' },
  ];
  return define(d, 'holdfast_hold_turn', parameters, 'boolean', body, true);
}

/**
 * Creates the function that returns the queues of a list that exist, or all queues if there is no list. None of these
 * queues can be deleted until the end of the transaction.
 */
function holdQueues(d: Ddl): string {
  const body = `
begin
  if not ${hasOwnSnapshots} then
    perform 1 from ${d.table('queues')} q where queues is null or q.name = any(queues) order by q.name for key share;
  elsif queues is null or cardinality(queues) > ${maxApart} then
    perform pg_advisory_xact_lock_shared(${all});
  else
    perform pg_advisory_xact_lock_shared(${keyOf(d, 'existence', 'o.queue')})
      from (select u.queue from unnest(queues) u(queue) order by u.queue collate "C") o;
  end if;
  return query select q.name::text from ${d.table('queues')} q where queues is null or q.name = any(queues);
end;`;
  return define(d, 'holdfast_hold_queues', [{ name: 'queues', type: 'text[]' }], 'setof text', body, true);
}

/**
 * Creates the function that waits until no transaction holds a lock of the queue, and then blocks other transactions
 * until the end of its own transaction.
 */
function closeQueue(d: Ddl): string {
  const body = `
begin
  perform pg_advisory_xact_lock(${all});
  perform pg_advisory_xact_lock(${keyOf(d, 'existence', 'queue')});
  perform pg_advisory_xact_lock(${keyOf(d, 'lockVersion', 'queue')});
end;`;
  return define(d, 'holdfast_close_queue', [{ name: 'queue', type: 'text' }], 'void', body, true);
}

/**
 * Returns statements for the trigger on edits of a queue. The trigger makes an edit wait for the claims in progress,
 * and makes new claims wait for the edit. It also covers edits by an older release, by DBOS or by SQL.
 *
 * The trigger runs after the change and skips a claim that only raises the lock version, so such a claim pays nothing.
 * Such a claim needs no lock: it changes nothing else in the row, and only claims of the same kind can succeed under
 * the same lock version.
 */
function editTrigger(d: Ddl): string[] {
  const body = `
begin
  perform pg_advisory_xact_lock(${keyOf(d, 'lockVersion', 'old.name')});
  return null;
end;`;
  return [
    define(d, 'holdfast_queue_edited', [], 'trigger', body, true),
    `create or replace trigger holdfast_queue_edited after update on ${d.table('queues')} for each row ` +
      'when (old.turn is not distinct from new.turn or old.updated_at is distinct from new.updated_at) ' +
      `execute function ${d.table('holdfast_queue_edited')}()`,
  ];
}

function deletionTrigger(d: Ddl): string[] {
  const body = `
begin
  perform ${d.table('holdfast_close_queue')}(old.name);
  return old;
end;`;
  return [
    define(d, 'holdfast_queue_deleted', [], 'trigger', body, true),
    `create or replace trigger holdfast_queue_deleted before delete on ${d.table('queues')} for each row ` +
      `execute function ${d.table('holdfast_queue_deleted')}()`,
  ];
}
