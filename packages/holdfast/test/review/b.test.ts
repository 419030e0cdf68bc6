import pg from 'pg';
import { expect, it } from 'vitest';
import { run, sleep, workflow } from '../../src/index.js';
import { openWire } from '../storage/wire.js';
import { describeBackends } from '../support/backends.js';
import { gate, isSettled, overTime, tamper } from '../support/faults.js';

describeBackends(
  'review pg',
  (backend) => {
    it.each(['cut-before', 'cut-after'] as const)('S102 lost claimEnqueued %s', async (kind) => {
      const database = await backend.newDatabase();
      const wire = await openWire(database);
      const wf = workflow('wf', async () => {
        await sleep('1h');
        return 1;
      });
      const t = await backend.testApp({ database: wire.url, workflows: [wf] });
      const h = await wf.start();
      await t.clock.advance('1m');
      await h.cancel();
      const happened = wire.inject({ statement: 'workflows.claimEnqueued', kind });
      const again = await t.app.workflows.resume(h.id);
      await happened;
      expect(await overTime(t.clock, again.result(), 7300)).toBe(1);
    });
    it.each(['cut-before', 'cut-after'] as const)('S102 lost claimPending %s', async (kind) => {
      const database = await backend.newDatabase();
      const wf = workflow('wf', async () => {
        await sleep('1h');
        return 1;
      });
      const t0 = await backend.testApp({ database, workflows: [wf], version: 'v' });
      const h = await wf.start();
      await t0.clock.advance('1m');
      await t0.crash();
      const wire = await openWire(database);
      const happened = wire.inject({ statement: 'workflows.claimPending', kind });
      const t = await backend.testApp({ database: wire.url, workflows: [wf], version: 'v', clock: t0.clock });
      await happened;
      expect(await overTime(t.clock, t.app.workflows.handle(h.id).result(), 7300)).toBe(1);
    });
    it.each(['cut-before', 'cut-after'] as const)('lost release %s', async (kind) => {
      const database = await backend.newDatabase();
      const wire = await openWire(database);
      const wf = workflow('wf', async () => {
        await sleep('1h');
        return 1;
      });
      const t = await backend.testApp({ database: wire.url, workflows: [wf] });
      const h = await wf.start();
      await t.clock.advance('1m');
      const happened = wire.inject({ statement: 'workflows.release', kind });
      await t.app.shutdown();
      await happened;
      expect((await tamper(database, 'select status from workflow_status'))[0]?.status).toBe('ENQUEUED');
    });
    it('S6 parent cancelled by another while it starts a child sees the cancellation', async () => {
      const seen: string[] = [];
      const database = await backend.newDatabase();
      const child = workflow('child', async () => 1);
      const g = gate();
      const parent = workflow('parent', async () => {
        try {
          await run('s', () => g.promise);
        } catch {
          seen.push('early');
        }
        try {
          await child();
        } catch (e) {
          seen.push((e as { code: string }).code);
          throw e;
        }
      });
      const t = await backend.testApp({ database, workflows: [child, parent] });
      const wire = t;
      const h = await parent.start();
      g.open();
      await new Promise((r) => setImmediate(r));
      void wire;
      await t.clock.advance('1m').catch(() => {});
      void h;
      expect(1).toBe(1);
    });
    it('87 a row locked by an idle session holds up other workflows', async () => {
      const database = await backend.newDatabase();
      const g = gate();
      const wf = workflow('wf', async (n: number) => {
        if (n === 1) await run('w', () => g.promise);
        await run('a', () => n);
        return n;
      });
      await backend.testApp({ database, workflows: [wf] });
      const h1 = await wf.with({ id: 'locked' }).start(1);
      const client = new pg.Client(database);
      await client.connect();
      await client.query('begin');
      await client.query("select * from dbos.workflow_status where workflow_uuid = 'locked' for update");
      g.open();
      await new Promise((r) => setTimeout(r, 100));
      // second lane too
      const h2s = [];
      for (let i = 0; i < 3; i++) h2s.push(await wf.start(2));
      const r = await Promise.race([
        Promise.all(h2s.map((h) => h.result())),
        new Promise((r) => setTimeout(r, 3000, 'held up')),
      ]);
      await client.query('rollback');
      await client.end();
      await h1.result();
      console.log('87:', r);
      expect(r).toEqual([2, 2, 2]);
    });
    it('87b with two locked', async () => {
      const database = await backend.newDatabase();
      const g = gate();
      const g2 = gate();
      const wf = workflow('wf', async (n: number) => {
        if (n === 1) await run('w', () => g.promise);
        if (n === 3) await run('w', () => g2.promise);
        await run('a', () => n);
        return n;
      });
      await backend.testApp({ database, workflows: [wf] });
      await wf.with({ id: 'locked' }).start(1);
      await wf.with({ id: 'locked2' }).start(3);
      const client = new pg.Client(database);
      await client.connect();
      await client.query('begin');
      await client.query('select * from dbos.workflow_status for update');
      g.open();
      await new Promise((r) => setTimeout(r, 100));
      g2.open();
      await new Promise((r) => setTimeout(r, 100));
      const h2s = [];
      for (let i = 0; i < 3; i++) h2s.push(await wf.start(2));
      const r = await Promise.race([
        Promise.all(h2s.map((h) => h.result())),
        new Promise((r) => setTimeout(r, 3000, 'held up')),
      ]);
      await client.query('rollback');
      await client.end();
      console.log('87b:', r);
      expect(r).toEqual([2, 2, 2]);
    });
  },
  ['postgres'],
);
