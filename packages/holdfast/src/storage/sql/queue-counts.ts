import { internalQueue } from '../../model/queues.js';
import { type Dialect, everyRow, retriedRows, waitingRows } from '../database.js';
import { fitting, type Health, queueOrder, stretches, stretchOrder, waiting } from './dequeue.js';
import { queueColumns } from './queue-rows.js';
import { knownWorkflows } from './runnable-workflows.js';

/** Counts of waiting, running and delayed work on queues: for checking limits and for display. */

/**
 * Selects the unfinished workflows on a queue, in parts. Holdfast has an index for each part, and none for all of
 * them. The index of DBOS for waiting and running work may be missing (migrations/compat.ts).
 */
export function unfinishedOn(d: Dialect, isOnQueue = 'w.queue_name = $1'): string[] {
  const parts = [waitingRows[d.name].onQueue, d.holdsSlot('w'), d.isSuspendedRow('w'), "status = 'DELAYED'"];
  return parts.map(
    (each) => `from ${d.table('workflow_status')} w where ${isOnQueue} and w.queue_name is not null and ${each}`,
  );
}

export function countStatements(d: Dialect) {
  return {
    ...workStatements(d),
    ...countedStatements(d),
    usage: usageStatement(d),
    partitions: { healthy: partitionsStatement(d, 'healthy'), suspect: partitionsStatement(d, 'suspect') },
    unclaimable: unclaimableStatement(d),
    stray: strayStatement(d),
  };
}

/**
 * Returns conditions that cost one index probe. For an EXISTS, the planner may build a hash table of all waiting work
 * of all queues.
 */
function probes(d: Dialect) {
  const has = (rows: string, queue: string): string =>
    `(select count(*) from (select 1 from ${d.table('workflow_status')} where ${rows} and queue_name = ${queue} limit 1) as t) > 0`;
  return {
    hasWaiting: (queue: string): string => has(waitingRows[d.name].onQueue, queue),
    hasRetried: (queue: string): string => has(retriedRows.onQueue, queue),
  };
}

/** Statements that find the queues with waiting work, and the time at which the next delayed workflow is due. */
function workStatements(d: Dialect) {
  const { hasWaiting, hasRetried } = probes(d);
  const nextDue = `(select min(delay_until_epoch_ms) from ${d.table('workflow_status')} where status = 'DELAYED')`;
  return {
    overview: {
      name: 'queues.overview',
      shared: true as const,
      pinned: true as const,
      text: [
        `select ${queueColumns}, ${hasWaiting('q.name')} as waiting, ${hasRetried('q.name')} as retried,`,
        'cast(null as bigint) as next_due_at',
        `from ${d.table('queues')} q where ${everyRow('q.name')} union all`,
        `select '${internalQueue}', ${'null, '.repeat(queueColumns.split(',').length - 1)}`,
        `${hasWaiting(`'${internalQueue}'`)}, ${hasRetried(`'${internalQueue}'`)}, ${nextDue}`,
      ].join(' '),
    },
    busy: {
      name: 'queues.busy',
      shared: true as const,
      pinned: true as const,
      text: [
        `with recursive ${busyNames(d)}`,
        `select name, ${hasRetried('names.name')} as retried,`,
        `(select q.turn from ${d.table('queues')} q where q.name = names.name) as turn, cast(null as bigint) as next_due_at`,
        'from names where name is not null union all',
        `select null, null, null, ${nextDue}`,
      ].join(' '),
    },
    waits: { name: 'queues.waits', pinned: true as const, text: `select ${hasWaiting('$1')} as waiting` },
  };
}

function countedStatements(d: Dialect) {
  const workflows = d.table('workflow_status');
  const count = (condition: string): string =>
    `(select count(*) from ${workflows} s where ${condition} and s.queue_name = q.name)`;
  return {
    // Delayed work is counted for all queues at once, because there is no index on delayed work by queue.
    counted: {
      name: 'queues.counted',
      pinned: true as const,
      text: [
        `with delays as materialized (select queue_name, count(*) as n from ${workflows} where status = 'DELAYED'`,
        'and (cast($1 as text) is null or queue_name = $1) group by queue_name)',
        `select ${queueColumns}, ${count(waitingRows[d.name].onQueue)} as waiting,`,
        `${count(d.holdsSlot('s'))} as running, ${count(d.isSuspendedRow('s'))} as suspended,`,
        'coalesce((select n from delays where queue_name = q.name), 0) as delayed',
        `from ${d.table('queues')} q where ${everyRow('name')} and (cast($1 as text) is null or name = $1) order by name`,
      ].join(' '),
    },
    unfinished: {
      name: 'queues.unfinished',
      pinned: true as const,
      text: `select ${unfinishedOn(d)
        .map((each) => `(select count(*) ${each})`)
        .join(' + ')} as count`,
    },
  };
}

function usageStatement(d: Dialect) {
  const running = `${d.table('workflow_status')} s where ${d.holdsSlot('s')} and s.queue_name = $1`;
  return {
    name: 'queues.usage',
    pinned: true as const,
    text:
      `select ${queueColumns}, ${probes(d).hasWaiting('$1')} as waiting, ${usageColumns(d, '$1', '')}, ` +
      `(select count(*) from ${running} and s.executor_id is distinct from cast($4 as text)) as elsewhere ` +
      `from ${d.table('queues')} q where name = $1`,
  };
}

/**
 * Selects the names of queues with waiting work, and one null at the end. Each name costs one index probe, so the cost
 * depends on the number of queues and not on the amount of work.
 */
