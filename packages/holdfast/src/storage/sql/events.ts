import type { WorkflowStatus } from '../../model/status.js';
import type { EventState, Events, StoredValue } from '../contract/messaging.js';
import type { Columns, Database, Dialect, Row } from '../database.js';
import { isOfDbos } from './of-dbos.js';

type EventId = { readonly workflowId: string; readonly key: string };
type NewEvent = Parameters<Events['set']>[0];

/**
 * The tables `workflow_events` (the latest value of each event) and `workflow_events_history` (each value, by step).
 */
export class SqlEvents implements Events {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = eventStatements(database.dialect);
  }

  async read(events: readonly EventId[]): Promise<EventState[]> {
    const rows = await this.database.batch(this.sql.read, [], events);
    return rows.map((row) => ({
      workflowId: row.workflow_uuid as string,
      key: row.key as string,
      event: row.value === null ? null : storedValue(row),
      status: (row.status as WorkflowStatus | null) ?? undefined,
      isOfDbos: Boolean(row.of_dbos),
    }));
  }

  async set(event: NewEvent): Promise<boolean> {
    return (await this.database.batch(this.sql.set, [], [event])).length > 0;
  }

  async list(workflowId: string): Promise<(EventId & StoredValue)[]> {
    const rows = await this.database.query(this.sql.list, [workflowId]);
    return rows.map((row) => ({ workflowId, key: row.key as string, ...storedValue(row) }));
  }
}

function storedValue(row: Row): StoredValue {
  return { value: row.value as string, serialization: row.serialization as string | null };
}

const eventIdColumns: Columns<EventId> = { workflowId: 'text', key: 'text' };

const newEventColumns: Columns<NewEvent> = {
  workflowId: 'text',
  owner: 'text',
  stepNumber: 'int',
  key: 'text',
  value: 'text',
  serialization: 'text',
};

function eventStatements(d: Dialect) {
  const events = d.table('workflow_events');
  return {
    read: {
      name: 'events.read',
      reads: true as const,
      shared: true as const,
      columns: eventIdColumns,
      text: [
        'select r."workflowId" as workflow_uuid, r.key, e.value, e.serialization, w.status,',
        `${isOfDbos('w')} as of_dbos`,
        `from ${d.rows('r', eventIdColumns, 1)}`,
        `left join ${events} e on e.workflow_uuid = r."workflowId" and e.key = r.key`,
        `left join ${d.table('workflow_status')} w on w.workflow_uuid = r."workflowId"`,
      ].join(' '),
    },
    set: {
      name: 'events.set',
      columns: newEventColumns,
      ...d.together(
        [
          `insert into ${events} (workflow_uuid, key, value, serialization)`,
          `select r."workflowId", r.key, r.value, r.serialization from ${d.rows('r', newEventColumns, 1)}`,
          `${d.fence('r."workflowId"', 'r.owner')} where true on conflict (workflow_uuid, key)`,
          'do update set value = excluded.value, serialization = excluded.serialization',
          'returning workflow_uuid, key, true as landed',
        ].join(' '),
        [recordInHistory(d)],
      ),
    },
    list: {
      name: 'events.list',
      text: `select key, value, serialization from ${events} where workflow_uuid = $1 order by key`,
    },
  };
}

function recordInHistory(d: Dialect): string {
  return [
    `insert into ${d.table('workflow_events_history')} (workflow_uuid, function_id, key, value, serialization)`,
    `select r."workflowId", r."stepNumber", r.key, r.value, r.serialization from ${d.rows('r', newEventColumns, 1)}`,
    `where ${d.name === 'sqlite' ? 'true' : '(r."workflowId", r.key) in (select workflow_uuid, key from main)'}`,
    'on conflict (workflow_uuid, function_id, key) do update',
    'set value = excluded.value, serialization = excluded.serialization',
  ].join(' ');
}
