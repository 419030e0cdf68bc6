import { createRequire } from 'node:module';
import { type AddressInfo, createServer } from 'node:net';
import { inspect } from 'node:util';
import pg from 'pg';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { connect, type LaunchOptions, launch, run, workflow } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import { databaseOf } from '../../src/storage/database-option.js';
import { openPooler } from '../faults/pooler.js';
import { emptyDatabase } from '../storage/migrations-support.js';
import { silent } from '../support/backends.js';
import { failure, recordingLogger } from '../support/faults.js';

type Database = NonNullable<LaunchOptions['database']>;

const greet = workflow('greet', async (name: string) => run('greet', () => `Hello ${name}`));

/** Launches an app on the database, connects a client to it, and runs a workflow through both. */
async function works(database: Database): Promise<void> {
  const app = await launch({ name: 'shop', database, workflows: [greet], logger: silent });
  const client = await connect({ name: 'shop', database, logger: silent });
  try {
    expect(await greet('Ada')).toBe('Hello Ada');
    expect(await (await client.start('greet', {}, 'Bob')).result()).toBe('Hello Bob');
  } finally {
    await client.close();
    await app.shutdown();
  }
}

function newPool(config: pg.PoolConfig, Pool = pg.Pool): pg.Pool {
  const pool = new Pool(config);
  // Sessions that are still closing when the database is dropped are terminated by the server.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  onTestFinished(() => pool.end());
  return pool;
}

/** Returns the parts of a URL as a configuration. */
function configOf(url: string): { host: string; port: number; user: string; password: string; database: string } {
  const { hostname, port, username, password, pathname } = new URL(url);
  return { host: hostname, port: Number(port), user: username, password, database: pathname.slice(1) };
}

