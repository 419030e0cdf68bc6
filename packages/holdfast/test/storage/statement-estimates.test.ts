import { readdirSync, readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrate } from '../../src/index.js';
import type { Statement } from '../../src/storage/database.js';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { describeBackends, silent } from '../support/backends.js';
import { everyStatement } from './every-statement.js';
import { writerSettings } from './plan-nodes.js';

/**
 * The cost that Postgres expects for each statement. A server with JIT, as distributions build it, compiles a statement
 * at every execution if its expected cost exceeds `jit_above_cost`. This takes tenths of a second or seconds. Our
 * connections switch JIT off. Behind a pooler that loses settings and in a user's transaction, only a low estimate
 * helps.
 */
const jitAboveCost = 100_000;

/** The rows of a batch, for statements that get fewer than a thousand. */
const fewer: readonly [RegExp, number][] = [
  [/^workflows\.dequeue/, 200],
  [/^workflows\.fork$/, 1],
];

const ofBatches = 'with the settings of our connections for batches';

/** A statement that connections for batches never send: it may list all workflows, for people. */
const elsewhere = 'workflows.list';

/** The ways to plan a statement: as on our connections, or without our settings, with and without its values. */
const modes = {
  [ofBatches]: `${writerSettings}; set plan_cache_mode = force_generic_plan`,
  'without settings, by its text': 'set plan_cache_mode = force_generic_plan',
  'without settings, by its values': 'set plan_cache_mode = force_custom_plan',
};
type Mode = keyof typeof modes;

const sizes = { new: 0, small: 50, large: 50_000 };

describeBackends(
  'the estimated cost of each statement',
  (backend) => {
    const places = Object.entries(sizes).flatMap(([size, workflows]) =>
      (['shared', 'none'] as const).map((compat) => ({ size, workflows, compat })),
    );
    describe.each(places)("on $size tables, laid out for compat: '$compat'", ({ workflows, compat }) => {
      let client: pg.Client;
      beforeAll(async () => {
        const database = await backend.newDatabase();
        await migrate({ database, compat, logger: silent });
        client = new pg.Client(database);
        await client.connect();
        for (const table of tables) await client.query(`alter table dbos.${table} set (autovacuum_enabled = false)`);
        for (const insert of workflows > 0 ? inserts(workflows) : []) await client.query(insert);
      });
      afterAll(() => client.end());

      describe.each(['never analysed', 'analysed'])('(%s)', (state) => {
        beforeAll(async () => void (state === 'analysed' && (await client.query('analyze'))));

        it.each(Object.keys(modes) as Mode[])('is below the threshold of JIT compilation, %s', async (mode) => {
          const all = await everyStatement(postgresDialect('dbos'));
          const statements = all.filter(({ name }) => mode !== ofBatches || name !== elsewhere);
          expect(await tooExpensive(client, statements, mode)).toEqual([]);
        });

        it('is reported as too high for a statement that has to scan a whole table', async () => {
          const scan = { name: 'test.scan', text: 'select paused from dbos.queues where paused' };
          expect(await tooExpensive(client, [scan], ofBatches)).toEqual([expect.stringMatching(/^test\.scan: /)]);
        });
      });
    });

    it('is checked for every statement that the sources name', async () => {
      const known = (await everyStatement(postgresDialect('dbos'))).map(({ name }) => name);
      const missing = namesInSources().filter((name) => !known.some((each) => name.test(each)));
      expect(missing).toEqual([]);
    });
  },
  ['postgres'],
);

async function tooExpensive(client: pg.Client, statements: readonly Statement[], mode: Mode): Promise<string[]> {
  const found: string[] = [];
  for (const { name, variant, first, text } of statements) {
    for (const each of first ? [first, text] : [text]) {
      const { cost, isDisabled } = await estimate(client, name, each, mode);
      // Postgres 18 does not add a cost to disabled nodes, but marks them.
      if (cost < jitAboveCost && !isDisabled) continue;
      found.push(`${name}${variant ? ` (${variant})` : ''}: ${cost}${isDisabled ? ', disabled' : ''}`);
    }
  }
  return found;
}

