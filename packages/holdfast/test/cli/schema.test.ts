import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { event, launch, migrate, queue, run, schedule, stream, topic, transaction, workflow } from '../../src/index.js';
import { pgDatasource } from '../../src/storage/caller/adapters/pg.js';
import { connectTo, layout, quiet, versions } from '../storage/migrations-support.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { command } from './command.js';

const counters = (url: string) => tamper(url, 'select version, oldest_code from holdfast_migrations');

/** Runs the printed SQL as psql would: as text, without parameters. */
async function administer(url: string, sql: string): Promise<void> {
  const client = await connectTo(url);
  await client.query(sql);
}

describeBackends('the SQL that `holdfast schema` prints', (backend) => {
  const [database, flags] = { sqlite: ['sqlite', ['--sqlite']], postgres: ['postgres', []] }[backend.name] as [
    string,
    string[],
  ];

  it('sets up an empty database like migrate()', async () => {
    const [printed, migrated] = [await backend.emptyDatabase(), await backend.emptyDatabase()];
    const { out } = await command('schema', ...flags);
    await migrate({ database: migrated, logger: quiet });
    if (database === 'sqlite') {
      const db = openSqlite(printed);
      db.exec(out);
      db.close();
      const all = "select type, name, sql from sqlite_master where name not like 'sqlite_%' order by type, name";
      const [ours, theirs] = [await tamper(printed, all), await tamper(migrated, all)];
      expect(ours.length).toBeGreaterThan(30);
      expect(ours.map(plain)).toEqual(theirs.map(plain));
    } else {
      await administer(printed, out);
      const [ours, theirs] = [await connectTo(printed), await connectTo(migrated)];
      expect(await layout(ours)).toEqual(await layout(theirs));
      expect(await versions(ours)).toEqual(await versions(theirs));
    }
    expect(await counters(printed)).toEqual(await counters(migrated));
  });

  it('is sufficient for a launch with `migrate: false`, which changes nothing', async () => {
    const url = await backend.emptyDatabase();
    const { out } = await command('schema', ...flags);
    if (database === 'postgres') await administer(url, out);
    else {
      const db = openSqlite(url);
      db.exec(out);
      db.close();
    }
    const greet = workflow('greet', () => run('compose', () => 'hello'));
    const app = await launch({ name: 'test', database: url, migrate: false, workflows: [greet], logger: silent });
    onTestFinished(() => app.shutdown());
    expect(await greet()).toBe('hello');
  });
});

/** Normalizes SQL, because the two counter tables are created with differently worded statements. */
const plain = ({ name, sql }: Record<string, unknown>) =>
  `${name}: ${String(sql).toLowerCase().replace('if not exists ', '').replaceAll(/\s+/g, ' ')}`;

describeBackends(
  'a role with the rights that `holdfast schema --grants` prints',
  (backend) => {
    const role = () => `app_${Math.random().toString(36).slice(2, 10)}`;

    /** Prepares a database as an administrator, and returns a connection URL for the role. */
    async function prepared(schema = 'dbos') {
      const database = await backend.emptyDatabase();
      // The name contains characters that must be quoted.
      const name = `${role()} "x`;
      const quoted = `"${name.replaceAll('"', '""')}"`;
      const url = new URL(database);
      Object.assign(url, { username: encodeURIComponent(name), password: 'secret' });
      const admin = await connectTo(database);
      await admin.query(`create role ${quoted} login password 'secret'`);
      onTestFinished(async () => void (await admin.query(`drop owned by ${quoted}; drop role ${quoted}`)));
      // A careful operator revokes this right. By default every role may execute a function.
      await admin.query('alter default privileges revoke execute on functions from public');
      const { out } = await command('schema', '--grants', name, '--schema', schema);
      await administer(database, out);
      return { database, admin, quoted, url: url.href, schema };
    }

    it('can do without the triggers that announce messages', async () => {
      const [printed, migrated] = [await backend.emptyDatabase(), await backend.emptyDatabase()];
      await administer(printed, (await command('schema', '--no-triggers')).out);
      await command('migrate', '--database', migrated, '--no-triggers');
      const [ours, theirs] = [await layout(await connectTo(printed)), await layout(await connectTo(migrated))];
      expect(ours).toEqual(theirs);
      expect(ours.filter((line) => /^trigger.* on dbos.notifications/.test(line))).toEqual([]);
    });

    it.each(['dbos', 'my "own" schema'])('can run everything, in the schema %s', async (schema) => {
      const place = await prepared(schema);
      await everything(backend, place);
      const { rows } = await place.admin.query(
        `select count(*)::int as n from pg_class where relowner = (select oid from pg_roles where rolname = $1)`,
        [new URL(place.url).username],
      );
      expect(rows).toEqual([{ n: 0 }]);
    });
  },
  ['postgres'],
);

