import { randomUUID } from 'node:crypto';
import { internalQueue } from '../../model/queues.js';
import type { ScheduledRun, ScheduleKey, ScheduleRecord, ScheduleSettings, Schedules } from '../contract/schedules.js';
import type { Columns, Database, Dialect, Row, Statement } from '../database.js';
import { latestVersion } from './versions.js';

/** The table `workflow_schedules`, and the workflows that schedules start. */
export class SqlSchedules implements Schedules {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = scheduleStatements(database.dialect);
  }

  async list(appName: string | null): Promise<ScheduleRecord[]> {
    return (await this.database.query(this.sql.list, [appName])).map(toSchedule);
  }

  async create(params: Parameters<Schedules['create']>[0]): Promise<ScheduleRecord | undefined> {
    const { settings, appName, now } = params;
    const [row] = await this.database.batch(this.sql.create, [appName, now], [toRow(settings)]);
    return row && toSchedule(row);
  }

  async apply(params: Parameters<Schedules['apply']>[0]): Promise<void> {
    const { settings, appName, version, now } = params;
    // Every process applies schedules in the order of their names. Two processes that apply the same schedules in
    // different orders could deadlock.
    const rows = [...settings].sort((a, b) => (a.name < b.name ? -1 : 1)).map(toRow);
    await this.database.batch(this.sql.apply, [appName, now, version], rows);
  }

  async change(params: Parameters<Schedules['change']>[0]): Promise<ScheduleRecord | undefined> {
    const { name, appName, changes, now } = params;
    const { text, values } = changeStatement(this.database.dialect, changes);
    const statement = { name: 'schedules.change', text, unprepared: true as const };
    const [row] = await this.database.query(statement, [name, appName, now, ...values]);
    return row && toSchedule(row);
  }

  async setStatus(params: Parameters<Schedules['setStatus']>[0]): Promise<ScheduleRecord | undefined> {
    const { name, appName, status, now } = params;
    const [row] = await this.database.query(this.sql.setStatus, [name, appName, now, status]);
    return row && toSchedule(row);
  }

  async remove({ name, appName }: ScheduleKey): Promise<boolean> {
    return (await this.database.query(this.sql.remove, [name, appName])).length > 0;
  }

  async fire(params: Parameters<Schedules['fire']>[0]): Promise<Set<string>> {
    const { schedule, runs, evenIfPaused, now } = params;
    const { name, workflowName, className, cron, timezone, context } = schedule;
    const given = JSON.stringify(runs.map((run, position) => ({ ...run, position })));
    const values = [given, name, workflowName, cron, timezone, context, evenIfPaused, now, className ?? ''];
    return idsOf(await this.database.query(this.sql.fire, values));
  }

  async taken(workflowIds: readonly string[]): Promise<Set<string>> {
    return idsOf(await this.database.query(this.sql.taken, [this.database.dialect.list(workflowIds)]));
  }

  async markFired(params: { name: string; scheduledAt: number }): Promise<void> {
    await this.database.query(this.sql.markFired, [params.name, new Date(params.scheduledAt).toISOString()]);
  }
}

function idsOf(rows: readonly Row[]): Set<string> {
  return new Set(rows.map((row) => row.workflow_uuid as string));
}

interface ScheduleRow extends ScheduleSettings {
  readonly scheduleId: string;
  readonly backfill: boolean;
}

/** `backfill` is for the column `automatic_backfill`, which is all that DBOS stores about missed ticks. */
function toRow(settings: ScheduleSettings): ScheduleRow {
  return { ...settings, scheduleId: randomUUID(), backfill: settings.catchUp === 'all' };
}

const rowColumns: Columns<ScheduleRow> = {
  scheduleId: 'text',
  name: 'text',
  workflowName: 'text',
  className: 'text',
  cron: 'text',
  timezone: 'text',
  context: 'text',
  queueName: 'text',
  catchUp: 'text',
  catchUpLimit: 'int',
  backfill: 'bool',
};

const runColumns: Columns<ScheduledRun & { position: number }> = {
  workflowId: 'text',
  inputs: 'text',
  serialization: 'text',
  timeoutMs: 'bigint',
  position: 'int',
};

