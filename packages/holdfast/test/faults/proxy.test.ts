import pg from 'pg';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { failure } from '../support/faults.js';
import { type FaultProxy, openProxy } from './proxy.js';

/** A table of its own, reached through the proxy and directly. */
async function rig() {
  const direct = await connected(inject('postgresUrl'));
  const table = `proxy_${Math.random().toString(36).slice(2)}`;
  await direct.query(`create table ${table} (n int)`);
  const proxy = await openProxy(inject('postgresUrl'));
  onTestFinished(async () => {
    await proxy.close();
    await direct.query(`drop table ${table}`);
    await direct.end();
  });
  const insert = { name: 'things.insert', text: `insert into ${table} values ($1)`, values: [1] };
  const rows = async (): Promise<number> => (await direct.query(`select 1 from ${table}`)).rowCount ?? -1;
  return { direct, proxy, table, insert, rows };
}

async function connected(url: string, options: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, ...options });
  client.on('error', () => {});
  await client.connect();
  return client;
}

/** A client through the proxy. It is closed with the test, even if its connection leads to a black hole. */
async function through(proxy: FaultProxy, options: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = await connected(proxy.url, options);
  onTestFinished(() => void client.end().catch(() => {}));
  return client;
}

describe('the fault proxy', () => {
  it('passes everything on when nothing is armed, and identifies statements by name or text', async () => {
    const { proxy, insert, rows } = await rig();
    const client = await through(proxy);
    for (let i = 0; i < 3; i++) await client.query(insert);
    await client.query({ ...insert, name: 'things.insert.variant' });
    await client.query('select 1 as one');
    const big = 'x'.repeat(1_000_000);
    expect((await client.query('select $1::text as big', [big])).rows).toEqual([{ big }]);
    expect(await rows()).toBe(4);
    expect(proxy.statements).toEqual([...Array(4).fill('things.insert'), 'select 1 as one', 'select $1::text as big']);
    expect(Object.values(proxy.counts).every((count) => count === 0)).toBe(true);
  });

  it('cuts the nth statement before the server gets it', async () => {
    const { proxy, insert, rows } = await rig();
    const client = await through(proxy);
    const fault = proxy.arm({ kind: 'cut-before', at: 'things.insert', nth: 2 });
    await client.query(insert);
    expect(fault.count).toBe(0);
    await failure(client.query(insert));
    await fault.landed;
    expect([await rows(), fault.count, proxy.counts['cut-before']]).toEqual([1, 1, 1]);
    expect(await (await through(proxy)).query(insert)).toMatchObject({ rowCount: 1 });
  });

  it('cuts after the server has answered, before the client gets the answer', async () => {
    const { proxy, insert, rows } = await rig();
    const client = await through(proxy);
    const seen: number[] = [];
    const meanwhile = async () => seen.push(await rows());
    const fault = proxy.arm({ kind: 'cut-after', at: /^things/, meanwhile });
    await failure(client.query(insert));
    await fault.landed;
    expect([await rows(), seen]).toEqual([1, [1]]);
  });

  it('cuts before and after a commit', async () => {
    const { proxy, insert, rows } = await rig();
    for (const kind of ['cut-before', 'cut-after'] as const) {
      const client = await through(proxy);
      await client.query('begin');
      await client.query(insert);
      const fault = proxy.arm({ kind, at: 'commit' });
      await failure(client.query('commit'));
      await fault.landed;
      expect(await rows()).toBe(kind === 'cut-before' ? 0 : 1);
    }
  });

  it('swallows everything sent to a black hole, and both sockets stay open', async () => {
    const { proxy, insert, rows } = await rig();
    const client = await through(proxy, { query_timeout: 100 });
    let isOpen = true;
    client.once('end', () => {
      isOpen = false;
    });
    const fault = proxy.arm({ kind: 'black-hole', at: 'things.insert' });
    expect((await failure(client.query(insert))).message).toMatch(/timeout/);
    await fault.landed;
    // By the time of a direct round trip to the server, a pending close of the socket would have arrived.
    expect([await rows(), isOpen, proxy.connections]).toEqual([0, true, 1]);
  });

  it('swallows an answer: the statement is applied, and the client waits', async () => {
    const { proxy, insert, rows } = await rig();
    const client = await through(proxy, { query_timeout: 100 });
    const fault = proxy.arm({ kind: 'swallow', at: 'things.insert' });
    expect((await failure(client.query(insert))).message).toMatch(/timeout/);
    await fault.landed;
    expect([await rows(), proxy.counts.swallow, proxy.connections]).toEqual([1, 1, 1]);
  });

  it('holds a statement back, and later statements stay behind it', async () => {
    const { proxy, insert, rows } = await rig();
    const client = await through(proxy);
    const fault = proxy.arm({ kind: 'delay', at: 'things.insert', ms: 1_000 });
    const began = performance.now();
    const all = Promise.all([client.query(insert), client.query('select 2')]);
    expect(await rows()).toBe(0);
    await all;
    await fault.landed;
    expect(performance.now() - began).toBeGreaterThanOrEqual(990);
    expect(await rows()).toBe(1);
  });

  it('splits a connection into tiny packets from its login on, and loses nothing', async () => {
    const { proxy, insert, rows } = await rig();
    const fault = proxy.arm({ kind: 'split' });
    const client = await through(proxy);
    expect(fault.count).toBe(1);
    for (let i = 0; i < 5; i++) await client.query(insert);
    const big = 'y'.repeat(100_000);
    expect((await client.query('select $1::text as big', [big])).rows).toEqual([{ big }]);
    expect(await rows()).toBe(5);
  });

  it('resets a connection', async () => {
    const { proxy, insert, rows } = await rig();
    const client = await through(proxy);
    const fault = proxy.arm({ kind: 'reset', at: 'things.insert' });
    expect(await failure(client.query(insert))).toMatchObject({ code: 'ECONNRESET' });
    await fault.landed;
    expect([await rows(), proxy.counts.reset]).toEqual([0, 1]);
  });

  it('strikes as often as it is armed to, and not after it is disarmed', async () => {
    const { proxy, insert } = await rig();
    const fault = proxy.arm({ kind: 'cut-before', at: 'things.insert', times: 2 });
    for (let i = 0; i < 2; i++) await failure((await through(proxy)).query(insert));
    await fault.landed;
    await (await through(proxy)).query(insert);
    const another = proxy.arm({ kind: 'cut-before', at: 'things.insert' });
    another.disarm();
    await (await through(proxy)).query(insert);
    expect([fault.count, another.count]).toEqual([2, 0]);
  });

  it('severs, refuses and partitions all connections until it is switched off', async () => {
    const { proxy, insert, rows } = await rig();
    const first = await through(proxy);
    await first.query(insert);
    expect(proxy.sever()).toBe(1);
    await failure(first.query(insert));
    proxy.refuse(true);
    await failure(connected(proxy.url));
    proxy.refuse(false);
    const second = await through(proxy, { query_timeout: 100 });
    proxy.partition(true);
    await failure(second.query(insert));
    expect((await failure(connected(proxy.url, { connectionTimeoutMillis: 100 }))).message).toMatch(/timeout/);
    proxy.partition(false);
    // A connection that went through a black hole stays unusable.
    await failure(second.query(insert));
    await (await through(proxy)).query(insert);
    expect(await rows()).toBe(2);
    expect(proxy.counts).toMatchObject({ sever: 1, refuse: 1, partition: 2 });
  });
});