const jobs = queue('jobs', { concurrency: 2 });
const approval = topic<string>('approval');
const progress = event<number>('progress');
const lines = stream<string>('lines');
const child = workflow('child', () => run('c', () => 'child'));

function workflowsFor(pool: pg.Pool) {
  const pay = transaction(pgDatasource(pool), 'pay', async () => 'paid');
  const talk = workflow('talk', async () => {
    await progress.set(1);
    await lines.write('line');
    await lines.close();
    const answer = await approval.receive({ timeout: '1d' });
    const paid = await pay();
    return [answer, await child(), paid, await run('retried', retriedOnce(), { retries: { max: 2, initial: 1 } })];
  });
  let isMended = false;
  const fails = workflow('fails', async () => {
    await run('done', () => 1);
    if (!isMended) throw new Error('on purpose');
    return 'mended';
  });
  return { talk, fails, mend: () => (isMended = true) };
}

function retriedOnce(): () => string {
  let calls = 0;
  return () => {
    if (++calls === 1) throw new Error('once');
    return 'second';
  };
}

/** Uses each feature once, so that a right which is missing from the list fails the test. */
async function everything(backend: Backend, { url, schema }: { url: string; schema: string }): Promise<void> {
  const pool = new pg.Pool({ connectionString: url });
  // Sessions that are still closing when the database is dropped are terminated by the server.
  pool.on('connect', (client) => client.on('error', () => {}));
  onTestFinished(() => pool.end());
  const { talk, fails, mend } = workflowsFor(pool);
  const yearly = schedule('yearly', '0 0 1 1 *', child);
  const warnings: string[] = [];
  const warn = (line: string): void => void warnings.push(line);
  const { app } = await backend.testApp({
    ...{ database: url, schema, migrate: false, clock: 'real', retention: { after: '1h' } },
    ...{ workflows: [talk, fails, child], queues: [jobs], schedules: [yearly] },
    logger: { ...silent, warn, error: warn },
  });
  const talking = await talk.with({ queue: jobs, priority: 1 }).start();
  await approval.send(talking.id, 'yes');
  expect(await talking.result()).toEqual(['yes', 'child', 'paid', 'second']);
  expect(await progress.get(talking.id)).toBe(1);
  expect((await lines.read(talking.id).next()).value).toBe('line');
  expect(await (await app.workflows.fork(talking.id, { fromStep: 6 })).result()).toContain('child');
  const failing = await fails.start();
  await failing.result().catch(() => {});
  mend();
  expect(await (await app.workflows.retry(failing.id)).result()).toBe('mended');
  expect(await (await app.schedules.trigger('yearly')).result()).toBe('child');
  const delayed = await child.with({ delay: '1d' }).start();
  await app.workflows.cancel(delayed.id);
  await app.workflows.resume(delayed.id);
  expect(await delayed.result()).toBe('child');
  await app.queues.update('jobs', { concurrency: 3 });
  await app.versions.setLatest(app.version);
  await app.recovery.sweep();
  await app.workflows.delete(delayed.id);
  expect(await app.workflows.get(delayed.id)).toBeUndefined();
  await app.schedules.delete('yearly');
  await app.queues.delete('jobs');
  await app.shutdown();
  expect(warnings.filter((line) => !/on purpose|Error: once|failed: Error/.test(line))).toEqual([]);
}

describeBackends('holdfast migrate', (backend) => {
  it('creates the tables, and leaves a current database unchanged', async () => {
    const url = await backend.emptyDatabase();
    for (const expected of [/migrated .*The database is up to date/s, /^The database is up to date\.\n$/]) {
      const { code, out, err } = await command('migrate', '--database', url);
      expect([code, out]).toEqual([0, '']);
      expect(err).toMatch(expected);
    }
    expect(await counters(url)).toHaveLength(1);
  });
});
