import pg from 'pg';
import { expect, inject, it } from 'vitest';
import { queue, schedule, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { recordingLogger } from '../support/faults.js';

describeBackends(
  'an outage of the database',
  (backend) => {
    it('writes at most one log line a second, however many services fail, and recovers by itself', async () => {
      const database = await backend.newDatabase();
      const logger = recordingLogger();
      const work = workflow('work', async (n: number) => n);
      const tick = workflow('tick', async (_: Date) => {});
      const queues = Array.from({ length: 10 }, (_, i) => queue(`q${i}`));
      const schedules = Array.from({ length: 10 }, (_, i) => schedule(`s${i}`, '*/5 * * * * *', tick));
      const t = await backend.testApp({ database, logger, workflows: [work, tick], queues, schedules });
      for (const each of queues) await work.with({ queue: each, delay: '3s' }).start(1);
      const lines = (): string[] => logger.matching(/failed|could not/);
      const began = performance.now();
      const goesOn = await shutOut(database);
      // The second line says how many failures it stands for.
      const leftOut = (): number => Number(/\((\d+) more failures/.exec(lines().at(-1) ?? '')?.[1] ?? 0);
      while (leftOut() < 10) await t.clock.advance('1s');
      const mayBe = 1 + Math.ceil((performance.now() - began) / 1000);
      expect(lines().length, lines().join('\n')).toBeLessThanOrEqual(mayBe);
      await goesOn();
      const [first] = await t.app.workflows.list({ name: 'work' });
      expect(await t.clock.runUntil(t.app.workflows.handle(first?.workflowId as string).result())).toBe(1);
    });
  },
  ['postgres'],
);

/** Ends every connection to the database and refuses new ones. Returns a function that allows them again. */
async function shutOut(database: string): Promise<() => Promise<void>> {
  const name = new URL(database).pathname.slice(1);
  const admin = new pg.Client(inject('postgresUrl'));
  await admin.connect();
  await admin.query(`alter database ${name} allow_connections false`);
  await admin.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]);
  return async () => {
    await admin.query(`alter database ${name} allow_connections true`);
    await admin.end();
  };
}
