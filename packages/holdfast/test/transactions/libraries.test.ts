import { expect, it } from 'vitest';
import { type Datasource, run, transaction, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { libraries, type Opened, plainest, renaming } from '../support/datasources.js';
import { failure } from '../support/faults.js';
import { counter, openUserData, openUserDataIn, records } from '../support/user-data.js';

/** Every library must behave the same, with its own transactions and in a database of the application. */
describeBackends('a transaction', (backend) => {
  for (const library of libraries.filter(({ dialect }) => dialect === backend.name)) {
    const by = `through ${library.name}`;

    it(`commits what its function did together with its record, ${by}`, async () => {
      const data = await openUserData(backend, library);
      const credit = creditOf(data);
      const pay = workflow('pay', async (cents: number) => credit('ada', cents));
      await backend.testApp({ workflows: [pay] });
      expect(await pay.with({ id: 'pay-1' })(500)).toEqual({ balance: 500, at: new Date(0) });
      expect(await counter(data.url, 'ada')).toBe(500);
      expect(await records(data.url)).toMatchObject([{ workflow_id: 'pay-1', function_num: 0, error: null }]);
    });

    it(`rolls back the work of its function if the function throws, and fails with that error, ${by}`, async () => {
      const data = await openUserData(backend, library);
      const overdraw = transaction(data.datasource, 'overdraw', async (tx) => {
        await data.add(tx, 'ada', -500);
        throw new RangeError('Not enough money.');
      });
      const pay = workflow('pay', async () => overdraw());
      await backend.testApp({ workflows: [pay] });
      expect(await failure(pay())).toMatchObject({ name: 'RangeError', message: 'Not enough money.' });
      expect(await counter(data.url, 'ada')).toBe(0);
      // The record keeps an execution that lost the workflow from committing later.
      expect(await records(data.url)).toMatchObject([{ output: null, error: expect.stringContaining('Not enough') }]);
    });

    it(`does not run again after a crash between its commit and its checkpoint, ${by}`, async () => {
      const data = await openUserData(backend, library);
      const { app, again } = await crashBeforeCheckpoint(backend, data);
      expect(await counter(data.url, 'ada')).toBe(500);
      expect(await again()).toEqual({ balance: 500, at: new Date(0) });
      expect(await counter(data.url, 'ada')).toBe(500);
      expect(app.calls).toBe(1);
    });

    it(`uses the given isolation level, and cannot write if it is read-only, ${by}`, async () => {
      const data = await openUserData(backend, library);
      const write = (tx: unknown) => data.add(tx, 'ada', 1).then(() => 'wrote');
      const readOnly = transaction(data.datasource, 'read only', write, { readOnly: true });
      const level = transaction(data.datasource, 'level', (tx) => levelOf(data, tx), { isolation: 'repeatable read' });
      const wf = workflow('wf', async () => [await level(), await readOnly().catch((error: Error) => error.message)]);
      await backend.testApp({ workflows: [wf] });
      const [isolation, refusal] = await wf();
      expect(isolation).toBe(library.dialect === 'postgres' ? 'repeatable read' : 'serializable');
      expect(refusal).not.toBe('wrote');
      expect(await counter(data.url, 'ada')).toBe(0);
    });

    if (library.dialect !== 'postgres') continue;

    it(`commits together with its checkpoint in the database of the app, ${by}`, async () => {
      const database = await backend.newDatabase();
      const data = await openUserDataIn(database, library);
      const credit = creditOf(data);
      const pay = workflow('pay', async (cents: number) => {
        await run('before', () => 1);
        const paid = await credit('ada', cents);
        return [paid.balance, await run('after', () => 2)];
      });
      const test = await backend.testApp({ database, workflows: [pay] });
      expect(await pay.with({ id: 'pay-1' })(500)).toEqual([500, 2]);
      expect(await counter(data.url, 'ada')).toBe(500);
      expect(await records(data.url)).toBeNull();
      // A workflow with many steps would otherwise read its whole history after each transaction.
      expect(test.statements).not.toContain('steps.history');
      const steps = await test.app.workflows.steps('pay-1');
      expect(steps).toMatchObject([
        { name: 'before', output: 1 },
        { name: 'credit', output: { balance: 500, at: new Date(0) } },
        { name: 'after', output: 2 },
      ]);
    });
  }

  const places = backend.name === 'sqlite' ? ['another database'] : ['another database', 'the database of the app'];
  const renamed = renaming
    .filter(({ dialect }) => dialect === backend.name)
    .flatMap((library) => places.map((place) => ({ library, by: library.name, place })));
  it.each(renamed)('runs once in $place, through $by', async ({ library, place }) => {
    const database = await backend.newDatabase();
    const data = await openUserDataIn(place === 'another database' ? await backend.emptyDatabase() : database, library);
    const calls = { calls: 0 };
    const credit = creditOf(data, calls);
    const overdraw = transaction(data.datasource, 'overdraw', () =>
      Promise.reject(new RangeError('Not enough money.')),
    );
    const pay = workflow('pay', async () => [
      await credit('ada', 500),
      await overdraw().catch((error) => error.message),
    ]);
    await backend.testApp({ database, workflows: [pay] });
    expect(await pay()).toEqual([{ balance: 500, at: new Date(0) }, 'Not enough money.']);
    expect([calls.calls, await counter(data.url, 'ada')]).toEqual([1, 500]);
  });
});

function creditOf(data: Opened, calls: { calls: number } = { calls: 0 }) {
  return transaction(data.datasource, 'credit', async (tx, account: string, cents: number) => {
    calls.calls++;
    await data.add(tx, account, cents);
    return { balance: await data.read(tx, account), at: new Date(0) };
  });
}

async function levelOf(data: Opened, tx: unknown): Promise<unknown> {
  const { dialect, query } = data.datasource as Datasource<unknown>;
  if (dialect === 'sqlite') return 'serializable';
  const [row] = await query(tx, 'show transaction_isolation', []);
  return row?.transaction_isolation;
}

/** Runs the workflow up to the statement that writes the checkpoint, and crashes before sending that statement. */
async function crashBeforeCheckpoint(backend: Backend, data: Opened) {
  const app = { calls: 0 };
  const credit = creditOf(data, app);
  const pay = workflow('pay', async (cents: number) => credit('ada', cents));
  checkpointAt[backend.name] ??= await findCheckpoint(backend);
  const statement = checkpointAt[backend.name] as number;
  const test = await backend.testApp({ workflows: [pay], crashAt: { statement, phase: 'before-send' } });
  await pay.with({ id: 'pay-1' }).start(500);
  await test.crashed;
  return {
    app,
    again: async () => {
      const next = await test.restart();
      return next.app.workflows.handle('pay-1').result();
    },
  };
}

/** The number of the checkpoint statement. It is the same for all libraries: the app sends the same statements. */
const checkpointAt: Partial<Record<Backend['name'], number>> = {};

async function findCheckpoint(backend: Backend): Promise<number> {
  const data = await openUserData(backend, plainest[backend.name]);
  const credit = creditOf(data);
  const pay = workflow('pay', async (cents: number) => credit('ada', cents));
  const dry = await backend.testApp({ workflows: [pay] });
  await pay(0);
  const { statements } = dry;
  await dry.stop();
  return statements.indexOf('steps.record') + 1;
}
