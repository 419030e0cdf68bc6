import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import { connect, isHoldfastError, queue } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { recordingLogger } from '../support/faults.js';
import { report } from './child-process.js';
import { type FaultKind, openProxy } from './proxy.js';
import { steeringWrites } from './proxy-steering.js';
import { bodies, OwnError, ownWrites, plain, type Write, type WriteRig, workflows } from './proxy-writes.js';

/** HOLDFAST_PROXY_WRITES=all tests every write with every fault. Otherwise the seed selects a part of the cases. */
const seed = process.env.HOLDFAST_FAULT_SEED ?? String(Date.now() % 1_000_000);
const share = process.env.HOLDFAST_PROXY_WRITES === 'all' ? 1 : 0.4;
const kinds: readonly FaultKind[] = ['cut-before', 'cut-after', 'black-hole', 'swallow', 'reset'];
const answerTimeoutMs = 300;
const longestTryingMs = 30_000;

const random = new SeededRandom(`proxy writes ${seed}`);
const writes = [...ownWrites, ...steeringWrites];
const cases = writes.flatMap((write) => {
  const chosen = kinds.filter(() => random.number() < share);
  // Each write is tested with at least one fault in every run.
  return (chosen.length > 0 ? chosen : [kinds[Math.floor(random.number() * kinds.length)] as FaultKind]).map(
    (kind) => ({
      name: `${write.name}: ${kind}`,
      write,
      kind,
    }),
  );
});

describeBackends('a write whose connection fails', suite, ['postgres']);

function suite(backend: Backend): void {
  let rig: WriteRig;
  let close: () => Promise<void>;
  const logger = recordingLogger();
  const strays: unknown[] = [];
  const stray = (error: unknown): void => void strays.push(error);
  beforeAll(async () => {
    process.on('unhandledRejection', stray);
    ({ rig, close } = await openRig(backend, logger));
  });
  afterAll(async () => {
    await close();
    process.off('unhandledRejection', stray);
    const { counts, statements } = rig.proxy;
    report(
      `proxy writes: ${cases.length} cases, seed ${seed}, ${statements.length} statements, ${JSON.stringify(counts)}`,
    );
  });

  describe(`HOLDFAST_FAULT_SEED=${seed}`, () => {
    it.each(cases)('is made once, or its caller gets an error and can repeat it ($name)', async ({ write, kind }) => {
      const id = `w${Math.random().toString(36).slice(2)}`;
      const attempt = await write.prepare(rig, id);
      const fault = rig.proxy.arm({ kind, at: write.at, nth: write.nth ?? 1 });
      await made(write, attempt.call);
      expect(fault.count, 'the fault did not land').toBe(1);
      expect(await attempt.found()).toEqual(attempt.expected);
      // The app continues, and the fault has left nothing behind.
      expect(await plain.with({ id: `${id}/after` })(`${id}/after`)).toBe(1);
      expect(bodies.get(`${id}/after`)).toBe(1);
      expect(strays).toEqual([]);
    });
  });

  it('causes no error in the log, only notices of retries', () => {
    const told = logger.lines.filter((line) => !/tried again|Query read timeout/.test(line));
    expect(told).toEqual([]);
  });
}

/** Makes the write. If the caller gets an error, repeats the write until the effects of the fault are gone. */
async function made(write: Write, call: () => Promise<unknown>): Promise<void> {
  const began = performance.now();
  for (let tries = 1; ; tries++) {
    const error = await call().then(
      () => undefined,
      (failed: unknown) => failed ?? new Error('rejected with nothing'),
    );
    if (error === undefined) return;
    if (tries > 1 && isHoldfastError(error) && error.code === write.onceDone) return;
    const isTold = error instanceof OwnError || isHoldfastError(error, 'DATABASE_FAILED');
    if (write.mended === 'by itself' || !isTold || performance.now() - began > longestTryingMs) throw error;
  }
}

async function openRig(backend: Backend, logger: ReturnType<typeof recordingLogger>) {
  const database = await backend.newDatabase();
  const proxy = await openProxy(database);
  const queues = [queue('jobs'), queue('limited', { concurrency: 2 }), queue('paused')];
  const options = { name: 'test', database: proxy.url, workflows, queues, logger };
  const app = await launchWith(options, { answerTimeoutMs });
  await app.queues.pause('paused');
  const client = await connect({ database: proxy.url, name: 'test', logger });
  const pool = new pg.Pool({
    connectionString: proxy.url,
    max: 3,
    query_timeout: answerTimeoutMs,
    // Without this timeout an abandoned transaction keeps its row locks until TCP gives up.
    idle_in_transaction_session_timeout: answerTimeoutMs,
  });
  pool.on('error', () => {});
  const direct = new pg.Client(database);
  await direct.connect();
  await direct.query('set search_path to dbos; create table public.bumps (id text)');
  const rig: WriteRig = { app, client, proxy, pool, sql: async (text) => (await direct.query(text)).rows };
  const close = async (): Promise<void> => {
    await client.close();
    await app.shutdown();
    await Promise.all([pool.end(), direct.end()]);
    await proxy.close();
  };
  return { rig, close };
}
