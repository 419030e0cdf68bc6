import { rmSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { target } from '../../src/storage/migrations/migration-state.js';
import { migratePostgres } from '../../src/storage/postgres/migrate.js';
import {
  compileMigrations,
  connectTo,
  emptyDatabase,
  layout,
  listener,
  migrateInProcess,
  migrateUpTo,
  quiet,
  versions,
} from './migrations-support.js';

const options = { schema: 'dbos', migrate: true, logger: quiet };
const done = `at ${target.shared}/${target.own}`;
let compiled: string;
beforeAll(() => {
  compiled = compileMigrations();
});
afterAll(() => rmSync(compiled, { recursive: true, force: true }));

async function referenceLayout(): Promise<string[]> {
  const client = await connectTo(await emptyDatabase());
  await migratePostgres(client, options);
  return layout(client);
}

describe('a race of many processes to migrate one Postgres database', () => {
  it('ends with one schema when 20 sessions race on an empty database', async () => {
    const url = await emptyDatabase();
    const clients = await Promise.all(Array.from({ length: 20 }, () => connectTo(url)));
    const after = await Promise.all(
      clients.map(async (client) => {
        await migratePostgres(client, { ...options, pause: () => new Promise((resolve) => setTimeout(resolve, 20)) });
        return versions(client);
      }),
    );
    expect(after).toEqual(clients.map(() => target));
    expect(await layout(await connectTo(url))).toEqual(await referenceLayout());
  });

  it('ends with one schema when 20 processes race on an empty database', async () => {
    const url = await emptyDatabase();
    const children = Array.from({ length: 20 }, () => migrateInProcess(compiled, url));
    expect(await Promise.all(children.map((child) => child.ended))).toEqual(children.map(() => 0));
    for (const child of children) expect(child.output()).toContain(done);
    expect(await layout(await connectTo(url))).toEqual(await referenceLayout());
  });

  it.each([10, 40, 77, 110])('is won by another process if the holder is killed at statement %i', async (stall) => {
    const url = await emptyDatabase();
    const holder = migrateInProcess(compiled, url, `stall=${stall}`);
    await holder.says('stalled');
    const waiter = migrateInProcess(compiled, url);
    await waiter.says('waiting for the migration lock, held by pid');
    expect(waiter.output()).toContain('application_name "migrator');
    holder.kill();
    expect(await holder.ended).toBe('SIGKILL');
    expect(await waiter.ended).toBe(0);
    expect(waiter.output()).toContain(done);
    expect(await layout(await connectTo(url))).toEqual(await referenceLayout());
  });

  it('retries each second while another session holds the lock, and names the session every ten seconds', async () => {
    const url = await emptyDatabase();
    const holder = await connectTo(url, 'the holder');
    await holder.query('select pg_advisory_lock(1234567890)');
    const client = await connectTo(url);
    const logger = listener();
    const pauses: number[] = [];
    const pause = async (ms: number): Promise<void> => {
      pauses.push(ms);
      if (pauses.length === 65) await holder.query('select pg_advisory_unlock(1234567890)');
    };
    // The default logger omits info and debug, but a person who waits must still see this line.
    await migratePostgres(client, { ...options, logger: { ...logger, info() {}, debug() {} }, pause });
    expect(pauses).toEqual(Array.from({ length: 65 }, () => 1000));
    const said = logger.lines.filter((line) => line.includes('held by'));
    expect(said).toHaveLength(7);
    const { rows } = await holder.query('select pg_backend_pid() as pid');
    expect(said[0]).toContain(`pid ${rows[0].pid} (application_name "the holder"`);
    expect(await versions(client)).toEqual(target);
  });

  it('does not ask for the lock again after the holder has finished', async () => {
    const url = await emptyDatabase();
    const holder = await connectTo(url);
    await holder.query('select pg_advisory_lock(1234567890)');
    const client = await connectTo(url);
    await migratePostgres(client, {
      ...options,
      // The holder migrates (its session may take the lock twice) and keeps it.
      pause: async () => void (await migratePostgres(holder, options)),
    });
    expect(await versions(client)).toEqual(target);
  });

  it('continues without the lock only if the server has no advisory locks', async () => {
    const url = await emptyDatabase();
    for (const [code, message] of [
      ['42883', 'function pg_try_advisory_lock does not exist'],
      ['0A000', 'advisory locks are not supported'],
    ]) {
      const client = await connectTo(url);
      failLock(client, Object.assign(new Error(message), { code }));
      const logger = listener();
      await client.query('drop schema if exists dbos cascade');
      await migratePostgres(client, { ...options, logger });
      expect(logger.lines.join()).toContain('no advisory locks');
      expect(await versions(client)).toEqual(target);
    }
    const refused = await connectTo(url);
    await refused.query('drop schema dbos cascade');
    failLock(refused, Object.assign(new Error('permission denied'), { code: '42501' }));
    await expect(migratePostgres(refused, options)).rejects.toMatchObject({ code: '42501' });
    expect(await layout(refused)).toEqual([]);
  });

  it('applies nothing twice even if the lock excludes no other process', async () => {
    const reference = await referenceLayout();
    for (const from of [0, 40, 100]) {
      const url = await emptyDatabase();
      if (from > 0) await migrateUpTo(await connectTo(url), from);
      const clients = await Promise.all(Array.from({ length: 8 }, () => connectTo(url)));
      for (const client of clients) failLock(client, Object.assign(new Error('no locks'), { code: '0A000' }));
      await Promise.all(clients.map((client) => migratePostgres(client, options)));
      expect(await layout(await connectTo(url)), `from ${from}`).toEqual(reference);
    }
  });
});

function failLock(client: Awaited<ReturnType<typeof connectTo>>, error: Error): void {
  const original = client.query.bind(client) as (...args: unknown[]) => unknown;
  client.query = ((...args: unknown[]) =>
    String(args[0]).includes('pg_try_advisory_lock')
      ? Promise.reject(error)
      : original(...args)) as typeof client.query;
}