/** The settings that a user can change, with their columns. */
const settable: Readonly<Record<keyof Omit<ScheduleSettings, 'name'>, string>> = {
  workflowName: 'workflow_name',
  className: 'workflow_class_name',
  cron: 'schedule',
  timezone: 'cron_timezone',
  context: 'context',
  queueName: 'queue_name',
  catchUp: 'catch_up',
  catchUpLimit: 'catch_up_limit',
};

const columns = [
  'schedule_name, application_name, workflow_name, workflow_class_name,',
  'schedule, cron_timezone, context, status, queue_name, catch_up,',
  'catch_up_limit, automatic_backfill, last_fired_at, active_since',
].join(' ');

function toSchedule(row: Row): ScheduleRecord {
  const fired = row.last_fired_at === null ? Number.NaN : Date.parse(row.last_fired_at as string);
  const policy = row.catch_up as ScheduleRecord['catchUp'] | null;
  return {
    name: row.schedule_name as string,
    appName: row.application_name as string | null,
    workflowName: row.workflow_name as string,
    className: (row.workflow_class_name as string | null) || null,
    cron: row.schedule as string,
    timezone: row.cron_timezone as string | null,
    context: row.context as string,
    status: row.status as ScheduleRecord['status'],
    queueName: row.queue_name as string | null,
    // Schedules of DBOS have only the flag. DBOS may also have changed the flag of a schedule that Holdfast created,
    // so the flag decides.
    catchUp: row.automatic_backfill ? 'all' : policy === 'all' ? 'skip' : (policy ?? 'skip'),
    catchUpLimit: row.catch_up_limit === null ? null : Number(row.catch_up_limit),
    lastFiredAt: Number.isNaN(fired) ? null : fired,
    activeSince: row.active_since === null ? null : Number(row.active_since),
  };
}

/** Returns a condition: the schedule belongs to the app, or to every app. A null app selects all schedules. */
const ours = (app: string): string =>
  `(cast(${app} as text) is null or application_name is null or application_name = ${app})`;

function scheduleStatements(d: Dialect) {
  const schedules = d.table('workflow_schedules');
  return {
    list: {
      name: 'schedules.list',
      shared: true as const,
      text: `select ${columns} from ${schedules} where ${ours('$1')} order by schedule_name`,
    },
    create: {
      name: 'schedules.create',
      columns: rowColumns,
      text: `${insertText(d, 3)} on conflict (schedule_name) do nothing returning ${columns}`,
    },
    apply: { name: 'schedules.apply', columns: rowColumns, text: applyText(d) },
    setStatus: {
      name: 'schedules.setStatus',
      text:
        `update ${schedules} set active_since = case when status = 'PAUSED' and $4 = 'ACTIVE' ` +
        `then cast($3 as bigint) else active_since end, status = $4 ` +
        `where schedule_name = $1 and ${ours('$2')} returning ${columns}`,
    },
    remove: {
      name: 'schedules.remove',
      text: `delete from ${schedules} where schedule_name = $1 and ${ours('$2')} returning schedule_name`,
    },
    fire: fireStatement(d),
    taken: {
      name: 'schedules.taken',
      pinned: true as const,
      text: `select workflow_uuid from ${d.table('workflow_status')} where ${d.anyOf('workflow_uuid', '$1')}`,
    },
    markFired: {
      name: 'schedules.markFired',
      text:
        `update ${schedules} set last_fired_at = $2 where schedule_name = $1 ` +
        'and (last_fired_at is null or last_fired_at < $2)',
    },
  };
}

/** Parameters: $1 app, $2 now. The parameters of the rows start at `first`. */
function insertText(d: Dialect, first: number): string {
  return [
    `insert into ${d.table('workflow_schedules')} as s (schedule_id, schedule_name, workflow_name,`,
    'workflow_class_name, schedule,',
    'cron_timezone, context, queue_name, catch_up, catch_up_limit, automatic_backfill, status, application_name,',
    'active_since) select r."scheduleId", r.name, r."workflowName", r."className",',
    'r.cron, r.timezone, r.context, r."queueName",',
    `r."catchUp", r."catchUpLimit", r.backfill, 'ACTIVE', $1, cast($2 as bigint)`,
    `from ${d.rows('r', rowColumns, first)} where true`,
  ].join(' ');
}

