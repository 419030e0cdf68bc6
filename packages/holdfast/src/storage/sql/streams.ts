import type { WorkflowStatus } from '../../model/status.js';
import { type StreamEntry, type StreamState, type Streams, streamEnds } from '../contract/messaging.js';
import type { Columns, Database, Dialect, Row } from '../database.js';
import { isOfDbos } from './of-dbos.js';

type Place = { readonly workflowId: string; readonly key: string; readonly from: number };

/** The table `streams`: the values that workflows write to streams, in order. */
export class SqlStreams implements Streams {
  private readonly sql;

  constructor(private readonly database: Database) {
    this.sql = streamStatements(database.dialect);
  }

  async read(places: readonly Place[], max: number): Promise<StreamState[]> {
    const found = new Map<string, { state: Omit<StreamState, 'entries'>; entries: StreamEntry[] }>();
    for (const row of await this.database.batch(this.sql.read, [max], places)) {
      const { workflowId, key, from } = { ...named(row), from: Number(row.from) };
      const id = JSON.stringify([workflowId, key, from]);
      const status = (row.status as WorkflowStatus | null) ?? undefined;
      const isBehindEnd = Boolean(row.behind_end);
      const each = found.get(id) ?? {
        state: { workflowId, key, from, status, isOfDbos: Boolean(row.of_dbos), isBehindEnd },
        entries: [],
      };
      found.set(id, each);
      if (row.value !== null) each.entries.push(toEntry(row));
    }
    return [...found.values()].map(({ state, entries }) => ({ ...state, entries }));
  }

  async list(workflowId: string): Promise<StreamEntry[]> {
    return (await this.database.query(this.sql.list, [workflowId])).map(toEntry);
  }
}

function named(row: Row): { workflowId: string; key: string } {
  return { workflowId: row.workflow_uuid as string, key: row.key as string };
}

function toEntry(row: Row): StreamEntry {
  const serialization = row.serialization as string | null;
  return { ...named(row), offset: Number(row.offset), value: row.value as string, serialization };
}

const placeColumns: Columns<Place> = { workflowId: 'text', key: 'text', from: 'int' };

function streamStatements(d: Dialect) {
  const streams = d.table('streams');
  // If there is nothing to read, one more index probe checks whether the last entry before the offset is the end.
  const behindEnd =
    `case when s.value is null then (select value in (${streamEnds.map((text) => `'${text}'`).join(', ')}) ` +
    `from ${streams} where workflow_uuid = r."workflowId" and key = r.key and "offset" < r."from" ` +
    'order by "offset" desc limit 1) end as behind_end';
  return {
    read: {
      name: 'streams.read',
      reads: true as const,
      shared: true as const,
      columns: placeColumns,
      text: [
        'select r."workflowId" as workflow_uuid, r.key, r."from", w.status, s."offset", s.value, s.serialization,',
        `${isOfDbos('w')} as of_dbos,`,
        behindEnd,
        `from ${d.rows('r', placeColumns, 2)}`,
        `left join ${d.table('workflow_status')} w on w.workflow_uuid = r."workflowId"`,
        d.joined(
          { alias: 's', each: true, columns: placeColumns, first: 2 },
          (column) =>
            `select "offset", value, serialization from ${streams} where workflow_uuid = ${column('workflowId')} ` +
            `and key = ${column('key')} and "offset" >= ${column('from')} order by "offset" limit $1`,
        ),
        'order by s."offset"',
      ].join(' '),
    },
    list: {
      name: 'streams.list',
      text: [
        `select workflow_uuid, key, "offset", value, serialization from ${streams}`,
        'where workflow_uuid = $1 order by key, "offset"',
      ].join(' '),
    },
  };
}
