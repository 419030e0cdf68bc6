import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { launch, run, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';

const greet = workflow('greet', () => run('compose', () => 'hello'));

describeBackends('launch with `migrate: false`', (backend) => {
  it('refuses an empty database, and leaves it empty', async () => {
    const database = await backend.emptyDatabase();
    const options = { name: 'test', database, workflows: [greet], logger: silent };
    await expect(launch({ ...options, migrate: false })).rejects.toMatchObject({ code: 'MIGRATION_REQUIRED' });
    const tables = {
      sqlite: "select name from sqlite_master where type = 'table'",
      postgres: "select 1 from pg_namespace where nspname = 'dbos'",
    };
    expect(await tamper(database, tables[backend.name])).toEqual([]);
  });

  it('runs on a database that another launch has migrated', async () => {
    const database = await backend.emptyDatabase();
    const options = { name: 'test', database, workflows: [greet], logger: silent };
    await (await launch(options)).shutdown();
    const app = await launch({ ...options, migrate: false });
    onTestFinished(() => app.shutdown());
    expect(await greet()).toBe('hello');
  });
});

describeBackends(
  'launch on a missing database',
  (backend) => {
    it('creates the database, and runs', async () => {
      const database = await backend.emptyDatabase();
      await dropDatabase(database);
      const app = await launch({ name: 'test', database, workflows: [greet], logger: silent });
      expect(await greet()).toBe('hello');
      await app.shutdown();
      expect(await tamper(database, 'select status from workflow_status')).toEqual([{ status: 'SUCCESS' }]);
    });

    it('creates nothing with `migrate: false`', async () => {
      const database = await backend.emptyDatabase();
      await dropDatabase(database);
      const options = { name: 'test', database, migrate: false, logger: silent };
      const error = await failure(launch(options));
      expect(error).toMatchObject({ code: 'DATABASE_MISSING' });
      expect(error.message).toMatch(/creates nothing\. Call migrate\(\{ database \}\) once/);
      await expect(launch(options)).rejects.toMatchObject({ code: 'DATABASE_MISSING' });
    });
  },
  ['postgres'],
);

async function dropDatabase(database: string): Promise<void> {
  const url = new URL(database);
  const name = url.pathname.slice(1);
  url.pathname = '/postgres';
  const admin = new pg.Client(url.href);
  await admin.connect();
  await admin.query(`drop database ${name}`);
  await admin.end();
}