/** Parameters: $1 app, $2 now, $3 version. */
function applyText(d: Dialect): string {
  const latest = latestVersion(d, '$1');
  const set = [...Object.values(settable), 'automatic_backfill'];
  const differs = set.map((column) => `s.${column} is distinct from excluded.${column}`);
  return [
    `${insertText(d, 4)} on conflict (schedule_name) do update set`,
    `${set.map((column) => `${column} = excluded.${column}`).join(', ')},`,
    'application_name = coalesce(s.application_name, excluded.application_name),',
    'active_since = case when s.schedule is distinct from excluded.schedule',
    'or s.cron_timezone is distinct from excluded.cron_timezone then excluded.active_since else s.active_since end',
    'where (s.application_name is null or excluded.application_name is null',
    'or s.application_name = excluded.application_name)',
    `and (cast($3 as text) is null or $3 = ${latest}) and (${differs.join(' or ')}`,
    'or (s.application_name is null and excluded.application_name is not null))',
  ].join(' ');
}

/**
 * Sets only the given settings, so that two concurrent changes of different settings are both kept.
 *
 * Parameters: $1 name, $2 app, $3 now.
 */
function changeStatement(d: Dialect, changes: Partial<Omit<ScheduleSettings, 'name'>>) {
  const values: unknown[] = [];
  const parameter = (value: unknown): string => `$${values.push(value) + 3}`;
  const set: string[] = [];
  const moved: string[] = [];
  for (const [setting, column] of Object.entries(settable) as [keyof typeof settable, string][]) {
    const value = changes[setting];
    if (value === undefined) continue;
    const given = `cast(${parameter(value)} as ${setting === 'catchUpLimit' ? 'int' : 'text'})`;
    set.push(`${column} = ${given}`);
    if (setting === 'catchUp') set.push(`automatic_backfill = (${given} = 'all')`);
    if (setting === 'cron' || setting === 'timezone') moved.push(`${column} is distinct from ${given}`);
  }
  const since = `case when ${moved.join(' or ') || '1 = 0'} then cast($3 as bigint) else active_since end`;
  const text =
    `update ${d.table('workflow_schedules')} set ${[...set, `active_since = ${since}`].join(', ')} ` +
    `where schedule_name = $1 and ${ours('$2')} returning ${columns}`;
  return { text, values };
}

/**
 * Locks the schedule while the runs are inserted. A later change or deletion of the schedule waits for the statement.
 * After an earlier change or deletion, the statement finds no schedule with these settings and inserts nothing. Two
 * processes cannot fire the same tick, because the ID of the run contains the time of the tick.
 *
 * Parameters: $1 runs, $2 name, $3 workflow, $4 cron, $5 zone, $6 context, $7 even if paused, $8 now, $9 class.
 */
function fireStatement(d: Dialect): Statement {
  const before = d.enqueueSeq.before === '' ? '' : `${d.enqueueSeq.before}, `;
  return {
    name: 'schedules.fire',
    text: [
      `with ${before}held as materialized (select * from ${d.table('workflow_schedules')} where schedule_name = $2`,
      `and workflow_name = $3 and coalesce(workflow_class_name, '') = $9 and schedule = $4`,
      'and cron_timezone is not distinct from cast($5 as text) and context = $6',
      `and (status = 'ACTIVE' or cast($7 as boolean)) ${d.forShare}),`,
      // Locks the queue as every enqueue does, so that no other process deletes it before commit.
      `place as materialized (${d.holdQueues('select queue_name from held where queue_name is not null')})`,
      `insert into ${d.table('workflow_status')} (workflow_uuid, status, name, class_name, inputs, serialization,`,
      'application_name, recovery_attempts, created_at, updated_at, queue_name, priority, schedule_name,',
      'workflow_timeout_ms, enqueue_seq)',
      `select r."workflowId", 'ENQUEUED', h.workflow_name, nullif(h.workflow_class_name, ''), r.inputs, r.serialization,`,
      'h.application_name, 0,',
      `cast($8 as bigint), cast($8 as bigint), coalesce(h.queue_name, '${internalQueue}'), 0, h.schedule_name,`,
      `r."timeoutMs", ${d.enqueueSeq.value('r.position')}`,
      `from held h cross join ${d.jsonRows('r', runColumns, '$1')}`,
      `where h.queue_name is null or h.queue_name in (select name from place) order by ${d.lockOrder('r."workflowId"')}`,
      'on conflict (workflow_uuid) do nothing returning workflow_uuid',
    ].join(' '),
  };
}
