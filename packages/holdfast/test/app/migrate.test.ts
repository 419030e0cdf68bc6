import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { connect, launch, migrate, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';

describeBackends('migrate()', (backend) => {
  const greet = workflow('greet', async () => 'hello');

  it('prepares a database for processes that may not migrate it, and changes nothing if it is ready', async () => {
    const database = await backend.emptyDatabase();
    const options = { name: 'test', database, workflows: [greet], logger: silent, migrate: false };
    expect(await failure(launch(options))).toMatchObject({ code: 'MIGRATION_REQUIRED' });
    await migrate({ database, logger: silent });
    await migrate({ database, logger: silent });
    const app = await launch(options);
    expect(await greet()).toBe('hello');
    await app.shutdown();
    expect(await tamper(database, 'select count(*) as n from workflow_status')).toMatchObject([
      { n: expect.anything() },
    ]);
  });

  it('refuses unknown and invalid options before it opens anything', async () => {
    for (const options of [{ name: 'shop' }, { schema: '' }, { triggers: 1 }, { logger: {} }, { database: 5 }, {}]) {
      const error = await failure(migrate(options as never));
      expect(['INVALID_OPTION', 'INVALID_NAME', 'DATABASE_URL_INVALID'], JSON.stringify(options)).toContain(error.code);
    }
  });

  it.runIf(backend.name === 'postgres')(
    'creates tables in the given schema, without triggers if asked to',
    async () => {
      const database = await backend.emptyDatabase();
      await migrate({ database, schema: 'own', triggers: false, logger: silent });
      const tables = `select 1 from pg_tables where schemaname = 'own' and tablename = 'workflow_status'`;
      expect(await tamper(database, tables)).toHaveLength(1);
      // The triggers on the queues table send no notifications and always exist.
      const announcing = `select tgname from pg_trigger where not tgisinternal and tgname not like 'holdfast_queue%'`;
      expect(await tamper(database, announcing)).toEqual([]);
    },
  );
});

describeBackends('the database named by the environment', (backend) => {
  beforeEach(() => vi.stubEnv('HOLDFAST_DATABASE_URL', undefined));
  afterEach(() => void vi.unstubAllEnvs());

  it('is that of DBOS if there is none for Holdfast, in launch, connect and migrate', async () => {
    const [theirs, ours] = [await backend.emptyDatabase(), await backend.emptyDatabase()];
    vi.stubEnv('DBOS_SYSTEM_DATABASE_URL', theirs);
    await migrate({ logger: silent });
    const app = await launch({ name: 'test', version: 'v1', logger: silent });
    const client = await connect({ name: 'test', logger: silent });
    expect(await client.versions.list()).toMatchObject([{ name: 'v1', appName: 'test' }]);
    await client.close();
    await app.shutdown();
    vi.stubEnv('HOLDFAST_DATABASE_URL', ours);
    expect(await failure(connect({ name: 'test', logger: silent }))).toMatchObject({ code: 'MIGRATION_REQUIRED' });
  });
});

describeBackends('a client without a name', (backend) => {
  it('lists the versions of all apps, and fails where it needs the name of one app', async () => {
    const database = await backend.newDatabase();
    for (const name of ['shop', 'billing']) {
      const app = await launch({ name, version: `${name}-1`, database, logger: silent });
      await app.shutdown();
    }
    const client = await connect({ database, logger: silent });
    const listed = await client.versions.list();
    expect(listed.map(({ name, appName }) => [appName, name])).toEqual([
      ['billing', 'billing-1'],
      ['shop', 'shop-1'],
    ]);
    for (const call of [() => client.versions.latest(), () => client.versions.setLatest('shop-1')])
      expect(await failure(call())).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('connect()'),
      });
    await client.close();
  });
});
