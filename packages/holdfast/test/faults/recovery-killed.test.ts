import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeDrivers } from '../support/backends.js';
import { type Exit, requireBuild, runFixture } from './child-process.js';
import { violations } from './invariants.js';
import { Ledger } from './ledger.js';
import { observe, openRows, type Rows } from './rows.js';

/** Processes of one executor are killed one after the other while they run one workflow. */
describeDrivers('a workflow whose recoveries are also killed', (backend) => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-deep-'));
  const ledger = new Ledger(join(folder, 'ledger.sqlite'));
  beforeAll(requireBuild);
  afterAll(() => {
    ledger.close();
    rmSync(folder, { recursive: true });
  });

  /** Runs one process after the other. The last process has no crash point and finishes the workflow. */
  async function stage(workflowId: string) {
    const database = await backend.newDatabase();
    const job = { database, executorId: workflowId, workflow: 'sequential', workflowId };
    const read = async (): Promise<Rows> => {
      const rows = await openRows(database);
      return rows.read(workflowId).finally(() => rows.close());
    };
    return {
      read,
      run: async (crashAt?: string): Promise<Exit> => {
        const jobs = [{ ...job, ...(crashAt && { crashAt }) }];
        const exit = await runFixture('crash-worker.mjs', { ledgerPath: ledger.path, jobs });
        expect(exit.signal).toBe(crashAt ? 'SIGKILL' : null);
        observe(ledger, await read());
        return exit;
      },
      attempts: async () => Number((await read()).workflows[0]?.recovery_attempts),
      check: async () => {
        const rows = await read();
        expect(violations({ ...rows, entries: ledger.entries(workflowId) })).toEqual([]);
        expect(rows.workflows).toMatchObject([{ status: 'SUCCESS' }]);
      },
    };
  }

  /** The position of the first `steps.record` statement, counted from the launch. */
  const firstRecord = ({ output }: Exit): number => (JSON.parse(output) as string[]).indexOf('steps.record') + 1;

  it('finishes after three killed recoveries, with one attempt for each process that ran it', async () => {
    const rehearsal = await stage('rehearsal');
    const clean = firstRecord(await (await stage('clean')).run());
    await rehearsal.run(`${clean}:after-apply`);
    const recovering = firstRecord(await rehearsal.run());
    expect(recovering).toBeGreaterThan(0);

    const deep = await stage('deep');
    await deep.run(`${clean}:after-apply`);
    for (let depth = 1; depth <= 3; depth++) {
      await deep.run(`${recovering}:after-apply`);
      expect(await deep.attempts()).toBe(1 + depth);
    }
    await deep.run();
    await deep.check();
    expect(await deep.attempts()).toBe(5);
  });

  it('counts no attempt for processes that died before they could claim it', async () => {
    const clean = firstRecord(await (await stage('clean again')).run());
    const early = await stage('early');
    await early.run(`${clean}:after-apply`);
    for (const point of ['1:before-send', '3:after-apply', '6:before-send']) {
      await early.run(point);
      expect(await early.attempts()).toBe(1);
    }
    await early.run();
    await early.check();
    expect(await early.attempts()).toBe(2);
  });
});
