import { describe, expect, it, onTestFinished } from 'vitest';
import { type Internals, launchWith } from '../../src/app/launch.js';
import { launch } from '../../src/index.js';
import { silent } from '../support/backends.js';
import { failure, type RecordingLogger, recordingLogger } from '../support/faults.js';
import { report } from './child-process.js';
import { as, type FailoverPair, startPair } from './failover-pair.js';
import { Load, signed } from './outage-load.js';

const minutes = 60_000;

/** An app under load, which knows the database by the address that moves. */
async function begin(pair: FailoverPair, internals: Internals = {}) {
  const database = pair.address.url.replace(/\/postgres$/, '/failover');
  const load = new Load(database);
  const logger = recordingLogger();
  const app = await launchWith({ ...load.options, database: signed(database), logger }, internals);
  onTestFinished(() => app.shutdown());
  await load.prepare();
  return { load, logger, app, began: performance.now() };
}

/** So much work has begun since. */
async function someWork(load: Load, effects = 60): Promise<void> {
  const before = load.effects;
  await expect.poll(() => load.effects, { timeout: minutes }).toBeGreaterThan(before + effects);
}

const sessionsOf = (url: string): Promise<number> =>
  as(url, async (admin) => {
    const sessions = "select count(*)::int as n from pg_stat_activity where application_name like 'holdfast%'";
    return (await admin.query(sessions)).rows[0].n as number;
  });

describe('a failover to a standby that has all that was acknowledged', () => {
  it(
    'loses nothing and repeats nothing under load, when the old primary is gone',
    async () => {
      const pair = await startPair(true);
      const { load, logger, app, began } = await begin(pair);
      let over = false;
      const working = load.keepUp(app, () => over);
      await someWork(load);
      await pair.crash();
      await pair.promote();
      pair.address.moveTo(pair.standbyUrl);
      await load.observe();
      await someWork(load);
      over = true;
      await working;
      const { workflows, broken } = await load.check();
      report(`failover: ${workflows} workflows, ${load.told.length} calls told`);
      expect(broken).toEqual([]);
      expect(await as(pair.standbyUrl, (admin) => admin.query('select pg_is_in_recovery() as standby'))).toMatchObject({
        rows: [{ standby: false }],
      });
      expectFewLines(logger, began);
    },
    3 * minutes,
  );

  it(
    'loses nothing and repeats nothing under load, when the address first leads to the old primary, read-only by now',
    async () => {
      const pair = await startPair(true);
      const { load, logger, app, began } = await begin(pair);
      let over = false;
      const working = load.keepUp(app, () => over);
      await someWork(load);
      await pair.crash();
      const oldUrl = await pair.returnReadOnly();
      await expect.poll(() => logger.matching(/read-only/).length, { timeout: minutes }).toBeGreaterThan(1);
      await pair.promote();
      // What is connected to the old one stays so: only new connections find the new primary.
      pair.address.moveTo(pair.standbyUrl);
      await someWork(load);
      over = true;
      await working;
      const { broken } = await load.check();
      expect(broken).toEqual([]);
      expect(await sessionsOf(oldUrl)).toBe(0);
      expectFewLines(logger, began);
    },
    3 * minutes,
  );
});

describe('a server that takes no more writes', () => {
  /** How a primary becomes read-only: by a restart, which ends its sessions, or while they go on. */
  const ways = {
    'after a restart': async (pair: FailoverPair) => {
      await pair.crash();
      return pair.returnReadOnly();
    },
    'in the sessions that there are': async (pair: FailoverPair) => {
      await as(pair.primaryUrl, async (admin) => {
        await admin.query('alter system set default_transaction_read_only = on');
        await admin.query('select pg_reload_conf()');
      });
      return pair.primaryUrl;
    },
  };

  it.each(Object.entries(ways))('is not read from either, once another is the primary (%s)', async (_, turn) => {
    const pair = await startPair(true);
    const { load, logger, app } = await begin(pair);
    await load.startOne(app, 0);
    const oldUrl = await turn(pair);
    const working = load.startOne(app, 1);
    // Reads, too, while it is the one that the address leads to.
    const reading = () => app.workflows.get('wf-0').catch((error) => load.told.push(error));
    await Promise.all(Array.from({ length: 5 }, reading));
    await expect.poll(() => logger.matching(/read-only/).length, { timeout: minutes }).toBeGreaterThan(0);
    await pair.promote();
    pair.address.moveTo(pair.standbyUrl);
    await working;
    for (let i = 0; i < 5; i++) expect(await app.workflows.get('wf-1')).toMatchObject({ workflowId: 'wf-1' });
    expect((await load.check()).broken).toEqual([]);
    // Whoever listened there has found out by itself within half a minute.
    expect(await sessionsOf(oldUrl)).toBeLessThanOrEqual(1);
  });

  it('is no server to launch on, and the error says so', async () => {
    const pair = await startPair(false);
    const error = await failure(launch({ name: 'test', database: pair.standbyUrl, logger: silent }));
    expect([error.code, error.message]).toEqual([
      'DATABASE_UNREACHABLE',
      expect.stringMatching(/must lead to the primary/),
    ]);
  });
});

describe('a failover to a standby that lacks the last commits', () => {
  it(
    'lets everything that is on record come to its end, and tells whoever waits for what is not',
    async () => {
      const pair = await startPair(false);
      const { load, logger, app } = await begin(pair, { reclaimEveryMs: 300 });
      let over = false;
      const working = load.keepUp(app, () => over, 20, 'losing some');
      await someWork(load);
      await pair.cutOff();
      await someWork(load);
      await pair.crash();
      await pair.promote();
      pair.address.moveTo(pair.standbyUrl);
      await load.sendLettersAgain(app);
      await someWork(load);
      over = true;
      await working;
      const { workflows, lost, broken } = await load.checkRecord();
      report(`failover without the last commits: ${workflows} workflows, ${lost} acknowledged ones lost`);
      expect(broken).toEqual([]);
      // The standby did lack something, and this process had to part with some of its work.
      expect(lost).toBeGreaterThan(0);
      expect(logger.matching(/came back without its last commits/).length).toBeGreaterThan(0);
    },
    3 * minutes,
  );
});

function expectFewLines(logger: RecordingLogger, began: number): void {
  const seconds = (performance.now() - began) / 1000;
  expect(logger.lines.length, logger.lines.join('\n')).toBeLessThanOrEqual(Math.ceil(seconds) + 1);
}
