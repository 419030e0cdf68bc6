import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { run, transaction, workflow } from '../../src/index.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate, tamper } from '../support/faults.js';

describeBackends(
  'a transaction whose role has no rights on the table of its records',
  (backend) => {
    /** Creates a role with its own schema, in which another role has created the table. */
    async function place() {
      const database = await backend.newDatabase();
      const role = `r${Math.random().toString(36).slice(2, 10)}`;
      const sql = (text: string) => tamper(database, text);
      await sql(`create role ${role}; create schema own authorization ${role}`);
      await sql(
        'create table own.transaction_completion (workflow_id text not null, function_num int not null, output text, error text, ' +
          'created_at bigint not null default 0, started_at bigint, incarnation text, serialization text, ' +
          'primary key (workflow_id, function_num))',
      );
      onTestFinished(async () => {
        // Await this: the database is dropped next, which ends every session that still uses it.
        await sql(`drop owned by ${role}; drop role ${role}`).catch(() => {});
      });
      const pool = new pg.Pool({ connectionString: database, max: 3, options: `-c role=${role}` });
      pool.on('error', () => {});
      onTestFinished(() => pool.end());
      const datasource = pgDatasource(pool, { schema: 'own' });
      const grant = (what = 'select, insert, update') => sql(`grant ${what} on own.transaction_completion to ${role}`);
      return { database, datasource, grant };
    }

    it.each(['all', 'insert'])('changes nothing and names the rights it needs: %s', async (missing) => {
      const { database, datasource, grant } = await place();
      if (missing === 'insert') await grant('select');
      let calls = 0;
      const pay = transaction(datasource, 'pay', async () => ++calls);
      const wf = workflow('wf', () => pay());
      await backend.testApp({ database, workflows: [wf] });
      const error = await failure(wf());
      expect(error).toMatchObject({ code: 'MIGRATION_REQUIRED', details: { schema: 'own' } });
      expect(error.message).toMatch(
        /Grant.*usage on the schema.*select, insert and update.*"own".transaction_completion/,
      );
      expect(calls).toBe(missing === 'insert' ? 1 : 0);
      await grant();
      expect(await wf()).toBe(calls);
    });

    // An earlier execution, whose role may have had the rights, may have committed the transaction. Running it again
    // would be a guess, and so would reporting it as failed.
    it('stalls a recovered workflow, which continues once the rights are granted and it is resumed', async () => {
      const { database, datasource, grant } = await place();
      let calls = 0;
      const pay = transaction(datasource, 'pay', async () => ++calls);
      const reached = gate();
      let attempts = 0;
      const wf = workflow('wf', async () => {
        await run('before', () => {});
        if (++attempts === 1) {
          reached.open();
          await new Promise(() => {});
        }
        return pay();
      });
      const first = await backend.testApp({ database, workflows: [wf] });
      const { id } = await wf.start();
      await reached.promise;
      await first.crash();
      const { app } = await first.restart();
      await expect.poll(async () => (await app.workflows.get(id))?.status).toBe('STALLED');
      expect(await failure(app.workflows.handle(id).result())).toMatchObject({
        code: 'WORKFLOW_STALLED',
        message: expect.stringMatching(/"pay".*permission denied.*select, insert and update.*resume/s),
      });
      expect(calls).toBe(0);
      await grant();
      const [resumed] = [await app.workflows.resume(id)].flat();
      expect(await resumed?.result()).toBe(1);
    });
  },
  ['postgres'],
);
