import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Backend, describeBackends } from '../support/backends.js';
import { report, requireBuild } from './child-process.js';
import { violations } from './invariants.js';
import { Ledger } from './ledger.js';
import { TellingProcess } from './reporting-process.js';
import { observe, openRows, type RowReader } from './rows.js';

const roundsPerBackend = 60;
const middles = ['in a step', 'in a failing step', 'asleep'] as const;

describeBackends('fencing between processes', (backend) => {
  const pair = executorPair(backend);

  it('lets a stopped executor whose work was taken over change nothing when it continues', async () => {
    for (let round = 0; round < roundsPerBackend; round++) {
      const workflowId = `round-${String(round).padStart(3, '0')}-`;
      await stopAndTakeOver(pair, workflowId, middles[round % middles.length] as string, round % 2 === 0);
    }
    const marks = pair.ledger.entries().filter((entry) => entry.by === 'first');
    expect(marks.filter(({ kind }) => kind === 'catch' || kind === 'finally')).toEqual([]);
    expect(marks.filter(({ kind }) => kind === 'aborted')).toHaveLength(roundsPerBackend);
    expect(violations({ ...(await pair.rows.read('')), entries: pair.ledger.entries() })).toEqual([]);
    report(`fencing (${backend.name}): ${roundsPerBackend} rounds of SIGSTOP, takeover and SIGCONT`);
  }, 120_000);
});

/**
 * Stops the first executor in the middle of a workflow and lets the second take the workflow over. The first executor
 * then continues, either after the second has finished the workflow (`ended`) or while the second still runs it.
 */
async function stopAndTakeOver(pair: Pair, workflowId: string, how: string, ended: boolean): Promise<void> {
  const { first, second, rows, ledger } = pair;
  first.send({ command: 'start', workflowId, how });
  await first.next('waiting');
  first.process.kill('SIGSTOP');
  // The command stays in the pipe of the stopped process. A running process would act on it and leave nothing to take
  // over.
  first.send({ command: 'goOn', workflowId });
  second.send({ command: 'recover', workflowId, from: 'first' });
  expect((await second.next('recovered')).workflowIds).toEqual([workflowId]);
  if (ended) await finish(second, workflowId);
  expect(first.unread()).toEqual([]);
  const before = await rows.read(workflowId);
  expect(before.workflows).toMatchObject([{ status: ended ? 'SUCCESS' : 'PENDING', executor_id: 'second' }]);
  observe(ledger, before);
  first.process.kill('SIGCONT');
  // The late write was answered: another executor owns the workflow.
  await first.next('aborted');
  expect(await rows.read(workflowId)).toEqual(before);
  if (!ended) await finish(second, workflowId);
  first.send({ command: 'result', workflowId });
  await first.next('result');
}

async function finish(executor: TellingProcess, workflowId: string): Promise<void> {
  executor.send({ command: 'goOn', workflowId });
  executor.send({ command: 'result', workflowId });
  await executor.next('result');
}

interface Pair {
  first: TellingProcess;
  second: TellingProcess;
  rows: RowReader;
  readonly ledger: Ledger;
}

function executorPair(backend: Backend): Pair {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-fencing-'));
  const ledger = new Ledger(join(folder, 'ledger.sqlite'));
  const pair = { ledger } as Pair;
  beforeAll(async () => {
    await requireBuild();
    const database = await backend.newDatabase();
    const start = (executorId: string) =>
      TellingProcess.start('fencing-worker.mjs', { ledgerPath: ledger.path, database, executorId });
    pair.first = await start('first');
    pair.second = await start('second');
    pair.rows = await openRows(database);
  });
  afterAll(async () => {
    await pair.rows?.close();
    for (const executor of [pair.first, pair.second]) await executor?.kill();
    ledger.close();
    rmSync(folder, { recursive: true });
  });
  return pair;
}