describe('the `database` option', () => {
  it.each<[string, (url: string) => Database]>([
    ['a pool', (url) => newPool({ connectionString: url })],
    ['a pool made from parts', (url) => newPool(configOf(url))],
    ['{ pool }', (url) => ({ pool: newPool({ connectionString: url }) })],
    ['a configuration', (url) => configOf(url)],
    ['{ config }', (url) => ({ config: { connectionString: url } })],
    ['{ url }', (url) => ({ url })],
    ['{ url } with spaces around it', (url) => ({ url: ` ${url}\n` })],
  ])('accepts %s', async (_, make) => {
    await works(make(await emptyDatabase()));
  });

  it('accepts a { url } of SQLite', async () => {
    const app = await launch({
      name: 'shop',
      database: { url: 'sqlite::memory:' },
      workflows: [greet],
      logger: silent,
    });
    expect(await greet('Ada')).toBe('Hello Ada');
    await app.shutdown();
  });

  it('never closes the given pool, and uses none of its connections', async () => {
    const pool = newPool({ connectionString: await emptyDatabase() });
    await works(pool);
    expect([pool.ended, pool.ending, pool.totalCount]).toEqual([false, false, 0]);
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  it('does not block the checkpoint of a step that holds every connection of the pool', async () => {
    const pool = newPool({ connectionString: await emptyDatabase(), max: 2 });
    const hold = workflow('hold', async () => {
      const held: pg.PoolClient[] = [];
      await run('hold', async () => void held.push(await pool.connect(), await pool.connect()));
      await run('while they are held', () => {});
      for (const each of held) each.release();
    });
    const app = await launch({ name: 'shop', database: pool, workflows: [hold], logger: silent });
    onTestFinished(() => app.shutdown());
    await hold();
  });

  it('accepts a pool of another copy of pg', async () => {
    const require = createRequire(import.meta.url);
    const isOfPg = (path: string): boolean => /node_modules\/pg(-[a-z]+)?\//.test(path);
    const loaded = Object.entries(require.cache).filter(([path]) => isOfPg(path));
    for (const [path] of loaded) delete require.cache[path];
    const another = require('pg') as typeof pg;
    for (const path of Object.keys(require.cache).filter(isOfPg)) delete require.cache[path];
    Object.assign(require.cache, Object.fromEntries(loaded));
    const pool = newPool({ connectionString: await emptyDatabase() }, another.Pool);
    expect(pool).not.toBeInstanceOf(pg.Pool);
    await works(pool);
  });

  it('connects through the Unix socket of a server', async () => {
    const url = await emptyDatabase();
    const admin = new pg.Client(url);
    await admin.connect();
    const { rows } = await admin.query('show unix_socket_directories');
    await admin.end();
    const host = rows[0].unix_socket_directories.split(',')[0] as string;
    const { hostname: _, ...rest } = { hostname: '', ...configOf(url), host };
    await works(rest);
    await works(newPool(rest));
    await works(url.replace(/@[^/]*/, '@').concat(`?host=${encodeURIComponent(host)}&port=${rest.port}`));
  });

  it('calls the onConnect function of the configuration for each connection', async () => {
    const seen: unknown[] = [];
    const config = { ...configOf(await emptyDatabase()), onConnect: (client: unknown) => void seen.push(client) };
    await works(newPool(config));
    expect(seen.length).toBeGreaterThan(3);
  });

  it('listens through a separate URL when the main URL is a pooler', async () => {
    const direct = await emptyDatabase();
    const random = new SeededRandom('listen');
    const pooler = await openPooler(direct, { random, prepared: 'tracked', sessions: 4 });
    onTestFinished(() => pooler.close());
    for (const listen of [undefined, direct]) {
      const logger = recordingLogger();
      const app = await launch({ name: 'shop', database: { url: pooler.url, listen }, workflows: [greet], logger });
      expect(await greet('Ada')).toBe('Hello Ada');
      await app.shutdown();
      const isDeaf = logger.lines.some((line) => JSON.stringify(line).includes('LISTEN does not work'));
      expect(isDeaf).toBe(listen === undefined);
    }
  });

  it('fails at once if the server of the `listen` URL is unreachable', async () => {
    const database = { url: inject('postgresUrl'), listen: 'postgres://u:qzxjkw@127.0.0.1:1/x' };
    const error = await failure(launch({ name: 'shop', database, logger: silent }));
    expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE', details: { url: 'postgres://u@127.0.0.1:1/x' } });
  });

  it('shows the message of a failing password function, but not the request inside the error', async () => {
    const request = { headers: { authorization: 'qzxjkw' } };
    const password = async () => {
      throw Object.assign(new Error('no credentials', { cause: new Error('qzxjkw') }), {
        request,
        code: 'ECONNREFUSED',
      });
    };
    const logger = recordingLogger();
    const given = { host: '127.0.0.1', port: await askingForPassword(), user: 'u', password };
    const error = await failure(launch({ name: 'x', database: given, logger }));
    expect(error.message).toMatch(/`password` failed: Error: no credentials/);
    expect(inspect([error, logger.lines], { depth: 12, showHidden: true })).not.toContain('qzxjkw');
  });

  it('keeps the idle time of a pool or a configuration for its own connections', () => {
    const config = { host: 'h', idleTimeoutMillis: 1_000 };
    const pool = newPool(config);
    for (const database of [config, { config }, pool, { pool }]) {
      expect(databaseOf('launch()', { database }).settings?.config).toMatchObject({ idleTimeoutMillis: 1_000 });
    }
  });

  it.each<[string, unknown, RegExp]>([
    ['nothing', {}, /must be a URL, a Pool of pg or its configuration/],
    ['a number', 7, /but it is a number/],
    ['a URL object', new URL('postgres://u:qzxjkw@h/x'), /give its href/],
    ['a client', new pg.Client({ password: 'qzxjkw' }), /give the Pool of pg/],
    ['two at once', { url: 'postgres://u:qzxjkw@h/x', config: {} }, /exactly one of "url", "config" and "pool"/],
    ['an unknown member', { url: 'postgres://u:qzxjkw@h/x', listn: 'qzxjkw' }, /Did you mean "listen"/],
    ['a misspelled key', { hots: 'qzxjkw' }, /Did you mean "host"/],
    ['a URL for a host', { host: 'postgres://u:qzxjkw@h/x' }, /database.host/],
    ['an invalid port', { host: 'h', port: 'qzxjkw' }, /database.port/],
    ['an invalid password', { host: 'h', password: { qzxjkw: 1 } }, /database.password/],
    ['a stream that throws', { host: 'h', stream: () => thrower('qzxjkw') }, /functions.*`stream`/],
    ['a string of libpq', { connectionString: 'host=h password=qzxjkw' }, /cannot be parsed/],
    ['a client for a pool', { pool: new pg.Client({ password: 'qzxjkw' }) }, /database.pool/],
    ['an invalid `listen` URL', { url: 'postgres://h/x', listen: 'qzxjkw' }, /database.listen/],
    ['a `listen` URL for a SQLite file', { url: 'sqlite:x', listen: 'postgres://h/x' }, /database.listen/],
    ['a single connection', { host: 'h', max: 1 }, /at least 2/],
    ['an idle time with a unit', { host: 'h', idleTimeoutMillis: '5s' }, /database.idleTimeoutMillis/],
  ])('refuses %s, and repeats nothing of it', async (_, database, message) => {
    for (const error of [
      await failure(launch({ name: 'x', database: database as never, logger: silent })),
      await failure(connect({ database: database as never, logger: silent })),
    ]) {
      expect(error).toMatchObject({ code: expect.stringMatching(/^(DATABASE_URL_INVALID|INVALID_OPTION)$/) });
      expect(error.message).toMatch(message);
      expect(JSON.stringify([error.message, error.details, error.stack])).not.toContain('qzxjkw');
    }
  });
});

/** Starts a server that answers every connection with a request for a cleartext password. Returns its port. */
async function askingForPassword(): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3])));
  });
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

function thrower(message: string): never {
  throw new Error(message);
}
