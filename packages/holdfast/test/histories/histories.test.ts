import { readdirSync, readFileSync } from 'node:fs';
import pg from 'pg';
import { expect, it } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import * as library from '../../src/index.js';
import { VirtualClock } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { overTime, tamper } from '../support/faults.js';

type Row = Readonly<Record<string, unknown>>;

interface Recording {
  /** The time at which the run ended, or was cut off. */
  readonly at: number;
  readonly rows: Readonly<Record<string, readonly Row[]>>;
}

interface Histories {
  readonly release: string;
  /** The tables as that release created them on SQLite. */
  readonly schema: readonly string[];
  readonly histories: Readonly<Record<string, { readonly half: Recording; readonly whole: Recording & Output }>>;
}

interface Output {
  /** The output as that release stored it. */
  readonly output: string;
}

interface Programs {
  historicPrograms(from: typeof library, told: { ran(step: string): void; half(): unknown }): Record<string, unknown>;
}

const { historicPrograms } = (await import(new URL('./programs.mjs', import.meta.url).href)) as Programs;
const folder = new URL('./', import.meta.url);
const releases = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((name) => JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as Histories);

describeBackends('histories of past releases', (backend) => {
  it('include the oldest recorded release', () => {
    expect(releases.map(({ release }) => release)).toContain('d07b906');
  });

  for (const past of releases) {
    const names = Object.keys(past.histories);

    it.each(names)(`of ${past.release}: "%s" continues where it was cut off, with its old outcome`, async (name) => {
      const { half, whole } = past.histories[name] as Histories['histories'][string];
      const { ran, row } = await replay(backend, past, name, half);
      expect(row).toMatchObject({ status: 'SUCCESS', output: whole.output });
      expect(ran).toContain('half');
      expect(ran.filter((step) => completedSteps(half).has(step))).toEqual([]);
    });

    it.each(names)(`of ${past.release}: "%s" replays to its end without running a recorded step`, async (name) => {
      const { whole } = past.histories[name] as Histories['histories'][string];
      const cutOff = {
        ...whole,
        rows: { ...whole.rows, workflow_status: whole.rows.workflow_status?.map(undone) ?? [] },
      };
      const { ran, row } = await replay(backend, past, name, cutOff);
      expect(row).toMatchObject({ status: 'SUCCESS', output: whole.output });
      expect(ran.filter((step) => completedSteps(whole).has(step))).toEqual([]);
    });
  }
});

/** Returns the row as if the process had died before it wrote the outcome. */
function undone(row: Row): Row {
  return { ...row, status: 'PENDING', output: null, error: null, completed_at: null };
}

function completedSteps({ rows }: Recording): ReadonlySet<unknown> {
  return new Set(rows.operation_outputs?.map((step) => step.function_name));
}

async function replay(backend: Backend, past: Histories, name: string, { at, rows }: Recording) {
  const database = await (backend.name === 'sqlite' ? asItWas(backend, past, rows) : asRowsOfToday(backend, rows));
  const ran: string[] = [];
  const programs = historicPrograms(library, { ran: (step) => ran.push(step), half: () => {} });
  const clock = new VirtualClock(at);
  const t = await backend.testApp({ database, clock, version: 'history', workflows: programs });
  await overTime(t.clock, t.app.workflows.handle(name).result(), 4 * 3600, 60);
  const [row] = await tamper(database, `select status, output from workflow_status where workflow_uuid = '${name}'`);
  return { ran, row };
}

/** A file in the layout of the release. The app migrates it when it opens the file. */
async function asItWas(backend: Backend, { schema }: Histories, rows: Recording['rows']): Promise<string> {
  const database = await backend.emptyDatabase();
  const db = openSqlite(database);
  for (const statement of schema) db.exec(statement);
  db.pragma('foreign_keys = off');
  for (const [table, list] of Object.entries(rows)) {
    for (const row of list) {
      const values = Object.values(row);
      const places = values.map(() => '?').join(', ');
      db.prepare(`insert into ${table} (${quoted(row)}) values (${places})`).run(...values);
    }
  }
  db.close();
  return database;
}

/**
 * The same rows in the current layout: a process of the previous release writes such rows into a migrated database.
 */
async function asRowsOfToday(backend: Backend, rows: Recording['rows']): Promise<string> {
  const database = await backend.newDatabase();
  for (const [table, list] of Object.entries(rows)) {
    if (!table.endsWith('_migrations')) await insert(database, table, list);
  }
  return database;
}

function quoted(row: Row): string {
  return Object.keys(row)
    .map((column) => `"${column}"`)
    .join(', ');
}

async function insert(database: string, table: string, list: readonly Row[]): Promise<void> {
  const client = new pg.Client(database);
  await client.connect();
  try {
    const columns = quoted(list[0] ?? {});
    const source = `json_populate_recordset(null::dbos.${table}, $1)`;
    const params = [JSON.stringify(list)];
    await client.query(`insert into dbos.${table} (${columns}) select ${columns} from ${source}`, params);
  } finally {
    await client.end();
  }
}
