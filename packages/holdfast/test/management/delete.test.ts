import { describe, expect, it } from 'vitest';
import { connect, context, event, run, sleep, stream, topic, transaction, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, forever, gate, tamper } from '../support/faults.js';
import { counter, openUserData, records } from '../support/user-data.js';

const tables = [
  'workflow_status',
  'operation_outputs',
  'notifications',
  'workflow_events',
  'workflow_events_history',
  'streams',
];

describeBackends('delete', (backend) => {
  const counts = async (database: string) => {
    const rows = await Promise.all(tables.map((table) => tamper(database, `select count(*) as n from ${table}`)));
    return rows.map(([row]) => Number(row?.n));
  };

  it('removes a finished workflow with everything that belongs to it, and frees its ID', async () => {
    const progress = event<number>('progress');
    const log = stream<number>('log');
    const letters = topic<string>('letters');
    let runs = 0;
    const wf = workflow('wf', async () => {
      await progress.set(1);
      await log.write(1);
      return [await letters.receive({ timeout: 0 }), await run('count', () => ++runs)];
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf] });
    expect(await wf.with({ id: 'x' })()).toEqual([undefined, 1]);
    await letters.send('x', 'late', { idempotencyKey: 'k' });
    expect(await t.app.workflows.delete('x')).toBe(1);
    expect(await counts(database)).toEqual([0, 0, 0, 0, 0, 0]);
    expect(await t.app.workflows.get('x')).toBeUndefined();
    expect(await failure(t.app.workflows.handle('x').result())).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(await failure(letters.send('x', 'later'))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(await t.app.workflows.delete('x')).toBe(0);
    expect(await wf.with({ id: 'x' })()).toEqual([undefined, 2]);
    await letters.send('x', 'again', { idempotencyKey: 'k' });
    expect(await t.app.workflows.messages('x')).toMatchObject([{ message: 'again' }]);
  });

  it('refuses an unfinished workflow, and then deletes none of the given workflows', async () => {
    const held = gate();
    const wf = workflow('wf', async (wait: boolean) => (wait ? run('hold', () => held.promise) : undefined));
    const t = await backend.testApp({ workflows: [wf] });
    await wf.with({ id: 'done' })(false);
    const running = await wf.with({ id: 'running' }).start(true);
    await wf.with({ id: 'waiting', delay: '1h' }).start(false);
    expect(await failure(t.app.workflows.delete(['done', 'running']))).toMatchObject({
      code: 'WORKFLOW_UNFINISHED',
      message: expect.stringContaining('"running" is PENDING'),
    });
    expect(await failure(t.app.workflows.delete('waiting'))).toMatchObject({ code: 'WORKFLOW_UNFINISHED' });
    expect(await t.app.workflows.list()).toHaveLength(3);
    await t.app.workflows.cancel('waiting');
    held.open();
    await running.result();
    expect(await t.app.workflows.delete(['done', 'running', 'waiting', 'nowhere'])).toBe(3);
    expect(await t.app.workflows.list()).toEqual([]);
  });

  it('deletes children only if told to, and then all descendants, including detached ones', async () => {
    const held = gate();
    const leaf = workflow('leaf', async () => run('hold', () => held.promise));
    const child = workflow('child', async () => void (await leaf.with({ timeout: null }).start()));
    const parent = workflow('parent', async () => child());
    const t = await backend.testApp({ workflows: [parent, child, leaf] });
    await parent.with({ id: 'p' })();
    const remove = (children?: boolean) => t.app.workflows.delete('p', { ...(children && { children }) });
    expect(await failure(remove())).toMatchObject({
      code: 'WORKFLOW_NEEDED',
      message: expect.stringContaining('Workflow "p" has a child, "p-0"'),
    });
    expect(await failure(remove(true))).toMatchObject({
      code: 'WORKFLOW_UNFINISHED',
      details: { workflowId: 'p-0-0' },
    });
    held.open();
    await t.app.workflows.handle('p-0-0').result();
    expect(await failure(t.app.workflows.delete(['p', 'p-0']))).toMatchObject({ code: 'WORKFLOW_NEEDED' });
    expect(await remove(true)).toBe(3);
    expect(await t.app.workflows.list()).toEqual([]);
  });

  it('refuses a child that an unfinished parent needs, or that is in the history of an unfinished fork', async () => {
    const child = workflow('child', async () => 'child');
    const parent = workflow('parent', async () => {
      const handle = await child.with({ id: 'c' }).start();
      await sleep('1h');
      return handle.result();
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const handle = await parent.with({ id: 'p' }).start();
    await t.clock.advance('1m');
    expect(await t.app.workflows.get('c')).toMatchObject({ status: 'SUCCESS' });
    expect(await failure(t.app.workflows.delete('c'))).toMatchObject({
      code: 'WORKFLOW_NEEDED',
      message: expect.stringContaining('"c" cannot be deleted while "p" is unfinished'),
    });
    const fork = await t.app.workflows.fork('p', { fromStep: 1, id: 'f' });
    await handle.cancel();
    expect(await failure(t.app.workflows.delete('p', { children: true }))).toMatchObject({
      code: 'WORKFLOW_NEEDED',
      details: { workflowId: 'c', by: 'f' },
    });
    expect(await t.clock.runUntil(fork.result())).toBe('child');
    expect(await t.app.workflows.delete('p', { children: true })).toBe(2);
    expect((await t.app.workflows.list()).map(({ workflowId }) => workflowId)).toEqual(['f']);
  });

  it('stops a workflow that was cancelled just before, and its callers get an error', async () => {
    const signals: AbortSignal[] = [];
    const sleeping = workflow('sleeping', async () => {
      signals.push(context().signal);
      await sleep('1d');
    });
    const working = workflow('working', async () => {
      signals.push(context().signal);
      await run('work', () => forever());
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [sleeping, working] });
    const ids = ['s', 'w'];
    const handles = [await sleeping.with({ id: 's' }).start(), await working.with({ id: 'w' }).start()];
    while (signals.length < 2 || (await t.app.workflows.steps('s')).length === 0) await t.clock.advance(0);
    let found: unknown[] | undefined;
    void Promise.all(handles.map((handle) => failure(handle.result()))).then((all) => {
      found = all;
    });
    const client = await connect({ database, logger: silent });
    // Simulates a process that polls late. It polls every half second.
    await tamper(database, "update workflow_status set status = 'CANCELLED', completed_at = 1");
    expect(await client.workflows.delete(ids)).toBe(2);
    await client.close();
    for (let seconds = 0; seconds < 70 && !found; seconds++) await t.clock.advance('1s');
    expect(found).toMatchObject([{ code: 'WORKFLOW_NOT_FOUND' }, { code: 'WORKFLOW_NOT_FOUND' }]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
  });

  it('works from a client, and refuses bad input', async () => {
    const wf = workflow('wf', async () => 0);
    const eraser = workflow('eraser', async (): Promise<number> => t.app.workflows.delete('x'));
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf, eraser] });
    await wf.with({ id: 'x' })();
    expect(await failure(eraser())).toMatchObject({ code: 'UNSUPPORTED_CALL' });
    const client = await connect({ database, name: 'test', logger: silent });
    const remove = (ids: unknown, options: object = {}) => failure(client.workflows.delete(ids as string, options));
    expect(await remove('')).toMatchObject({ code: 'INVALID_NAME' });
    expect(await remove(['x', 7])).toMatchObject({ code: 'INVALID_NAME' });
    expect(await remove(7)).toMatchObject({ code: 'INVALID_OPTION' });
    expect(await remove('x', { childre: true })).toMatchObject({ message: expect.stringContaining('Did you mean') });
    expect(await remove('x', { children: 1 })).toMatchObject({ code: 'INVALID_OPTION' });
    expect(await client.workflows.delete([])).toBe(0);
    expect(await client.workflows.delete('x')).toBe(1);
    await client.close();
  });

  it('racing with a start under its ID, lets the start find the old workflow or begin a new one', async () => {
    const wf = workflow('wf', async () => 'done');
    const t = await backend.testApp({ workflows: [wf] });
    for (let round = 0; round < 40; round++) {
      const id = `x${round}`;
      await wf.with({ id })();
      const [handle] = await Promise.all([wf.with({ id }).start(), t.app.workflows.delete(id)]);
      // The old workflow may be gone by now.
      const result = await handle.result().catch((error) => error.code as string);
      expect(['done', 'WORKFLOW_NOT_FOUND']).toContain(result);
    }
  });

  // FAULTS 15. The clock of these tests stands still, so both workflows are created in the same millisecond.
  describe('frees an ID, and a new workflow under that ID', () => {
    it('does not mistake the records of the old workflow for its own, if the datasource still has them', async () => {
      const data = await openUserData(backend, plainest[backend.name]);
      const add = transaction(data.datasource, 'add', async (tx) => {
        await data.add(tx, 'a', 1);
        return data.read(tx, 'a');
      });
      const wf = workflow('wf', async () => add());
      const t = await backend.testApp({ workflows: [wf] });
      expect(await wf.with({ id: 'x' })()).toBe(1);
      const before = await records(data.url);
      await t.app.workflows.delete('x');
      expect(await records(data.url)).toEqual(before);
      expect(await wf.with({ id: 'x' })()).toBe(2);
      const queued = await wf.with({ id: 'q', delay: 0 }).start();
      expect(await queued.result()).toBe(3);
      await t.app.workflows.delete('q');
      expect(await (await wf.with({ id: 'q', delay: 0 }).start()).result()).toBe(4);
      expect(await counter(data.url, 'a')).toBe(4);
    });

    it('recognizes its own records after a crash, also next to records of processes without tokens', async () => {
      const data = await openUserData(backend, plainest[backend.name]);
      const add = transaction(data.datasource, 'add', async (tx) => {
        await data.add(tx, 'a', 1);
      });
      const held = gate();
      const wf = workflow('wf', async () => {
        await add();
        await run('hold', () => held.promise);
      });
      const database = await backend.newDatabase();
      let t = await backend.testApp({ database, workflows: [wf] });
      await wf.with({ id: 'x' }).start();
      while (((await records(data.url))?.length ?? 0) === 0) await t.clock.advance(0);
      // Each call simulates a process that dies between commit and checkpoint.
      const lose = async (more: string) => {
        await t.crash();
        await tamper(database, 'delete from operation_outputs');
        if (more) await tamper(data.url, `update transaction_completion set ${more}`);
        t = await t.restart();
        while ((await t.app.workflows.steps('x')).length === 0) await t.clock.advance('1s');
      };
      while ((await t.app.workflows.steps('x')).length === 0) await t.clock.advance(0);
      await lose('');
      expect(await counter(data.url, 'a')).toBe(1);
      await lose('incarnation = null');
      expect(await counter(data.url, 'a')).toBe(1);
      await lose('incarnation = null, started_at = null');
      expect(await counter(data.url, 'a')).toBe(1);
      await lose("incarnation = 'another'");
      expect(await counter(data.url, 'a')).toBe(2);
      held.open();
      await t.clock.runUntil(t.app.workflows.handle('x').result());
    });

    // On SQLite the two workflows cannot be in a transaction at the same time.
    it.runIf(backend.name === 'postgres')(
      'is not affected by the old process, whose transaction fails after the deletion',
      async () => {
        const data = await openUserData(backend, plainest[backend.name]);
        let transactions = 0;
        let calls = 0;
        const datasource: typeof data.datasource = {
          ...data.datasource,
          transact: (mode, work) => {
            transactions++;
            return data.datasource.transact(mode, work);
          },
        };
        const late = gate();
        const fail = transaction(datasource, 'fail', async () => {
          calls++;
          await late.promise;
          throw new Error('in vain');
        });
        const wf = workflow('wf', async () => fail());
        const database = await backend.newDatabase();
        const t = await backend.testApp({ database, workflows: [wf], clock: 'real' });
        const handle = await wf.with({ id: 'x' }).start();
        while (calls === 0) await new Promise((resolve) => setImmediate(resolve));
        await tamper(database, "delete from workflow_status where workflow_uuid = 'x'");
        await plantLaterRecord(data.url);
        late.open();
        transactions = 0;
        expect(await failure(handle.result({ timeout: '5s' }))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
        expect(transactions).toBeLessThan(20);
        expect(await records(data.url)).toMatchObject([{ incarnation: 'later' }]);
        await t.app.shutdown();
      },
    );

    // On SQLite the two workflows cannot be in a transaction at the same time.
    it.runIf(backend.name === 'postgres')(
      'keeps its record even if the old process reaches its commit later',
      async () => {
        const data = await openUserData(backend, plainest[backend.name]);
        const late = gate();
        let calls = 0;
        const add = transaction(data.datasource, 'add', async (tx, wait: boolean) => {
          calls++;
          if (wait) await late.promise;
          await data.add(tx, 'a', 1);
        });
        const wf = workflow('wf', async (wait: boolean) => add(wait));
        const database = await backend.newDatabase();
        const t = await backend.testApp({ database, workflows: [wf], clock: 'real' });
        await wf.with({ id: 'x' }).start(true);
        while (calls === 0) await new Promise((resolve) => setImmediate(resolve));
        // Deleted by SQL, so the process gets no notification.
        await tamper(database, "delete from workflow_status where workflow_uuid = 'x'");
        await plantLaterRecord(data.url);
        late.open();
        await t.app.shutdown({ drain: '5s' });
        expect(await counter(data.url, 'a')).toBe(0);
        expect(await records(data.url)).toMatchObject([{ workflow_id: 'x', incarnation: 'later' }]);
      },
    );
  });
});

/** Inserts the record of a workflow that got the ID after this one. */
async function plantLaterRecord(url: string): Promise<void> {
  const later = Date.now() + 3_600_000;
  await tamper(
    url,
    'insert into transaction_completion (workflow_id, function_num, output, created_at, started_at, incarnation) ' +
      `values ('x', 0, null, ${later}, ${later}, 'later')`,
  );
}
