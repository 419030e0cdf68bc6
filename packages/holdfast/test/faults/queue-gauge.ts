import pg from 'pg';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import type { Entry } from './ledger.js';

/**
 * Two gauges of how much runs at once.
 *
 * In the database: with every claim a trigger counts how many workflows of the queue and of the partition are PENDING,
 * including the claimed one. The number only grows by claims, and only PENDING workflows have an owner who can commit.
 * Suspended workflows that have given their slot back do not count.
 *
 * In the ledger: bodies that have begun and not finished. The bodies of a killed process end with its `killed` entry,
 * which is written before the signal is sent.
 */
export interface Gauge {
  /** The most workflows that were PENDING at once, by queue, and by queue and partition. */
  peaks(): Promise<Peaks>;
  /** Runs SQL directly on the database, without the code under test. */
  sql(text: string): Promise<Record<string, unknown>[]>;
  /** Runs one or more statements that return no rows. */
  run(text: string): Promise<void>;
  close(): Promise<void>;
}

interface Peaks {
  readonly queues: Record<string, number>;
  readonly partitions: Record<string, number>;
  readonly claims: number;
}

/** Installs the triggers into a store that has its tables. */
export async function installGauge(database: string): Promise<Gauge> {
  const gauge = await openGauge(database);
  await gauge.run(database.startsWith('sqlite') ? sqliteTriggers : postgresTriggers);
  return gauge;
}

export async function openGauge(database: string): Promise<Gauge> {
  const opened = database.startsWith('sqlite') ? openFile(database) : await openPostgres(database);
  return {
    ...opened,
    peaks: async () => {
      const rows = await opened.sql('select queue, part, running, in_part from gauge');
      const highest = (key: (row: Record<string, unknown>) => string, value: string): Record<string, number> => {
        const found: Record<string, number> = {};
        for (const row of rows) found[key(row)] = Math.max(found[key(row)] ?? 0, Number(row[value]));
        return found;
      };
      return {
        queues: highest((row) => String(row.queue), 'running'),
        partitions: highest((row) => `${row.queue} ${row.part}`, 'in_part'),
        claims: rows.length,
      };
    },
  };
}

const count = (condition: string): string =>
  `(select count(*) from workflow_status w where w.status = 'PENDING' ` +
  `and coalesce(w.resting_owner, '') <> coalesce(w.owner_xid, '-') and w.queue_name = ${condition})`;

const sqliteTriggers = `
  create table gauge (queue text, part text, running integer, in_part integer);
  create trigger gauge_claims after update of status on workflow_status
  when new.status = 'PENDING' and old.status <> 'PENDING' and new.queue_name is not null begin
    insert into gauge values (new.queue_name, new.queue_partition_key, ${count('new.queue_name')},
      ${count('new.queue_name and w.queue_partition_key = new.queue_partition_key')});
  end`;

/** The trigger runs once per statement, when all claims of the statement are visible. */
const postgresTriggers = `
  create table gauge (queue text, part text, running int, in_part int);
  create function gauge_claims() returns trigger language plpgsql set search_path = dbos as $$ begin
    insert into gauge select distinct n.queue_name, n.queue_partition_key, ${count('n.queue_name')},
      ${count('n.queue_name and w.queue_partition_key = n.queue_partition_key')}
    from after_it n join before_it o using (workflow_uuid)
    where n.status = 'PENDING' and o.status <> 'PENDING' and n.queue_name is not null;
    return null;
  end $$;
  create trigger gauge_claims after update on workflow_status
    referencing old table as before_it new table as after_it for each statement execute function gauge_claims()`;

function openFile(database: string): Omit<Gauge, 'peaks'> {
  const db = openSqlite(database, { timeout: 30_000 });
  return {
    sql: async (text) => db.prepare(text).all() as Record<string, unknown>[],
    run: async (text) => void db.exec(text),
    close: async () => void db.close(),
  };
}

async function openPostgres(database: string): Promise<Omit<Gauge, 'peaks'>> {
  const client = new pg.Client(database);
  await client.connect();
  await client.query('set search_path to dbos');
  return {
    sql: async (text) => (await client.query(text)).rows,
    run: async (text) => void (await client.query(text)),
    close: () => client.end(),
  };
}

interface Overlaps {
  /** The most bodies at once, by place (a queue, or a partition of a queue). */
  readonly places: Record<string, number>;
  /** The most bodies at once by place in one process. */
  readonly processes: Record<string, number>;
}

/**
 * The most bodies that ran at once according to the ledger. `placesOf` returns the places of a body, given its entry.
 */
export function overlaps(entries: readonly Entry[], placesOf: (detail: string) => readonly string[]): Overlaps {
  const running = new Map<string, Set<string>>();
  const [places, processes]: [Record<string, number>, Record<string, number>] = [{}, {}];
  const dead = new Set<string>();
  const keysOf = ({ by, detail }: Entry): [Record<string, number>, string][] =>
    placesOf(String(detail)).flatMap((place) => [
      [places, place],
      [processes, `${place} in ${by}`],
    ]);
  for (const entry of entries) {
    if (entry.kind === 'killed') {
      dead.add(String(entry.detail));
      for (const bodies of running.values()) {
        for (const body of bodies) if (body.endsWith(` ${entry.detail}`)) bodies.delete(body);
      }
    }
    if ((entry.kind !== 'begin' && entry.kind !== 'finish') || dead.has(entry.by)) continue;
    for (const [peaks, key] of keysOf(entry)) {
      const bodies = running.get(key) ?? new Set<string>();
      running.set(key, bodies);
      if (entry.kind === 'begin') bodies.add(`${entry.workflowId} ${entry.by}`);
      else bodies.delete(`${entry.workflowId} ${entry.by}`);
      peaks[key] = Math.max(peaks[key] ?? 0, bodies.size);
    }
  }
  return { places, processes };
}

/** The most starts in any interval of this length, given the instants of all starts. */
export function busiestStretch(instants: readonly number[], lengthMs: number): number {
  const sorted = [...instants].sort((a, b) => a - b);
  let [most, first] = [0, 0];
  for (const [last, at] of sorted.entries()) {
    while (at - (sorted[first] as number) >= lengthMs) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}
