import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { connect } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import { type Backend, describeDrivers, silent } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { report, requireBuild } from './child-process.js';
import { TellingProcess } from './reporting-process.js';

/** HOLDFAST_UPKEEP_KILLS=200 for more kills. */
const kills = Number(process.env.HOLDFAST_UPKEEP_KILLS ?? 2);
const maxRounds = 5 * kills;
const seed = process.env.HOLDFAST_FAULT_SEED ?? String(Date.now() % 1_000_000);
const steps = 2_000;
const minute = 60_000;

/** A workflow of many steps. Each step sets an event and writes a value to a stream. */
async function plantBig(backend: Backend, database: string): Promise<void> {
  const table = (name: string) => (backend.name === 'sqlite' ? name : `dbos.${name}`);
  const series =
    backend.name === 'sqlite'
      ? `(with recursive s(i) as (select 0 union all select i + 1 from s where i < ${steps - 1}) select i from s) s`
      : `generate_series(0, ${steps - 1}) s(i)`;
  const ran = "'SUCCESS', 'big', '[]', 'js_superjson', 'x', 'v1', 1000, 1000, 1000";
  const columns =
    '(workflow_uuid, status, name, inputs, serialization, executor_id, application_version, created_at, updated_at, completed_at)';
  await tamper(database, `insert into ${table('workflow_status')} ${columns} values ('big', ${ran})`);
  const said = 'insert into';
  await tamper(
    database,
    `${said} ${table('operation_outputs')} (workflow_uuid, function_id, function_name, output, completion_seq) select 'big', i, 'step', '"output of some length"', i from ${series}`,
  );
  await tamper(
    database,
    `${said} ${table('workflow_events_history')} (workflow_uuid, function_id, key, value) select 'big', i, 'k' || i, 'v' from ${series}`,
  );
  await tamper(
    database,
    `${said} ${table('streams')} (workflow_uuid, key, value, "offset", function_id) select 'big', 's', 'v', i, i from ${series}`,
  );
}

/** Copies the big workflow to this ID, and once more as its child. */
async function plantFamily(backend: Backend, database: string, id: string): Promise<void> {
  const table = (name: string) => (backend.name === 'sqlite' ? name : `dbos.${name}`);
  const columns = 'status, name, inputs, serialization, created_at, updated_at, completed_at';
  for (const [each, parent] of [
    [id, 'null'],
    [`${id}-c`, `'${id}'`],
  ]) {
    const copy = async (name: string, more: string) =>
      tamper(
        database,
        `insert into ${table(name)} (workflow_uuid, ${more}) select '${each}', ${more} from ${table(name)} where workflow_uuid = 'big'`,
      );
    await tamper(
      database,
      `insert into ${table('workflow_status')} (workflow_uuid, parent_workflow_id, ${columns}) select '${each}', ${parent}, ${columns} from ${table('workflow_status')} where workflow_uuid = 'big'`,
    );
    await copy('operation_outputs', 'function_id, function_name, output, completion_seq');
    await copy('workflow_events_history', 'function_id, key, value');
    await copy('streams', 'key, value, "offset", function_id');
  }
}

/** Kills a process during its work. Returns whether the kill was in time: the process may have finished first. */
async function killMidway(options: object, random: SeededRandom): Promise<boolean> {
  const child = await TellingProcess.start('upkeep-worker.mjs', options);
  onTestFinished(() => child.kill());
  await child.next('begun');
  const began = performance.now();
  await child.next('done');
  const took = performance.now() - began;
  // The next action is running by now.
  await delay(took * random.number());
  await child.kill();
  const said = child.unread().map(({ event }) => event);
  return said.filter((event) => event === 'begun').length > said.filter((event) => event === 'done').length;
}

/** The number of steps, events, earlier event values and stream values of each workflow. */
async function contents(database: string, where: string): Promise<Map<string, string>> {
  const count = (table: string) => `(select count(*) from ${table} t where t.workflow_uuid = w.workflow_uuid)`;
  const tables = ['operation_outputs', 'workflow_events', 'workflow_events_history', 'streams'];
  const rows = await tamper(
    database,
    `select workflow_uuid as id, ${tables.map((table) => `${count(table)} as ${table}`).join(', ')} from workflow_status w where ${where}`,
  );
  return new Map(rows.map(({ id, ...counts }) => [String(id), Object.values(counts).map(Number).join(' ')]));
}

describeDrivers('a process that is killed', (backend) => {
  beforeAll(requireBuild);
  const random = new SeededRandom(`upkeep ${backend.name} ${seed}`);

  it(
    'in the middle of a fork leaves the whole fork, or nothing of it',
    async () => {
      const database = await backend.newDatabase();
      await plantBig(backend, database);
      let landed = 0;
      for (let round = 0; landed < kills && round < maxRounds; round++) {
        if (await killMidway({ database, action: 'fork', round, steps }, random)) landed++;
      }
      // The server finishes its work for the killed client before this fork ends.
      const client = await connect({ name: 'upkeep', database, logger: silent });
      await client.workflows.fork('big', { id: 'last', fromStep: steps, delay: '1d' });
      await client.close();
      const forks = await contents(database, "forked_from = 'big'");
      report(`forks killed (${backend.name}): ${landed} of ${kills} midway, ${forks.size} forks; seed ${seed}`);
      expect(landed).toBeGreaterThan(0);
      expect(forks.size).toBeGreaterThan(kills);
      expect([...new Set(forks.values())]).toEqual([`${steps} ${steps} ${steps} ${steps}`]);
      // No row belongs to a missing workflow.
      const orphans =
        'select count(*) as n from operation_outputs where workflow_uuid not in (select workflow_uuid from workflow_status)';
      expect(Number((await tamper(database, orphans))[0]?.n)).toBe(0);
    },
    2 * minute,
  );

  // FAULTS 15.
  it(
    'in the middle of a deletion leaves a whole family or nothing of it, and a freed ID works like a new one',
    async () => {
      const database = await backend.newDatabase();
      await plantBig(backend, database);
      const client = await connect({ name: 'upkeep', database, logger: silent });
      onTestFinished(() => client.close());
      let [landed, round] = [0, 0];
      for (; landed < kills && round < maxRounds; round++) {
        const ids = Array.from({ length: 4 }, (_, i) => `d${round}-${i}`);
        for (const id of ids) await plantFamily(backend, database, id);
        if (await killMidway({ database, action: 'delete', round }, random)) landed++;
      }
      // Waits until the server has finished its work for the killed clients.
      while (round-- > 0) await client.workflows.delete(`d${round}-3`, { children: true });
      const left = await contents(database, "workflow_uuid like 'd%'");
      report(`deletions killed (${backend.name}): ${landed} of ${kills} midway, ${left.size} left; seed ${seed}`);
      expect(landed).toBeGreaterThan(0);
      const whole = `${steps} 0 ${steps} ${steps}`;
      expect([...new Set(left.values())]).toEqual(left.size > 0 ? [whole] : []);
      const roots = [...left.keys()].filter((id) => !id.endsWith('-c'));
      expect([...left.keys()].sort()).toEqual(roots.flatMap((id) => [id, `${id}-c`]).sort());
      const orphans = (table: string) =>
        `select count(*) as n from ${table} where workflow_uuid not in (select workflow_uuid from workflow_status)`;
      for (const table of ['operation_outputs', 'workflow_events_history', 'streams']) {
        expect(Number((await tamper(database, orphans(table)))[0]?.n)).toBe(0);
      }
    },
    2 * minute,
  );
});
