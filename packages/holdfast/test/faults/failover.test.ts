import { describe, expect, it, onTestFinished } from 'vitest';
import { type Internals, launchWith } from '../../src/app/launch.js';
import { launch } from '../../src/index.js';
import { silent } from '../support/backends.js';
import { failure, type RecordingLogger, recordingLogger } from '../support/faults.js';
import { report } from './child-process.js';
import { as, type FailoverPair, startPair } from './failover-pair.js';
import { Load, signed } from './outage-load.js';

const minutes = 60_000;

/** Launches an app under load. The app connects to the address that moves in a failover. */
async function begin(pair: FailoverPair, internals: Internals = {}) {
  const database = pair.address.url.replace(/\/postgres$/, '/failover');
  const load = new Load(database);
  const logger = recordingLogger();
  const app = await launchWith({ ...load.options, database: signed(database), logger }, internals);
  onTestFinished(() => app.shutdown());
  await load.prepare();
  return { load, logger, app, began: performance.now() };
}

/** Waits until this many more effects have begun. */
async function someWork(load: Load, effects = 60): Promise<void> {
  const before = load.effects;
  await expect.poll(() => load.effects, { timeout: minutes }).toBeGreaterThan(before + effects);
}

const sessionsOf = (url: string): Promise<number> =>
  as(url, async (admin) => {
    const sessions = "select count(*)::int as n from pg_stat_activity where application_name like 'holdfast%'";
    return (await admin.query(sessions)).rows[0].n as number;
  });

describe('a failover to a standby that has every acknowledged commit', () => {
  it(
    'loses nothing and repeats nothing under load when the old primary is gone',
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
      report(`failover: ${workflows} workflows, ${load.told.length} failed calls`);
      expect(broken).toEqual([]);
      expect(await as(pair.standbyUrl, (admin) => admin.query('select pg_is_in_recovery() as standby'))).toMatchObject({
        rows: [{ standby: false }],
      });
      expectFewLines(logger, began);
    },
    3 * minutes,
  );

  it(
    'loses nothing and repeats nothing under load when the address first leads to the read-only old primary',
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
      // Connections to the old primary stay open. Only new connections reach the new primary.
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

describe('a server that has become read-only', () => {
  /** How a primary becomes read-only: by a restart, which ends its sessions, or while its sessions stay open. */
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

  it.each(Object.entries(ways))('gets no more reads once another server is the primary (%s)', async (_, turn) => {
    const pair = await startPair(true);
    const { load, logger, app } = await begin(pair);
    await load.startOne(app, 0);
    const oldUrl = await turn(pair);
    const working = load.startOne(app, 1);
    // The app also reads while the address still leads to the old primary.
    const reading = () => app.workflows.get('wf-0').catch((error) => load.told.push(error));
    await Promise.all(Array.from({ length: 5 }, reading));
    await expect.poll(() => logger.matching(/read-only/).length, { timeout: minutes }).toBeGreaterThan(0);
    await pair.promote();
    pair.address.moveTo(pair.standbyUrl);
    await working;
    for (let i = 0; i < 5; i++) expect(await app.workflows.get('wf-1')).toMatchObject({ workflowId: 'wf-1' });
    expect((await load.check()).broken).toEqual([]);
    // A listener on the old primary detects the failover within half a minute.
    expect(await sessionsOf(oldUrl)).toBeLessThanOrEqual(1);
  });

  it('is rejected at launch, with an error that names the cause', async () => {
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
    'finishes all recorded work, and reports lost work to its callers',
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
      // The standby did lack commits, and this process had to drop some of its work.
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
