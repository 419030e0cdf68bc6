import { expect, it } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { run, transaction, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { libraries, type Opened, plainest } from '../support/datasources.js';
import { gate, recordingLogger, tamper } from '../support/faults.js';
import { counter, openUserData, openUserDataIn } from '../support/user-data.js';

/** Returns a function whose calls all resolve once `size` calls have been made. */
function meeting(size: number): () => Promise<void> {
  const all = gate();
  let arrived = 0;
  return () => {
    if (++arrived >= size) all.open();
    return all.promise;
  };
}

/** Two transactions read a counter, wait for each other and add one. Only the database prevents a lost update. */
function incrementBoth(data: Opened, isolation: 'repeatable read' | 'serializable') {
  const meet = meeting(2);
  const calls: string[] = [];
  const increment = transaction(
    data.datasource,
    'increment',
    async (tx, who: string) => {
      calls.push(who);
      const before = await data.read(tx, 'a');
      await meet();
      await data.add(tx, 'a', 1);
      return before + 1;
    },
    { isolation },
  );
  const wf = workflow('wf', async (who: string) => [await increment(who), await run('after', () => who)]);
  return { wf, calls };
}

describeBackends('conflicting transactions', suite, ['postgres']);

function suite(backend: Backend): void {
  for (const library of libraries.filter(({ dialect }) => dialect === 'postgres')) {
    for (const place of ['a database of its own', 'the database of the app']) {
      it(`are retried after a serialization failure, through ${library.name} in ${place}`, async () => {
        const database = await backend.newDatabase();
        const own = place === 'a database of its own';
        const data = own ? await openUserData(backend, library) : await openUserDataIn(database, library);
        await transaction(data.datasource, 'set up', (tx) => data.add(tx, 'a', 10))();
        const { wf, calls } = incrementBoth(data, 'repeatable read');
        await backend.testApp({ database, workflows: [wf] });
        const results = await Promise.all([wf('one'), wf('two')]);
        expect(results.map(([n]) => n).sort()).toEqual([11, 12]);
        expect(results.map(([, who]) => who)).toEqual(['one', 'two']);
        expect(calls).toHaveLength(3);
        expect(await counter(data.url, 'a')).toBe(12);
      });
    }
  }

  it.each(['repeatable read', 'serializable', 'the default of the database'] as const)(
    'commit once beside steps that commit meanwhile, and do not block those steps: %s',
    async (isolation) => {
      const database = await backend.newDatabase();
      const name = new URL(database).pathname.slice(1);
      const byDefault = isolation === 'the default of the database';
      if (byDefault)
        await tamper(database, `alter database "${name}" set default_transaction_isolation = 'repeatable read'`);
      const data = await openUserDataIn(database, plainest.postgres);
      const [inside, others] = [gate(), gate()];
      const ran: string[] = [];
      const step = (what: string) => run(what, () => void ran.push(what));
      const pay = transaction(
        data.datasource,
        'pay',
        async (tx) => {
          ran.push('pay');
          await data.add(tx, 'a', 1);
          inside.open();
          await others.promise;
        },
        byDefault ? {} : { isolation },
      );
      const wf = workflow('wf', async () => {
        await step('before');
        const paid = pay();
        await inside.promise;
        for (const each of ['one', 'two']) await step(each);
        others.open();
        await paid;
        await step('after');
      });
      const logger = recordingLogger();
      await backend.testApp({ database, workflows: [wf], logger });
      await wf();
      expect([...ran].sort()).toEqual(['after', 'before', 'one', 'pay', 'two']);
      expect(await counter(data.url, 'a')).toBe(1);
      expect(logger.lines).toEqual([]);
    },
  );

  it('are retried after a deadlock', async () => {
    const data = await openUserData(backend, plainest.postgres);
    const meet = meeting(2);
    let calls = 0;
    const transfer = transaction(data.datasource, 'transfer', async (tx, from: string, to: string) => {
      calls++;
      await data.add(tx, from, -1);
      await meet();
      await data.add(tx, to, 1);
    });
    await transaction(data.datasource, 'set up', async (tx) => {
      for (const account of ['a', 'b']) await data.add(tx, account, 10);
    })();
    const wf = workflow('wf', async (from: string, to: string) => transfer(from, to));
    await backend.testApp({ workflows: [wf] });
    await Promise.all([wf('a', 'b'), wf('b', 'a')]);
    // There are more calls if Postgres lets the retry lock its account before the other transaction wakes up.
    expect(calls).toBeGreaterThanOrEqual(3);
    expect([await counter(data.url, 'a'), await counter(data.url, 'b')]).toEqual([10, 10]);
  });

  it('keep their place in the order of outcomes if their commit fails after the checkpoint', async () => {
    const database = await backend.newDatabase();
    const data = await openUserDataIn(database, plainest.postgres);
    let calls = 0;
    // The conflict appears at the commit, after the checkpoint was written. In the retry the function itself fails.
    const rival = transaction(
      data.datasource,
      'rival',
      async (tx) => {
        calls++;
        if (calls > 1) throw new Error('the second time');
        await data.read(tx, 'a');
        await data.add(tx, 'b', 1);
        await other();
      },
      { isolation: 'serializable' },
    );
    const other = () => inAnotherSession(data, 'serializable');
    const wf = workflow('wf', async () => {
      const failed = await rival().catch((error: Error) => error.message);
      return [failed, await run('after', () => 'after')];
    });
    const test = await backend.testApp({ database, workflows: [wf] });
    expect(await wf.with({ id: 'x' })()).toEqual(['the second time', 'after']);
    expect(calls).toBe(2);
    expect(await test.app.workflows.steps('x')).toMatchObject([{ error: { message: 'the second time' } }, {}]);
  });
}

/** Reads what the other transaction writes, writes what it has read, and commits first. */
async function inAnotherSession(data: Opened, isolation: 'serializable'): Promise<void> {
  await data.datasource.transact({ isolation }, async (tx) => {
    await data.read(tx, 'b');
    await data.add(tx, 'a', 1);
  });
}

describeBackends('a transaction on a file that another connection writes', onFile, ['sqlite']);

function onFile(backend: Backend): void {
  for (const library of libraries.filter(({ dialect }) => dialect === 'sqlite')) {
    it(`waits until the other transaction ends, through ${library.name}`, async () => {
      const data = await openUserData(backend, library);
      const add = transaction(data.datasource, 'add', (tx) => data.add(tx, 'a', 1).then(() => data.read(tx, 'a')));
      await add();
      const wf = workflow('wf', async () => add());
      const logger = recordingLogger();
      const test = await backend.testApp({ workflows: [wf], logger });
      const rival = openSqlite(data.url);
      rival.exec('begin immediate');
      const handle = await wf.start();
      while (logger.matching(/Transaction "add".* is tried again/).length === 0) await test.clock.advance(0);
      rival.exec('commit');
      rival.close();
      expect(await handle.result()).toBe(2);
    });
  }
}
