import { define } from './functions.js';
import type { Ddl } from './migration.js';

/**
 * How claims and enqueues hold a queue against edits and deletions. Postgres only.
 *
 * They used to lock the row of the queue (`for share`, `for key share`). Each time that two transactions held such a lock at
 * once, Postgres made a MultiXact: thousands each second in a fleet, of which there are 2^32 until the database has to be
 * vacuumed for nothing else. Shared advisory locks leave no trace. Each of them is of two numbers: the class says what is
 * held, and the second number is a hash of the schema and the queue. Queues whose hashes are equal only wait for each other.
 *
 * A statement that waits for a lock goes on with the snapshot that it had before, and would not see the edit for which it
 * waited. A query in a volatile function has a snapshot of its own, so that the functions lock first and look afterwards.
 * Where a transaction has one snapshot for all its queries (`repeatable read`), only a row lock tells that it is out of date.
 *
 * **Invariant:** whoever locks the row of a queue and takes one of these locks takes the row first. Who holds one of these
 * locks without the row, as claims and enqueues do, never waits for the row.
 */
const lockClasses = { turn: 0x486f6c71, existence: 0x486f6c72 } as const;

/** With more queues than this, an enqueue holds all there are by one lock: the server has room for some thousands of locks. */
const maxApart = 32;

/** Held by whoever holds all queues, and by whoever deletes one. */
const all = `${lockClasses.existence}, 0`;

/** What that makes: the functions, and the triggers on `queues`. */
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

/** Whether the queue is under this turn and not paused. If so, it stays so until the end of the transaction. */
function holdTurn(d: Ddl): string {
  const body = `
begin
  if ${hasOwnSnapshots} then
    perform pg_advisory_xact_lock_shared(${keyOf(d, 'turn', 'queue')});
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

/** Those of the queues that exist; without a list, all. None of them is deleted until the end of the transaction. */
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

/** Waits for whoever holds the queue, and keeps others from it until the end of the transaction. */
function closeQueue(d: Ddl): string {
  const body = `
begin
  perform pg_advisory_xact_lock(${all});
  perform pg_advisory_xact_lock(${keyOf(d, 'existence', 'queue')});
  perform pg_advisory_xact_lock(${keyOf(d, 'turn', 'queue')});
end;`;
  return define(d, 'holdfast_close_queue', [{ name: 'queue', type: 'text' }], 'void', body, true);
}

/**
 * An edit, whoever makes it (also a process of an older release, DBOS, or SQL), waits for the claims under way before it
 * commits, and claims that come meanwhile wait for it. After the change, so that it costs a claim nothing which moves the
 * turn on: such a claim changes nothing else, and none but its like can succeed under the same turn.
 */
function editTrigger(d: Ddl): string[] {
  const body = `
begin
  perform pg_advisory_xact_lock(${keyOf(d, 'turn', 'old.name')});
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
