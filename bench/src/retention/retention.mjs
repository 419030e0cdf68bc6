/**
 * Owns how retention is timed. SQL inserts workflows with one step that ended long ago, and an app with retention is
 * launched. The time runs until these workflows are deleted. The process is otherwise idle, or also runs workflows.
 *
 * @typedef {object} RetentionAdapter
 * @property {(place: { url: string, retains: boolean }) => Promise<{ run: (input: number) => Promise<number>, close: () => Promise<unknown> }>} open
 *   with a retention of one day that runs every second, or without retention
 *
 * @typedef {RetentionAdapter & { system: string, url: string }} RetentionSystem
 */
import pg from 'pg';
import { clock } from '../queue/ledger.mjs';

const plantSql = `
  with planted as (
    insert into dbos.workflow_status (workflow_uuid, status, name, inputs, output, serialization, created_at, updated_at,
      completed_at, started_at_epoch_ms, application_name, application_version, executor_id, owner_xid, recovery_attempts)
    select '00000000-0000-7000-8000-' || lpad(i::text, 12, '0'), 'SUCCESS', 'oneStep', '{"json":[1]}', '{"json":1}',
      'js_superjson', i, i, i, i, 'bench', 'bench', 'planted', 'planted', 1 from generate_series(1, $1::int) i
    returning workflow_uuid, created_at)
  insert into dbos.operation_outputs (workflow_uuid, function_id, function_name, output, serialization,
    started_at_epoch_ms, completed_at_epoch_ms, completion_seq, application_name)
  select workflow_uuid, 0, 'step', '{"json":1}', 'js_superjson', created_at, created_at, 0, 'bench' from planted`;

const leftSql = `select exists (select from dbos.workflow_status where executor_id = 'planted') as left`;

/**
 * @param {RetentionSystem} system
 * @param {{ workflows: number, inFlight: number }} load `inFlight`: how many workflows run besides the retention
 * @returns {Promise<import('../catalogue.mjs').Measured>}
 */
export async function measureRetention(system, { workflows, inFlight }) {
  await (await system.open({ url: system.url, retains: false })).close();
  const client = new pg.Client({ connectionString: system.url });
  await client.connect();
  await client.query(plantSql, [workflows]);
  await client.query('analyze');
  const began = clock();
  const app = await system.open({ url: system.url, retains: true });
  let isOver = false;
  let ran = 0;
  const lane = async () => {
    for (; !isOver; ran++) await app.run(ran);
  };
  const lanes = Array.from({ length: inFlight }, lane);
  while ((await client.query(leftSql)).rows[0].left) {
    if (clock() - began > 120_000) throw new Error('Not all was deleted within two minutes.');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const seconds = (clock() - began) / 1000;
  isOver = true;
  await Promise.all(lanes);
  await app.close();
  await client.end();
  return {
    workflows,
    steps: 0,
    values: { deleted: workflows / seconds, ...(inFlight > 0 && { ran: ran / seconds }) },
  };
}
