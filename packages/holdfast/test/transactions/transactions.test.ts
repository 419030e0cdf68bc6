import { describe, expect, it } from 'vitest';
import { context, FatalError, run, transaction, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { claimNothing } from '../support/claims.js';
import { plainest } from '../support/datasources.js';
import { failure, gate, tamper } from '../support/faults.js';
import { withoutTakeoverNews } from '../support/not-listening.js';
import { counter, openUserData, records } from '../support/user-data.js';

// P2. A transaction step takes effect exactly once. These tests use a database separate from that of the app.
describeBackends('a transaction of a workflow', (backend) => {
  withoutTakeoverNews();
  const openData = () => openUserData(backend, plainest[backend.name]);

  it('returns its checkpoint in a replay, like any step', async () => {
    const data = await openData();
    let calls = 0;
    const add = transaction(data.datasource, 'add', async (tx, by: number) => {
      calls++;
      await data.add(tx, 'a', by);
    });
    const held = gate();
    const wf = workflow('wf', async () => {
      const nothing = await add(1);
      await run('hold', () => held.promise);
      return [nothing, await add(2)];
    });
    const test = await backend.testApp({ workflows: [wf] });
    await wf.with({ id: 'x' }).start();
    await test.clock.advance(0);
    while (calls === 0 || (await test.app.workflows.steps('x')).length === 0) await test.clock.advance(0);
    const next = await test.restart();
    held.open();
    expect(await next.app.workflows.handle('x').result()).toEqual([undefined, undefined]);
    expect(calls).toBe(2);
    expect(await counter(data.url, 'a')).toBe(3);
  });

  it('is retried in a new transaction as often as its retries allow, and never after a FatalError', async () => {
    const data = await openData();
    const failing = (error: () => Error) => async (tx: unknown) => {
      await data.add(tx, 'tries', 1);
      attempts.push(context().attempt);
      if (context().attempt < 3) throw error();
      return data.read(tx, 'tries');
    };
    const attempts: number[] = [];
    const options = { retries: { max: 5, initial: 1 } };
    const flaky = transaction(
      data.datasource,
      'flaky',
      failing(() => new Error('flaky')),
      options,
    );
    const fatal = transaction(
      data.datasource,
      'fatal',
      failing(() => new FatalError('fatal')),
      options,
    );
    const wf = workflow('wf', async () => [await flaky(), await fatal().catch((error: Error) => error.message)]);
    const test = await backend.testApp({ workflows: [wf] });
    expect(await test.clock.runUntil(wf())).toEqual([1, 'fatal']);
    expect(attempts).toEqual([1, 2, 3, 1]);
    expect(await counter(data.url, 'tries')).toBe(1);
  });

  it('rolls back when its result cannot be stored', async () => {
    const data = await openData();
    const odd = transaction(data.datasource, 'odd', async (tx) => {
      await data.add(tx, 'a', 1);
      return () => 'a function';
    });
    const wf = workflow('wf', async () => odd());
    await backend.testApp({ workflows: [wf] });
    expect(await failure(wf())).toMatchObject({ code: 'UNSERIALIZABLE' });
    expect(await counter(data.url, 'a')).toBe(0);
  });

  it('does not commit if the workflow was cancelled meanwhile', async () => {
    const data = await openData();
    const [inside, goOn] = [gate(), gate()];
    const slow = transaction(data.datasource, 'slow', async (tx) => {
      await data.add(tx, 'a', 1);
      inside.open();
      await goOn.promise;
    });
    const wf = workflow('wf', async () => slow());
    const test = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await inside.promise;
    await test.app.workflows.cancel(handle.id);
    goOn.open();
    expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    await test.stop();
    expect(await counter(data.url, 'a')).toBe(0);
    expect(await records(data.url)).toEqual([]);
  });

  it('takes effect once when another execution overtakes it', async () => {
    const url = (await openData()).url;
    const library = plainest[backend.name];
    const [inside, goOn] = [gate<AbortSignal>(), gate()];
    const ended: string[] = [];
    const open = (who: string) => {
      const data = library.open(url);
      const pay = transaction(data.datasource, 'pay', async (tx) => {
        if (who === 'first') {
          inside.open(context().signal);
          await goOn.promise;
        }
        await data.add(tx, 'a', 1);
        return who;
      });
      const wf = workflow('wf', async () => pay().finally(() => ended.push(who)));
      return { wf, data };
    };
    const [one, two] = [open('first'), open('second')];
    const database = await backend.newDatabase();
    const first = await backend.testApp({ workflows: [one.wf], database, executorId: 'first', version: 'v' });
    await one.wf.with({ id: 'x' }).start();
    const signal = await inside.promise;
    const parked = new Promise((resolve) => signal.addEventListener('abort', resolve));
    const options = { workflows: [two.wf], database, clock: first.clock, executorId: 'second', version: 'v' };
    const second = await backend.testApp(options);
    claimNothing(first.app);
    const [recovered] = await second.app.recovery.recover(['first']);
    // On SQLite the first transaction holds the write lock. The second waits and takes the recorded outcome.
    if (backend.name === 'sqlite') goOn.open();
    const winner = backend.name === 'sqlite' ? 'first' : 'second';
    expect(await recovered?.result()).toBe(winner);
    goOn.open();
    // The checkpoint of the first execution was refused. By then its transaction has been committed or rolled back.
    await parked;
    for (const test of [first, second]) await test.stop();
    expect(await counter(url, 'a')).toBe(1);
    expect(await records(url)).toHaveLength(1);
    expect(ended).toEqual(['second']);
    for (const { data } of [one, two]) await data.close();
  });

  it('runs again for a new workflow under the ID of a deleted one', async () => {
    const data = await openData();
    const add = transaction(data.datasource, 'add', async (tx) => {
      await data.add(tx, 'a', 1);
      return data.read(tx, 'a');
    });
    const wf = workflow('wf', async () => add());
    const database = await backend.newDatabase();
    const test = await backend.testApp({ workflows: [wf], database });
    expect(await wf.with({ id: 'x' })()).toBe(1);
    for (const table of ['operation_outputs', 'workflow_status']) await tamper(database, `delete from ${table}`);
    await test.clock.advance('1s');
    expect(await wf.with({ id: 'x' })()).toBe(2);
    expect(await records(data.url)).toHaveLength(1);
    expect(await wf.with({ id: 'x' })()).toBe(2);
  });

  it('writes no record if it only reads, and reads again after a crash', async () => {
    const data = await openData();
    const look = transaction(data.datasource, 'look', (tx) => data.read(tx, 'a'), { readOnly: true });
    const wf = workflow('wf', async () => look());
    await backend.testApp({ workflows: [wf] });
    expect(await wf()).toBe(0);
    expect(await records(data.url)).toBeNull();
  });

  it('takes the result that DBOS recorded for it, and ignores an older record', async () => {
    const data = await openData();
    const add = transaction(data.datasource, 'add', (tx) => data.add(tx, 'a', 1).then(() => 'ours'));
    const wf = workflow('wf', async () => add());
    const test = await backend.testApp({ workflows: [wf] });
    await wf.with({ id: 'to have the table' })();
    const [now, table] = [test.clock.now(), data.url.startsWith('sqlite') ? '' : 'dbos.'];
    for (const [id, at] of [
      ['new', now + 1],
      ['old', now - 1],
    ] as const) {
      await tamper(
        data.url,
        `insert into ${table}transaction_completion (workflow_id, function_num, output, created_at)
         values ('${id}', 0, '{"json":"of DBOS","__dbos_serializer":"superjson"}', ${at})`,
      );
    }
    expect(await wf.with({ id: 'new' })()).toBe('of DBOS');
    expect(await wf.with({ id: 'old' })()).toBe('ours');
    expect(await counter(data.url, 'a')).toBe(2);
  });

  describe('outside the body of a workflow', () => {
    it('is a plain transaction if no workflow runs', async () => {
      const data = await openData();
      const add = transaction(data.datasource, 'add', async (tx, by: number) => {
        await data.add(tx, 'a', by);
        if (by < 0) throw new Error('No debts.');
        return data.read(tx, 'a');
      });
      expect(await add(2)).toBe(2);
      expect(await failure(add(-1))).toMatchObject({ message: 'No debts.' });
      expect(await counter(data.url, 'a')).toBe(2);
      expect(await records(data.url)).toBeNull();
      const nested = transaction(data.datasource, 'nested', () => add(1));
      expect(await failure(nested())).toMatchObject({ code: 'UNSUPPORTED_CALL' });
      expect(await counter(data.url, 'a')).toBe(2);
    });

    it('is refused inside a step and inside another transaction', async () => {
      const data = await openData();
      const add = transaction(data.datasource, 'add', (tx) => data.add(tx, 'a', 1));
      const outer = transaction(data.datasource, 'outer', () => add());
      const inStep = workflow('in step', () => run('step', () => add()));
      const inTransaction = workflow('in transaction', () => outer());
      await backend.testApp({ workflows: [inStep, inTransaction] });
      expect(await failure(inStep())).toMatchObject({ code: 'UNSUPPORTED_CALL', message: /inside a step/ });
      expect(await failure(inTransaction())).toMatchObject({
        code: 'UNSUPPORTED_CALL',
        message: /another transaction/,
      });
      expect(await counter(data.url, 'a')).toBe(0);
    });
  });
});
