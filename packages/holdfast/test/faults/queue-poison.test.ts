import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { connect, queue } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { report, requireBuild } from './child-process.js';
import { Ledger } from './ledger.js';
import { Worker } from './queue-fleet.js';

const innocents = 24;
const maxRecoveryAttempts = 4;

describeBackends('a workflow that kills its process', (backend) => {
  beforeAll(requireBuild);

  it('is given up after its attempts, without giving up the workflows that ran beside it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-poison-'));
    const ledger = new Ledger(join(folder, 'ledger.sqlite'));
    const database = await backend.newDatabase();
    const client = await connect({ name: 'fleet', database, logger: silent });
    onTestFinished(async () => {
      await client.close();
      ledger.close();
      rmSync(folder, { recursive: true });
    });
    await client.queues.register(queue('jobs', { workerConcurrency: 8, concurrency: 12 }));
    const inputs = Array.from({ length: innocents }, (_, i) => [i, i === 3 ? 'poison' : 'innocent']);
    const handles = await client.startAll('job', { queue: 'jobs' }, inputs);
    const ended = Promise.allSettled(handles.map((handle) => handle.result()));
    const options = { ledgerPath: ledger.path, database, stepMs: 20, maxRecoveryAttempts };
    const deaths = await keepUp(options, 2, ended);
    const statuses = await Promise.all(handles.map((handle) => handle.status()));
    const begun = ledger.entries(handles[3]?.id).filter(({ kind, detail }) => kind === 'begin' && detail === 'poison');
    report(`poison (${backend.name}): ${deaths} processes died, of ${begun.length} starts of it`);
    expect(statuses[3]).toMatchObject({ status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' });
    expect(begun).toHaveLength(maxRecoveryAttempts + 1);
    expect(deaths).toBe(maxRecoveryAttempts + 1);
    const others = statuses.filter((_, i) => i !== 3);
    expect(others.map(({ status }) => status)).toEqual(others.map(() => 'SUCCESS'));
  }, 120_000);
});

/** Replaces each worker that dies until the work is done. Returns the number of deaths. */
async function keepUp(options: object, count: number, done: Promise<unknown>): Promise<number> {
  let [finished, deaths] = [false, 0];
  const isDone = done.then(() => {
    finished = true;
  });
  const lane = async (): Promise<void> => {
    while (!finished) {
      const worker = await Worker.start(options);
      await Promise.race([worker.ended, isDone]);
      if (finished) return worker.stop().catch(() => {});
      deaths++;
    }
  };
  await Promise.all(Array.from({ length: count }, lane));
  return deaths;
}