async function estimate(client: pg.Client, name: string, text: string, mode: Mode) {
  await client.query('begin');
  await client.query(modes[mode]);
  await client.query(`prepare estimated as ${text}`);
  const { rows } = await client.query(`select parameter_types::text[] as types from pg_prepared_statements`);
  const rowsOfBatch = fewer.find(([which]) => which.test(name))?.[1] ?? 1000;
  const values = (rows[0].types as string[]).map((type) =>
    mode === 'without settings, by its values' ? sampleOf(type, rowsOfBatch) : 'null',
  );
  const given = values.length > 0 ? `(${values.join(', ')})` : '';
  const explained = await client.query(`explain (format json) execute estimated${given}`);
  await client.query('deallocate estimated');
  await client.query('rollback');
  const [{ Plan: plan }] = explained.rows[0]['QUERY PLAN'];
  return { cost: plan['Total Cost'] as number, isDisabled: JSON.stringify(plan).includes('"Disabled":true') };
}

function sampleOf(type: string, rowsOfBatch: number): string {
  const value = type.startsWith('bool') ? 'true' : '1';
  if (!type.endsWith('[]')) return `'${value}'`;
  const items = Array.from({ length: rowsOfBatch }, (_, i) => (type === 'text[]' ? `w${i}` : value));
  return `'{${items.join(',')}}'`;
}

const tables = ['workflow_status', 'operation_outputs', 'queues', 'executors', 'notifications', 'streams'];

/** Inserts workflows of every kind, each with two steps, a message and a value in a stream. */
function inserts(count: number): string[] {
  const ids = `'w' || i`;
  const series = `from generate_series(1, ${count}) i`;
  const statuses = "(array['PENDING', 'ENQUEUED', 'SUCCESS', 'SUCCESS', 'DELAYED'])[1 + i % 5]";
  const place = "'v1', 'app', 'e' || i % 3, 'o.' || i, 'q' || i % 3";
  return [
    `insert into dbos.workflow_status (workflow_uuid, status, name, created_at, updated_at, completed_at, ` +
      `application_version, application_name, executor_id, owner_xid, queue_name) ` +
      `select ${ids}, ${statuses}, 'n', i, i, case when i % 5 in (2, 3) then i end, ${place} ${series}`,
    `insert into dbos.operation_outputs (workflow_uuid, function_id, function_name) select ${ids}, s, 'f' ${series}, generate_series(0, 1) s`,
    `insert into dbos.notifications (destination_uuid, topic, message, consumed) select ${ids}, 't', 'x', i % 2 = 0 ${series}`,
    `insert into dbos.streams (workflow_uuid, key, value, "offset") select ${ids}, 'k', 'x', 0 ${series}`,
    `insert into dbos.queues (name, created_at, updated_at) select 'q' || i, 1, 1 from generate_series(0, 20) i`,
    `insert into dbos.executors select 'i' || i, 'e' || i, 'app', 'v1', 'h', 1, null, 1, null, 1, 1, 1 from generate_series(0, 20) i`,
  ];
}

/** The names of statements in the sources, e.g. `queues.list`. An interpolated part matches any text. */
function namesInSources(): RegExp[] {
  const folder = new URL('../../src/storage/sql/', import.meta.url);
  const files = [...readdirSync(folder).filter((name) => name.endsWith('.ts')), '../caller/completions.ts'];
  const sources = files.map((file) => readFileSync(new URL(file, folder), 'utf8'));
  const names = sources.flatMap((source) => [
    ...source.matchAll(/(?:\bname:\s*|\(d, |\bbatch\()(['`])([a-zA-Z]{2,}\.[^'`]+)\1/g),
  ]);
  return [...new Set(names.map(([, , name = '']) => name))].map(
    (name) => new RegExp(`^${name.replaceAll('.', '\\.').replace(/\$\{.*\}/g, '.*')}$`),
  );
}
