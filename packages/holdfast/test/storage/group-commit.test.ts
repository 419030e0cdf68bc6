import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { run, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { openWire } from './wire.js';

describeBackends('group commit', (backend) => {
  it.each([
    ['at once', (i: number) => i],
    ['within 10 ms', (i: number) => delay(Math.random() * 10, i)],
  ])('needs far less than one commit per step for 1,000 workflows whose 10 steps end %s', async (pace, body) => {
    const [flights, steps] = [1000, 10];
    const ran = new Map<string, number>();
    const work = workflow('work', async (flight: number) => {
      let sum = 0;
      for (let i = 0; i < steps; i++) {
        sum += await run('add', () => {
          ran.set(`${flight}/${i}`, (ran.get(`${flight}/${i}`) ?? 0) + 1);
          return body(i);
        });
      }
      return sum;
    });
    const url = await backend.newDatabase();
    const wire = backend.name === 'postgres' ? await openWire(url) : undefined;
    const t = await backend.testApp({ database: wire?.url ?? url, workflows: [work] });
    wire?.reset();
    const before = t.statements.length;
    const results = await Promise.all(Array.from({ length: flights }, (_, flight) => work(flight)));
    // On SQLite each statement is a transaction.
    const commits = wire?.commits ?? t.statements.length - before;
    const perStep = commits / (flights * steps);
    const measured = `${backend.name}, steps that end ${pace}: ${commits} commits for ${flights * steps} steps, ${perStep.toFixed(4)} per step`;
    process.stdout.write(`${measured}\n`);
    expect(new Set(results)).toEqual(new Set([45]));
    expect(ran.size).toBe(flights * steps);
    expect([...ran.values()].every((count) => count === 1)).toBe(true);
    expect(perStep).toBeLessThan(0.05);
    const [count] = await tamper(url, 'select count(*) as steps from operation_outputs');
    expect(Number(count?.steps)).toBe(flights * steps);
  });
});

describeBackends('a row that the database refuses', (backend) => {
  const poison = 'poison';
  const work = workflow('work', async (value: string, where: 'step' | 'result') => {
    const passed = await run('pass', () => (where === 'step' ? value : 'harmless'));
    return where === 'result' ? value : passed;
  });
  const launch = async (table: string) => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [work] });
    await refuse(backend, database, table, poison);
    return t;
  };
  const values = Array.from({ length: 100 }, (_, i) => (i === 42 ? poison : `value ${i}`));

  it('fails its own step, but no other step of its batch', async () => {
    await launch('operation_outputs');
    const ended = await Promise.allSettled(values.map((value) => work(value, 'step')));
    const failed = ended.flatMap((each, i) => (each.status === 'rejected' ? [{ i, code: each.reason.code }] : []));
    expect(failed).toEqual([{ i: 42, code: 'STORAGE_REFUSED' }]);
    expect(ended[41]).toEqual({ status: 'fulfilled', value: 'value 41' });
  });

  it('fails its own workflow, but no other workflow of its batch', async () => {
    const t = await launch('workflow_status');
    const ended = await Promise.allSettled(values.map((value) => work(value, 'result')));
    const failed = ended.flatMap((each, i) => (each.status === 'rejected' ? [{ i, code: each.reason.code }] : []));
    expect(failed).toEqual([{ i: 42, code: 'STORAGE_REFUSED' }]);
    expect(await t.app.workflows.list({ status: 'ERROR' })).toHaveLength(1);
    expect(await t.app.workflows.list({ status: 'SUCCESS' })).toHaveLength(99);
  });

  it('fails its own start, but no other start of its batch', async () => {
    const t = await launch('workflow_status');
    const named = (value: string) => work.with({ user: value })(value, 'step');
    const ended = await Promise.allSettled(values.map(named));
    expect(ended.filter((each) => each.status === 'rejected')).toMatchObject([{ reason: { code: 'STORAGE_REFUSED' } }]);
    expect(await t.app.workflows.list({})).toHaveLength(99);
  });
});

/** Makes the database refuse a text, because it refuses no other value that passes our own checks. */
async function refuse(backend: Backend, database: string, table: string, text: string): Promise<void> {
  const columns = table === 'workflow_status' ? ['output', 'authenticated_user'] : ['output'];
  if (backend.name === 'postgres') {
    for (const column of columns)
      await tamper(database, `alter table ${table} add check (${column} not like '%${text}%')`);
    return;
  }
  const condition = columns.map((column) => `new.${column} like '%${text}%'`).join(' or ');
  for (const event of ['insert', 'update']) {
    await tamper(
      database,
      `create trigger refuse_${event} before ${event} on ${table} when ${condition}
       begin select raise(abort, 'refused'); end`,
    );
  }
}
