import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import type { Effect } from '../../src/storage/contract/messaging.js';
import type { BatchStatement, Database } from '../../src/storage/database.js';
import { openStorage } from '../../src/storage/open.js';
import { columnLiterals } from '../../src/storage/postgres/array-literal.js';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { SqlSteps } from '../../src/storage/sql/steps.js';
import { describeBackends, silent } from '../support/backends.js';
import { newWorkflow, writer } from './contract-support.js';
import { effectful, sent, set, written } from './messaging-support.js';
import { type PlanNode, writerSettings } from './plan-nodes.js';

const kinds: Record<string, (i: number) => Effect> = {
  'values of one stream': (i) => written('k', `v${i}`),
  'values of many streams': (i) => written(`k${i}`, 'v'),
  'messages to one workflow': (i) => sent(`m${i}`, 'b'),
  'changes of one event': (i) => set('k', `v${i}`),
  events: (i) => set(`k${i}`, 'v'),
};

describeBackends(
  'a step with four times as many effects',
  (backend) => {
    it.each(Object.keys(kinds))('costs the database about four times as much: %s', async (kind) => {
      const url = await backend.newDatabase();
      const common = { url, schema: 'dbos', migrate: false, logger: silent, applicationName: 'cost' };
      const storage = await openStorage(common);
      await storage.workflows.insertMany(writer, [newWorkflow('a'), newWorkflow('b')]);
      await storage.close();
      const client = new pg.Client(url);
      await client.connect();
      onTestFinished(() => client.end());
      await client.query(writerSettings);
      const effects = (count: number) => Array.from({ length: count }, (_, i) => kinds[kind]?.(i) as Effect);
      const once = await pagesFor(client, effects(4_000));
      const more = await pagesFor(client, effects(16_000));
      expect(more / once).toBeLessThan(5);
    });
  },
  ['postgres'],
);

/** Counts the pages read by the statement that records a step with these effects. Load does not change the count. */
async function pagesFor(client: pg.Client, effects: readonly Effect[]): Promise<number> {
  const dialect = postgresDialect('dbos');
  let captured: [text: string, values: unknown[]] = ['', []];
  const batch = async (statement: BatchStatement<object>, shared: readonly unknown[], rows: readonly object[]) => {
    const columns = Object.keys(statement.columns) as never[];
    captured = [statement.text, [...shared, ...columnLiterals(rows, columns)]];
    return [];
  };
  await new SqlSteps({ dialect, batch } as unknown as Database).recordEffects('app', [effectful('a', 0, effects)]);
  await client.query('begin');
  const { rows } = await client.query(`explain (analyze, buffers, format json) ${captured[0]}`, captured[1]);
  await client.query('rollback');
  const [{ Plan: root }] = rows[0]['QUERY PLAN'];
  // The root node does not include the cost of the data-modifying subqueries, because they run after it.
  const changes: PlanNode[] = root.Plans.filter((node: PlanNode) => node['Node Type'] === 'ModifyTable');
  expect(changes.length).toBeGreaterThan(1);
  return changes.reduce((sum, node) => sum + node['Shared Hit Blocks'] + node['Shared Read Blocks'], 0);
}
