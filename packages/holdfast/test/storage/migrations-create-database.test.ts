import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { launch } from '../../src/index.js';
import { ensureDatabase } from '../../src/storage/postgres/create-database.js';
import { administer, connectTo, quiet, urlOf } from './migrations-support.js';

async function connect(database: string): Promise<pg.Client> {
  const client = new pg.Client(urlOf(database));
  await client.connect();
  return client;
}

function newName(prefix = 'made'): string {
  const name = `${prefix}${randomUUID()}`;
  onTestFinished(() => administer(`drop database if exists "${name.replaceAll('"', '""')}" with (force)`));
  return name;
}

describe('creating the database of a URL', () => {
  it('creates a database whose name needs quotes', async () => {
    const name = newName(`we"ird; Näme `);
    await ensureDatabase(name, connect);
    await expect(connectTo(urlOf(name))).resolves.toBeDefined();
  });

  it.each([
    ['parameters', (url: URL) => url.searchParams.set('application_name', 'maker')],
    // The driver accepts these URLs, but `new URL` does not.
    ['no host but that of a parameter', (url: URL) => url.searchParams.set('host', url.hostname)],
  ])('reads the URL as the driver does, and keeps the rest of the URL: %s', async (kind, change) => {
    const name = newName();
    const url = new URL(urlOf(name));
    change(url);
    const href = kind === 'parameters' ? url.href : url.href.replace(/@[^/]*/, '@').concat(`&port=${url.port}`);
    await (await launch({ name: 'maker', database: href, logger: quiet })).shutdown();
    await expect(connectTo(urlOf(name))).resolves.toBeDefined();
  });

  it('succeeds when ten processes create the database at once', async () => {
    const name = newName();
    await Promise.all(Array.from({ length: 10 }, () => ensureDatabase(name, connect)));
    await expect(connectTo(urlOf(name))).resolves.toBeDefined();
  });

  it('connects to template1 if there is no database "postgres"', async () => {
    const name = newName();
    await ensureDatabase(name, (to) =>
      to === 'postgres'
        ? Promise.reject(Object.assign(new Error('database "postgres" does not exist'), { code: '3D000' }))
        : connect(to),
    );
    await expect(connectTo(urlOf(name))).resolves.toBeDefined();
  });

  it('says what to do if the role must not create databases', async () => {
    await administer('drop role if exists modest');
    await administer("create role modest login password 'modest'");
    const name = newName();
    const url = new URL(urlOf(name));
    url.username = url.password = 'modest';
    const asModest = async (database: string) => {
      url.pathname = `/${database}`;
      return connectTo(url.href);
    };
    await expect(ensureDatabase(name, asModest)).rejects.toMatchObject({
      code: 'DATABASE_MISSING',
      message: expect.stringMatching(/permission denied.*createdb/),
      details: { database: name },
    });
  });
});