function busyNames(d: Dialect): string {
  const work = `${d.table('workflow_status')} where ${waitingRows[d.name].onQueue}`;
  const next = (condition: string): string => `(select min(queue_name) from ${work} and ${condition})`;
  return [
    `names(name) as (select ${next('queue_name is not null')} union all`,
    `select ${next('queue_name > found.name')} from names found where found.name is not null)`,
  ].join(' ');
}

/** Finds work on queues that do not exist, with one workflow per queue name as an example. */
function strayStatement(d: Dialect) {
  const work = `${d.table('workflow_status')} where ${waitingRows[d.name].onQueue}`;
  const first = (column: string): string => `(select ${column} from ${work} and queue_name = found.name limit 1)`;
  return {
    name: 'queues.stray',
    shared: true as const,
    pinned: true as const,
    text: [
      `with recursive ${busyNames(d)},`,
      `strays as (select found.name, ${first('workflow_uuid')} as workflow_uuid, ${first('application_name')} as app`,
      `from names found where found.name is not null and found.name <> '${internalQueue}'`,
      `and found.name not in (select q.name from ${d.table('queues')} q))`,
      'select name as queue_name, workflow_uuid from strays where workflow_uuid is not null',
      'and (app is null or app = $1) order by name limit 20',
    ].join(' '),
  };
}

function unclaimableStatement(d: Dialect) {
  const claimer = { app: '$2', version: '$3' };
  const versions = stretches(d, claimer).map((each) => `(${each})`);
  return {
    name: 'queues.unclaimable',
    pinned: true as const,
    text: [
      `with ${knownWorkflows(d, '$4')}, first_ones as (select name, class_name, config_name, application_version,`,
      `workflow_uuid from ${d.table('workflow_status')} where ${waitingRows[d.name].onQueue} and queue_name = $1`,
      `and not coalesce((${versions.join(' or ')}) and (${fitting(claimer, 'either')}), false) limit 1000)`,
      'select name, class_name, config_name, application_version, min(workflow_uuid) as workflow_uuid from first_ones',
      'group by name, class_name, config_name, application_version',
      'order by name, class_name, config_name, application_version limit 20',
    ].join(' '),
  };
}

/** Parameters: $2 start of the rate limit's period, $3 the number of starts that the rate limit allows, minus one. */
function usageColumns(d: Dialect, queue: string, partition: string): string {
  const workflows = d.table('workflow_status');
  const place: [string, string][] = [['s.queue_name', queue]];
  if (partition) place.push(['s.queue_partition_key', partition]);
  const starts =
    `from ${workflows} s where s.rate_limited = true and ` +
    d.equalAndAfter(place, ['s.started_at_epoch_ms', 'cast($2 as bigint)']);
  return [
    `(select count(*) from ${workflows} s where ${d.holdsSlot('s')} and s.queue_name = ${queue}`,
    `${partition && `and s.queue_partition_key = ${partition}`}) as running,`,
    `(select count(*) ${starts}) as recent_starts,`,
    `(select s.started_at_epoch_ms ${starts} order by s.started_at_epoch_ms desc limit 1 offset cast($3 as int))`,
    'as oldest_that_counts',
  ].join(' ');
}

/**
 * Finds partitions with waiting work. Each partition key costs one index probe. The cost therefore depends on the
 * number of partitions that are read, and not on the amount of work in them.
 *
 * Parameters: $1 queue, $2 and $3 rate, $4 app, $5 version, $6 names, $7 after which key, $8 maximum number of
 * partitions, $9 maximum number of workflows to count in a partition.
 */
function partitionsStatement(d: Dialect, health: Health) {
  const claimer = { app: '$4', version: '$5' };
  const sources = stretches(d, claimer).map(
    (each) => `from ${d.table('workflow_status')} where ${waiting(d, health, true)} and queue_name = $1 and ${each}`,
  );
  const unionOf = (parts: readonly string[]): string =>
    parts.map((part) => `select * from (${part}) part`).join(' union all ');
  const firstAfter = (key: string): string => {
    const parts = sources.map(
      (stretch) =>
        `select queue_partition_key as first_key ${stretch} and queue_partition_key > ${key} ` +
        // This is the full order of the index. With a shorter order the planner may choose another index, which
        // contains the keys of every version.
        `order by application_version, queue_partition_key, ${queueOrder(d)} limit 1`,
    );
    return `(select min(first_key) from (${unionOf(parts)}) as t)`;
  };
  // The rows are read in the order of the index for partitions. Without this order the planner may read the whole queue
  // for each partition.
  const claimable = sources.map(
    (stretch) =>
      `select 1 as one ${stretch} and queue_partition_key = k and ${fitting(claimer, health)} ` +
      `order by ${stretchOrder(d)} limit cast($9 as int)`,
  );
  return {
    name: health === 'suspect' ? 'queues.partitions-of-suspects' : 'queues.partitions',
    pinned: true as const,
    text: [
      `with recursive ${knownWorkflows(d, '$6')}, keys(k) as (select ${firstAfter('$7')} union all`,
      `select ${firstAfter('keys.k')} from keys where keys.k is not null)`,
      `select k as partition, (select count(*) from (${unionOf(claimable)} limit cast($9 as int)) as t) as waiting,`,
      `${usageColumns(d, '$1', 'k')} from keys where k is not null limit cast($8 as int)`,
    ].join(' '),
  };
}
