import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type LaunchOptions, launch, run, workflow } from '../../src/index.js';
import { silent } from '../support/backends.js';
import { failure, gate, recordingLogger } from '../support/faults.js';
import { survivingParts } from '../support/secrets.js';
import { type OwnPostgres, startOwnPostgres } from './own-postgres.js';

// Passwords are checked by a separate server, because the shared server of the test run trusts every client.
let server: OwnPostgres;
let folder: string;
let admin: pg.Client;
let guest: { host: string; port: number; user: string; database: string };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-hba-'));
  const hba = join(folder, 'pg_hba.conf');
  await writeFile(hba, 'host all postgres all trust\nhost all all all scram-sha-256\nlocal all all trust\n');
  // The server runs as another user.
  await Promise.all([chmod(folder, 0o755), chmod(hba, 0o644)]);
  server = await startOwnPostgres({ hba_file: hba });
  const { hostname, port } = new URL(server.url);
  guest = { host: hostname, port: Number(port), user: 'guest', database: 'guests' };
  admin = new pg.Client(server.url);
  await admin.connect();
  await admin.query('create role guest login');
  await admin.query('create database guests owner guest');
});
afterAll(async () => {
  await admin?.end();
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** The only password that the server accepts from now on. */
async function change(token: string): Promise<void> {
  await admin.query(`alter role guest password '${token}'`);
}

it.each<[string, (password: () => Promise<string>) => NonNullable<LaunchOptions['database']>]>([
  ['a configuration', (password) => ({ ...guest, password })],
  ['a pool', (password) => new pg.Pool({ ...guest, password })],
  [
    'a URL without a password, and a password function',
    (password) => ({ connectionString: `postgres://guest@${guest.host}:${guest.port}/guests`, password }),
  ],
])('continues on new connections after the token has changed: %s', async (_, make) => {
  let token = 'token-of-monday';
  await change(token);
  const go = gate();
  const begun = gate();
  const ran: string[] = [];
  const work = workflow('work', async () => {
    await run('before', () => void ran.push('before'));
    begun.open();
    await go.promise;
    await run('after', () => void ran.push('after'));
  });
  const app = await launch({ name: 'shop', database: make(async () => token), workflows: [work], logger: silent });
  const handle = await work.start();
  await begun.promise;
  token = 'token-of-tuesday';
  await change(token);
  await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'guest'");
  go.open();
  await handle.result();
  expect(ran).toEqual(['before', 'after']);
  await app.shutdown();
});

it('listens with the token and certificates of the configuration if the listening URL has none', async () => {
  await change('token-of-monday');
  const seen: unknown[] = [];
  class Client extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      // The server of this test has no TLS. A pool hides its password from code that copies the pool's settings.
      super({ ...config, ...(config?.password && { password: config.password }), ssl: false });
      if (config?.connectionString) seen.push(config.ssl);
    }
  }
  const ssl = { ca: 'the certificate' };
  const config = { ...guest, password: async () => 'token-of-monday', ssl, Client: Client as never };
  const listen = `postgres://guest@${guest.host}:${guest.port}/guests`;
  const logger = recordingLogger();
  const app = await launch({ name: 'shop', database: { config, listen }, logger });
  await app.shutdown();
  expect(seen.length).toBeGreaterThan(0);
  expect(new Set(seen)).toEqual(new Set([ssl]));
});

it('shows no part of a token that the server refuses, nor of a value thrown by the token function', async () => {
  await change('another one');
  const token = 'qzxjkw79qzxjkw';
  for (const [password, says] of [
    [async () => token, /Check the user and password/],
    [() => Promise.reject(new Error('the metadata service does not answer')), /metadata service/],
    [undefined, /requires a password\. Check the URL/],
    [async () => 7 as never, /Password must be a string.*or the function that returns it/],
  ] as const) {
    const logger = recordingLogger();
    const error = await failure(launch({ name: 'shop', database: { ...guest, password }, logger }));
    expect(error).toMatchObject({ code: 'DATABASE_UNREACHABLE' });
    expect(error.message).toMatch(says);
    expect(survivingParts(token, [error, logger.lines])).toEqual([]);
  }
});
