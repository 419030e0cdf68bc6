import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { ensureDatabase } from '../../src/storage/postgres/create-database.js';
import { administer, connectTo, urlOf } from './migrations-support.js';

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  await client.connect();
  return client;
}

function newName(prefix = 'made'): string {
  const name = `${prefix}${randomUUID()}`;
  onTestFinished(() => administer(`drop database if exists "${name.replaceAll('"', '""')}" with (force)`));
  return name;
}

describe('creating the database of a URL', () => {
  it('creates it, whatever its name needs', async () => {
    const url = urlOf(newName(`we"ird; Näme `));
    await ensureDatabase(url, connect);
    await expect(connectTo(url)).resolves.toBeDefined();
  });

  it('keeps the parameters of the URL on the way', async () => {
    const url = `${urlOf(newName())}?application_name=maker`;
    const seen: string[] = [];
    await ensureDatabase(url, (to) => {
      seen.push(to);
      return connect(to);
    });
    expect(seen).toEqual([`${inject('postgresUrl')}?application_name=maker`]);
  });

  it('lets ten creators race', async () => {
    const url = urlOf(newName());
    await Promise.all(Array.from({ length: 10 }, () => ensureDatabase(url, connect)));
    await expect(connectTo(url)).resolves.toBeDefined();
  });

  it('goes through template1 where there is no database "postgres"', async () => {
    const url = urlOf(newName());
    await ensureDatabase(url, (to) =>
      new URL(to).pathname === '/postgres'
        ? Promise.reject(Object.assign(new Error('database "postgres" does not exist'), { code: '3D000' }))
        : connect(to),
    );
    await expect(connectTo(url)).resolves.toBeDefined();
  });

  it('says what to do when the role may not', async () => {
    await administer('drop role if exists modest');
    await administer("create role modest login password 'modest'");
    const name = newName();
    const url = new URL(urlOf(name));
    url.username = url.password = 'modest';
    await expect(ensureDatabase(url.href, connect)).rejects.toMatchObject({
      code: 'DATABASE_MISSING',
      message: expect.stringMatching(/permission denied.*createdb/),
      details: { database: name },
    });
  });
});
