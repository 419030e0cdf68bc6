import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Internals, launchWith } from '../../src/app/launch.js';
import type { LaunchOptions } from '../../src/index.js';
import { type RecordingLogger, recordingLogger } from '../support/faults.js';
import { report } from './child-process.js';
import { Load, signed } from './outage-load.js';
import { type OwnPostgres, startOwnPostgres } from './own-postgres.js';
import { openProxy } from './proxy.js';

/** HOLDFAST_RESTARTS=50 for the long run. */
const restarts = Number(process.env.HOLDFAST_RESTARTS ?? 5);
/** Processes besides the one of the test. */
const processes = 3;
const minutes = 60_000;

describe('a dedicated Postgres server', () => {
  let server: OwnPostgres;
  let created = 0;
  beforeAll(async () => {
    server = await startOwnPostgres({ fsync: 'off', max_connections: 60, shared_buffers: '32MB' });
  });
  afterAll(() => server.stop());

  async function begin(internals: Internals = {}, through = (url: string) => url, more: Partial<LaunchOptions> = {}) {
    const url = new URL(server.url);
    url.pathname = `/outage_${created++}`;
    const load = new Load(url.href);
    const logger = recordingLogger();
    const options = { ...load.options, database: signed(through(url.href)), logger, ...more };
    const app = await launchWith(options, internals);
    onTestFinished(() => app.shutdown());
    await load.prepare();
    return { load, logger, app, database: url.href };
  }

  it(
    `loses nothing, repeats nothing and changes nothing in ${restarts} crashes under load`,
    async () => {
      const { load, logger, app } = await begin();
      await load.employ(processes);
      const began = performance.now();
      let crashes = 0;
      const working = load.keepUp(app, () => crashes === restarts);
      while (crashes < restarts) {
        const before = load.effects;
        await expect.poll(() => load.effects, { timeout: minutes }).toBeGreaterThan(before + 60);
        await server.restart();
        await load.observe();
        crashes++;
      }
      await working;
      const { workflows, broken } = await load.check();
      const seconds = (performance.now() - began) / 1000;
      report(
        `${restarts} restarts, ${1 + processes} processes, ${workflows} workflows, ` +
          `${load.told.length} failed calls, ${seconds.toFixed(0)} s`,
      );
      expect(broken).toEqual([]);
      expect(workflows).toBeGreaterThan(restarts);
      expectFewLines(logger, seconds);
    },
    restarts * minutes,
  );

  it('is waited for over new connections while it is read-only, and work continues', async () => {
    const { load, logger, app, database } = await begin();
    const admin = await session(server.url);
    const set = async (readOnly: 'on' | 'off'): Promise<void> => {
      await admin.query('set default_transaction_read_only = off');
      await admin.query(`alter system set default_transaction_read_only = ${readOnly}`);
      await admin.query('select pg_reload_conf()');
    };
    await load.startOne(app, 0);
    const before = await pids(admin, database);
    const began = performance.now();
    await set('on');
    onTestFinished(() => set('off'));
    const working = load.startOne(app, 1);
    // The second log line proves that the app has retried for most of a second.
    await expect.poll(() => logger.matching(/read-only transaction/).length, { timeout: minutes }).toBeGreaterThan(1);
    await set('off');
    await working;
    const { workflows, broken } = await load.check();
    expect([workflows, broken]).toEqual([4, []]);
    expectFewLines(logger, (performance.now() - began) / 1000);
    // A session that failed on the read-only server was not used again.
    const after = await pids(admin, database);
    expect(before.some((pid) => !after.includes(pid))).toBe(true);
  });

  it('is waited for while it has no free connection, and work continues', async () => {
    const { load, logger, app, database } = await begin();
    await load.startOne(app, 0);
    const admin = await session(server.url);
    const began = performance.now();
    const hogs = await takeAll(admin, database, server.url);
    const working = load.startOne(app, 1);
    await expect.poll(() => logger.matching(/too many clients/).length, { timeout: minutes }).toBeGreaterThan(1);
    for (const each of hogs) await each.end();
    await working;
    const { workflows, broken } = await load.check();
    expect([workflows, broken]).toEqual([4, []]);
    expectFewLines(logger, (performance.now() - began) / 1000);
  });

  it.each([2, 3])('serves an app with %i connections, even if they all break under load', async (poolSize) => {
    const { load, app, database } = await begin({}, undefined, { poolSize });
    const admin = await session(server.url);
    let rounds = 0;
    const working = load.keepUp(app, () => rounds === 3, 10);
    while (rounds < 3) {
      const before = load.effects;
      await expect.poll(() => load.effects, { timeout: minutes }).toBeGreaterThan(before + 40);
      await terminate(admin, database);
      rounds++;
    }
    await working;
    const { workflows, broken } = await load.check();
    expect(broken).toEqual([]);
    expect(workflows).toBeGreaterThan(10);
  });

  it('is given up while it is unreachable and found again after, and nothing runs twice', async () => {
    const proxy = await openProxy(server.url);
    onTestFinished(() => proxy.close());
    const through = (url: string): string => {
      const by = new URL(url);
      by.host = new URL(proxy.url).host;
      return by.href;
    };
    const { load, logger, app } = await begin({ answerTimeoutMs: 300 }, through);
    const began = performance.now();
    let healed = false;
    const working = load.keepUp(app, () => healed, 10);
    await expect.poll(() => load.effects, { timeout: minutes }).toBeGreaterThan(40);
    proxy.partition(true);
    await expect.poll(() => logger.matching(/timeout/).length, { timeout: minutes }).toBeGreaterThan(1);
    proxy.partition(false);
    healed = true;
    await working;
    const { broken } = await load.check();
    expect(broken).toEqual([]);
    expect(proxy.counts.partition).toBeGreaterThan(0);
    expectFewLines(logger, (performance.now() - began) / 1000);
  });
});

async function session(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => void client.end().catch(() => {}));
  return client;
}

const appSessions = `from pg_stat_activity where datname = $1 and application_name like 'holdfast%'`;

async function pids(admin: pg.Client, database: string): Promise<number[]> {
  const name = new URL(database).pathname.slice(1);
  return (await admin.query(`select pid ${appSessions}`, [name])).rows.map(({ pid }) => pid);
}

async function terminate(admin: pg.Client, database: string): Promise<number> {
  const name = new URL(database).pathname.slice(1);
  return (await admin.query(`select pg_terminate_backend(pid) ${appSessions}`, [name])).rows.length;
}

/** Ends the app's connections and takes every free connection of the server, until the app has none left. */
async function takeAll(admin: pg.Client, database: string, url: string): Promise<pg.Client[]> {
  const hogs: pg.Client[] = [];
  for (let refused = 0; refused < 3; ) {
    const hog = new pg.Client(url);
    hog.on('error', () => {});
    try {
      await hog.connect();
      hogs.push(hog);
    } catch {
      // The app may have reconnected first.
      const ended = await terminate(admin, database);
      refused = ended > 0 ? 0 : refused + 1;
    }
  }
  return hogs;
}

/** Expects at most one log line per second. */
function expectFewLines(logger: RecordingLogger, seconds: number): void {
  expect(logger.lines.length, logger.lines.join('\n')).toBeLessThanOrEqual(Math.ceil(seconds) + 1);
}
