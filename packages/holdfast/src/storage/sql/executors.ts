import type { ExecutorRecord, Executors, NewExecutor } from '../contract/executors.js';
import { type Database, type Dialect, everyRow, type Row } from '../database.js';

/** The table `executors`. All its timestamps come from the clock of the database. */
export class SqlExecutors implements Executors {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = executorStatements(database.dialect);
  }

  async join(executor: NewExecutor): Promise<number> {
    const { incarnation, executorId, appName, version, host, pid, processStart, ttlMs, lockKey, listens } = executor;
    const values = [incarnation, executorId, appName, version, host, pid, processStart, ttlMs, lockKey];
    const [row] = await this.database.query(this.sql.join, [...values, listens && JSON.stringify(listens)]);
    return Number(row?.beats);
  }

  async beat(incarnation: string, change: Parameters<Executors['beat']>[1] = {}) {
    const { lockKey, ttlMs, known } = change;
    this.database.checkFile?.();
    const values = [incarnation, lockKey !== undefined, lockKey ?? null, ttlMs ?? null, known ?? null];
    const [row] = await this.database.query(this.sql.beat, values);
    return row && { takeovers: Number(row.takeovers), beats: Number(row.beats) };
  }

  async takeovers(incarnation: string): Promise<number | undefined> {
    const [row] = await this.database.query(this.sql.takeovers, [incarnation]);
    return row && Number(row.takeovers);
  }

  async recordTakeover(from: readonly { executorId: string; incarnation: string | null }[]): Promise<void> {
    const { dialect } = this.database;
    const whole = from.filter(({ incarnation }) => incarnation === null).map(({ executorId }) => executorId);
    const single = from.flatMap(({ incarnation }) => incarnation ?? []);
    await this.database.query(this.sql.tellOfTakeover, [dialect.list(single), dialect.list(whole)]);
  }

  async leave(incarnation: string): Promise<void> {
    await this.database.query(this.sql.leave, [incarnation]);
  }

  async list(appName: string): Promise<ExecutorRecord[]> {
    return (await this.database.query(this.sql.list, [appName])).map(toRecord);
  }

  async forget(dead: readonly { incarnation: string; beats: number }[]): Promise<void> {
    if (dead.length > 0) await this.database.query(this.sql.bury, [JSON.stringify(dead)]);
  }
}

function toRecord(row: Row): ExecutorRecord {
  return {
    incarnation: row.incarnation as string,
    executorId: row.executor_id as string,
    appName: row.application_name as string,
    version: row.application_version as string,
    host: row.host as string,
    pid: Number(row.pid),
    processStart: row.process_start as string | null,
    ttlMs: Number(row.ttl_ms),
    lockKey: row.lock_key as string | null,
    listens: row.listens === null ? null : JSON.parse(row.listens as string),
    startedAt: Number(row.started_at),
    heartbeatAt: Number(row.heartbeat_at),
    beats: Number(row.beats),
    present: row.present === null ? null : Boolean(row.present),
  };
}

const columns =
  'incarnation, executor_id, application_name, application_version, host, pid, process_start, ttl_ms, lock_key, ' +
  'listens';

function executorStatements(d: Dialect) {
  const executors = d.table('executors');
  // An executor that still owns work must stay in the table: other processes find its work by its row. The condition
  // uses the words of the index on PENDING work.
  const ownsNothing =
    `not exists (select 1 from ${d.table('workflow_status')} w where w.status = 'PENDING' ` +
    `and w.application_version = ${executors}.application_version and w.executor_id = ${executors}.executor_id ` +
    `and w.owner_xid like ${executors}.incarnation || '.%')`;
  return {
    // An executor that was wrongly declared dead joins again under its old incarnation.
    join: {
      name: 'executors.join',
      text:
        `insert into ${executors} as e (${columns}, started_at, heartbeat_at, beats) ` +
        `values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ${d.now}, ${d.now}, 1) on conflict (incarnation) do update set ` +
        `lock_key = excluded.lock_key, ttl_ms = excluded.ttl_ms, heartbeat_at = ${d.now}, beats = e.beats + 1 returning beats`,
    },
    beat: {
      name: 'executors.beat',
      shared: true as const,
      text:
        `update ${executors} set heartbeat_at = ${d.now}, ` +
        'beats = case when beats < cast($5 as bigint) then beats else beats + 1 end, ' +
        'lock_key = case when cast($2 as boolean) then cast($3 as text) else lock_key end, ' +
        'ttl_ms = coalesce(cast($4 as bigint), ttl_ms) where incarnation = $1 returning takeovers, beats',
    },
    takeovers: {
      name: 'executors.takeovers',
      shared: true as const,
      text: `select takeovers from ${executors} where incarnation = $1`,
    },
    tellOfTakeover: {
      name: 'executors.tellOfTakeover',
      shared: true as const,
      text:
        `update ${executors} set takeovers = takeovers + 1 ` +
        `where ${everyRow('incarnation')} and (${d.anyOf('incarnation', '$1')} or ${d.anyOf('executor_id', '$2')})`,
    },
    list: {
      name: 'executors.list',
      shared: true as const,
      text:
        `${d.presence.before} select ${columns}, started_at, heartbeat_at, beats, ${d.presence.of('lock_key')} as present ` +
        `from ${executors} where application_name = $1 order by started_at, incarnation`,
    },
    leave: { name: 'executors.leave', text: `delete from ${executors} where incarnation = $1 and ${ownsNothing}` },
    bury: {
      name: 'executors.bury',
      text:
        `delete from ${executors} where exists (select 1 from ${d.jsonRows('b', { incarnation: 'text', beats: 'bigint' }, '$1')} ` +
        `where b.incarnation = ${executors}.incarnation and b.beats >= ${executors}.beats) and ${ownsNothing}`,
    },
  };
}
