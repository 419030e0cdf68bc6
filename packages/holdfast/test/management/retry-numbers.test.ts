import { expect, it } from 'vitest';
import { event, run, sleep, stream, topic, transaction, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, gate, tamper } from '../support/faults.js';
import { counter, openUserData, openUserDataIn } from '../support/user-data.js';

/** A retry frees step numbers. Data stored under a freed number must not pass for data of the next step with it. */
describeBackends('workflows.retry, which frees step numbers,', (backend) => {
  it('retries a failed child with its parent, under its own ID, from where it failed', async () => {
    const ran: string[] = [];
    let isBroken = true;
    const child = workflow('child', async () => {
      await run('one', () => void ran.push('one'));
      return run('two', () => {
        ran.push('two');
        if (isBroken) throw new Error('no two');
        return 2;
      });
    });
    const parent = workflow('parent', async () => (await child()) + (await child.with({ id: 'other' })()));
    const t = await backend.testApp({ workflows: [parent, child] });
    const handle = await parent.with({ id: 'p' }).start();
    await failure(t.clock.runUntil(handle.result()));
    isBroken = false;
    await t.app.workflows.retry('p');
    expect(await t.clock.runUntil(handle.result())).toBe(4);
    expect(ran).toEqual(['one', 'two', 'two', 'one', 'two']);
    const all = await t.app.workflows.list();
    expect(all.map(({ workflowId }) => workflowId).sort()).toEqual(['other', 'p', 'p-0']);
    expect((await t.app.workflows.get('p-0'))?.retries).toMatchObject([{ error: { message: 'no two' } }]);
  });

  it('records in a child that its failed step was run again, whichever step of the parent was named', async () => {
    let isBroken = true;
    const child = workflow('child', () => run('ship', () => Promise[isBroken ? 'reject' : 'resolve']('ship')));
    const parent = workflow('parent', () => child());
    const t = await backend.testApp({ workflows: [parent, child] });
    const handle = await parent.with({ id: 'p' }).start();
    await failure(t.clock.runUntil(handle.result()));
    isBroken = false;
    await t.app.workflows.retry('p', { fromStep: 1 });
    expect(await t.clock.runUntil(handle.result())).toBe('ship');
    expect((await t.app.workflows.get('p'))?.retries).toMatchObject([{ fromStep: 1 }]);
    const [retry] = (await t.app.workflows.get('p-0'))?.retries ?? [];
    expect(retry).toMatchObject({ dropped: [{ stepNumber: 0, name: 'ship' }] });
    expect(retry?.fromStep).toBeUndefined();
  });

  it('starts a new child if the step that started one runs again, and finds it after a crash', async () => {
    let runs = 0;
    const child = workflow('child', async () => ++runs);
    const parent = workflow('parent', async () => {
      const n = await child();
      if (n === 1) throw new Error('too small');
      return n;
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const handle = await parent.with({ id: 'p' }).start();
    await failure(t.clock.runUntil(handle.result()));
    await t.app.workflows.retry('p', { fromStep: 0 });
    expect(await t.clock.runUntil(handle.result())).toBe(2);
    expect(await t.app.workflows.get('p-0-r1')).toMatchObject({ status: 'SUCCESS', parentWorkflowId: 'p' });
    expect(await t.app.workflows.get('p-0')).toMatchObject({ status: 'SUCCESS' });
  });

  it('leaves a failed child unchanged if its start runs again, and starts another in its place', async () => {
    const ran: string[] = [];
    let isBroken = true;
    const child = workflow('child', async () => {
      await run('charge', () => void ran.push('charge'));
      await run('ship', () => Promise[isBroken ? 'reject' : 'resolve']('ship'));
    });
    const parent = workflow('parent', async () => {
      await run('price', () => 1);
      await child();
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const handle = await parent.with({ id: 'p' }).start();
    await failure(t.clock.runUntil(handle.result()));
    isBroken = false;
    await t.app.workflows.retry('p', { fromStep: 0 });
    await t.clock.runUntil(handle.result());
    const all = await t.app.workflows.list();
    expect(all.map(({ workflowId, status }) => [workflowId, status]).sort()).toEqual([
      ['p', 'SUCCESS'],
      ['p-1', 'ERROR'],
      ['p-1-r1', 'SUCCESS'],
    ]);
  });

  it('keeps a child apart from the earlier child that had its number on another path of the code', async () => {
    let isBroken = true;
    const undo = workflow('undo', async () => 'undone');
    const next = workflow('next', async () => 'next');
    const wf = workflow('wf', async () => {
      const shipped = await run('ship', () => Promise[isBroken ? 'reject' : 'resolve']('ship')).catch(() => undefined);
      if (shipped) return next();
      await undo();
      throw new Error('not shipped');
    });
    const t = await backend.testApp({ workflows: [wf, undo, next] });
    const handle = await wf.with({ id: 'w' }).start();
    await failure(t.clock.runUntil(handle.result()));
    isBroken = false;
    await t.app.workflows.retry('w', { fromStep: 0 });
    expect(await t.clock.runUntil(handle.result())).toBe('next');
    expect((await t.app.workflows.get('w-1-r1'))?.name).toBe('next');
  });

  it('finds a child again that was started next to the failure and was not recorded yet', async () => {
    let runs = 0;
    let isBroken = true;
    const child = workflow('child', async () => ++runs);
    const wf = workflow('wf', () =>
      Promise.all([child(), run('fail', () => Promise[isBroken ? 'reject' : 'resolve']('failed'))]),
    );
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf, child] });
    const handle = await wf.with({ id: 'w' }).start();
    await failure(t.clock.runUntil(handle.result()));
    // The state after a process that ends, together with its workflow, before it records the start of the child.
    await tamper(database, "delete from operation_outputs where workflow_uuid = 'w' and function_id in (0, 1)");
    isBroken = false;
    await t.app.workflows.retry('w', { fromStep: 2 });
    expect(await t.clock.runUntil(handle.result())).toEqual([1, 'failed']);
    expect(runs).toBe(1);
  });

  it('finds the child again also if the retry begins with a sleep that had not ended', async () => {
    let runs = 0;
    let isBroken = true;
    const hold = gate();
    const child = workflow('child', async () => {
      await sleep('10s');
      return ++runs;
    });
    const check = () => hold.promise.then(() => (isBroken ? Promise.reject(new Error('no')) : 'checked'));
    const wf = workflow('wf', async () => {
      await run('first', () => {});
      return Promise.all([child(), sleep('1h'), run('check', check)]);
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf, child] });
    const handle = await wf.with({ id: 'w' }).start();
    await t.clock.advance('1s');
    hold.open();
    await failure(t.clock.runUntil(handle.result()));
    await tamper(database, "delete from operation_outputs where workflow_uuid = 'w' and function_id = 1");
    isBroken = false;
    await t.app.workflows.retry('w', { fromStep: 3 });
    expect(await t.clock.runUntil(handle.result())).toEqual([1, undefined, 'checked']);
    expect(runs).toBe(1);
  });

  it.each(['elsewhere', 'beside the workflows'])(
    'runs a failed transaction again, and no committed one (%s)',
    async (place) => {
      const database = await backend.newDatabase();
      const isBeside = place !== 'elsewhere' && backend.name === 'postgres';
      const library = plainest[backend.name];
      const userData = isBeside ? await openUserDataIn(database, library) : await openUserData(backend, library);
      const { url, datasource, add } = userData;
      let isBroken = true;
      const pay = transaction(datasource, 'pay', (tx, who: string) => {
        if (who === 'eve' && isBroken) throw new Error('no money');
        return add(tx, who, 1).then(() => who);
      });
      const wf = workflow('wf', async () => {
        await pay('ada');
        await pay('eve');
        await pay('ada');
      });
      const t = await backend.testApp({ database, workflows: [wf] });
      const handle = await wf.start();
      await failure(t.clock.runUntil(handle.result()));
      isBroken = false;
      await t.app.workflows.retry(handle.id);
      await t.clock.runUntil(handle.result());
      expect([await counter(url, 'ada'), await counter(url, 'eve')]).toEqual([2, 1]);
      const again = await t.restart();
      await again.app.workflows.handle(handle.id).result();
      expect([await counter(url, 'ada'), await counter(url, 'eve')]).toEqual([2, 1]);
    },
  );

  it('returns the messages that dropped steps had received, in their order', async () => {
    const orders = topic<string>('orders');
    let fails = true;
    const wf = workflow('wf', async () => {
      const got = [await orders.receive()];
      await run('check', () => {});
      got.push(await orders.receive(), await orders.receive());
      if (fails) throw new Error('no');
      return got;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.with({ id: 'w' }).start();
    for (const value of ['one', 'two', 'three']) await orders.send('w', value);
    await failure(t.clock.runUntil(handle.result()));
    fails = false;
    await t.app.workflows.retry('w', { fromStep: 2 });
    expect(await t.clock.runUntil(handle.result())).toEqual(['one', 'two', 'three']);
    expect((await t.app.workflows.messages('w')).map(({ consumed }) => consumed)).toEqual([true, true, true]);
  });

  it('refuses to lose a message that it cannot identify', async () => {
    const orders = topic<string>('orders');
    const wf = workflow('wf', async () => {
      throw new Error(`no ${await orders.receive()}`);
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf] });
    const handle = await wf.with({ id: 'w' }).start();
    await orders.send('w', 'lamp');
    await failure(t.clock.runUntil(handle.result()));
    await tamper(database, 'update notifications set consumed_by = null');
    const error = await failure(t.app.workflows.retry('w', { fromStep: 0 }));
    expect(error).toMatchObject({ code: 'WORKFLOW_NOT_RETRYABLE', details: { stepNumber: 0 } });
    await t.app.workflows.retry('w');
    expect((await failure(t.clock.runUntil(handle.result()))).message).toBe('no lamp');
  });

  it('waits for a message again, with a new deadline', async () => {
    const orders = topic<string>('orders');
    const wf = workflow('wf', async () => {
      const value = await orders.receive({ timeout: '1h' });
      if (value === undefined) throw new Error('too late');
      return value;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.with({ id: 'w' }).start();
    await t.clock.advance('2h');
    await failure(handle.result());
    await t.app.workflows.retry('w', { fromStep: 0 });
    await t.clock.advance('30m');
    await orders.send('w', 'lamp');
    expect(await t.clock.runUntil(handle.result())).toBe('lamp');
  });

  it('continues a stream that the failure had ended, and keeps the values of events', async () => {
    const log = stream<string>('log');
    const state = event<string>('state');
    let isBroken = true;
    const wf = workflow('wf', async () => {
      await log.write('begun');
      try {
        await run('ship', () => Promise[isBroken ? 'reject' : 'resolve']('no carrier'));
        await log.write('shipped');
      } catch (error) {
        await state.set('failed');
        throw error;
      } finally {
        await log.close();
      }
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await failure(t.clock.runUntil(handle.result()));
    isBroken = false;
    await t.app.workflows.retry(handle.id);
    await t.clock.runUntil(handle.result());
    const values: string[] = [];
    for await (const value of log.read(handle.id)) values.push(value);
    expect(values).toEqual(['begun', 'shipped']);
    expect(await t.app.workflows.events(handle.id)).toEqual({ state: 'failed' });
    const fork = await t.app.workflows.fork(handle.id, { fromStep: 3 });
    await t.clock.runUntil(fork.result());
    expect(await t.app.workflows.events(fork.id)).toEqual({});
  });

  it('drops all later steps if their rows do not say when they were requested, and asks first', async () => {
    const ran: string[] = [];
    const begun = gate();
    let isBroken = true;
    const work = (name: string) => run(name, async () => void ran.push(name));
    const wf = workflow('wf', async () => {
      const failing = run('fail', async () => {
        await begun.promise;
        if (isBroken) throw new Error('no');
      });
      await Promise.all([work('beside').then(begun.open), failing]);
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf] });
    const handle = await wf.start();
    await failure(t.clock.runUntil(handle.result()));
    const old = 'requested_after = null, completion_seq = null';
    await tamper(database, `update operation_outputs set ${old}`);
    isBroken = false;
    const error = await failure(t.app.workflows.retry(handle.id));
    expect(error).toMatchObject({ code: 'WORKFLOW_NOT_RETRYABLE', details: { repeated: [{ name: 'beside' }] } });
    await t.app.workflows.retry(handle.id, { fromStep: 0 });
    await t.clock.runUntil(handle.result());
    expect(ran).toEqual(['beside', 'beside']);
  });

  it('keeps a step of an older release if a later step that stays was requested after it', async () => {
    const ran: string[] = [];
    const goOn = gate();
    let isBroken = true;
    const work = (name: string) => run(name, () => void ran.push(name));
    const ship = async () => {
      await goOn.promise;
      if (isBroken) throw new Error('no');
    };
    const wf = workflow('wf', () => Promise.all([run('ship', ship), work('reserve').then(() => work('pack'))]));
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('1s');
    await tamper(database, "update operation_outputs set requested_after = null where function_name = 'reserve'");
    goOn.open();
    await failure(t.clock.runUntil(handle.result()));
    isBroken = false;
    await t.app.workflows.retry(handle.id);
    await t.clock.runUntil(handle.result());
    expect(ran).toEqual(['reserve', 'pack']);
  });

  it('also runs a step again that an older release recorded as failed later', async () => {
    const ran: string[] = [];
    const goOn = gate();
    let isBroken = true;
    const work = (name: string, until?: Promise<void>) =>
      run(name, async () => {
        ran.push(name);
        await until;
        if (isBroken) throw new Error(`no ${name}`);
      });
    const wf = workflow('wf', async () => {
      const late = work('late', goOn.promise);
      const early = work('early').finally(goOn.open);
      const [, second] = await Promise.allSettled([late, early]);
      if (second.status === 'rejected') throw second.reason;
      await late;
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf] });
    const handle = await wf.start();
    await failure(t.clock.runUntil(handle.result()));
    await tamper(database, 'update operation_outputs set requested_after = null');
    isBroken = false;
    await t.app.workflows.retry(handle.id, { fromStep: 1 });
    await t.clock.runUntil(handle.result());
    expect(ran).toEqual(['late', 'early', 'late', 'early']);
  });

  /** A refund that starts when `ship` has failed. The refund is paid but not recorded when its workflow fails. */
  async function failedWhileRefunding(failsBy: 'ship' | 'check') {
    const ran: string[] = [];
    const refunding = gate();
    const held = gate();
    let isBroken = true;
    const work = (name: string, until?: Promise<void>) =>
      run(name, async () => {
        await until;
        ran.push(name);
        if (isBroken) throw new Error(`no ${name}`);
      });
    const refund = () =>
      run('refund', () => {
        ran.push('refund');
        refunding.open();
        return isBroken ? held.promise : undefined;
      });
    const wf = workflow('wf', async () => {
      const shipped = work('ship');
      const dealtWith = shipped.catch(refund);
      await Promise.all([dealtWith, failsBy === 'ship' ? shipped : work('check', refunding.promise)]);
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await failure(t.clock.runUntil(handle.result()));
    isBroken = false;
    return { t, handle, ran };
  }

  it('does not restart before a step that was running when the workflow failed, unless it must', async () => {
    const { t, handle, ran } = await failedWhileRefunding('check');
    await t.app.workflows.retry(handle.id);
    await t.clock.runUntil(handle.result());
    expect(ran.slice(3).sort()).toEqual(['check', 'refund']);
  });

  it('is refused if it must restart before a running step, until it is told to', async () => {
    const { t, handle, ran } = await failedWhileRefunding('ship');
    const error = await failure(t.app.workflows.retry(handle.id));
    const repeated = [{ stepNumber: 1, name: 'refund' }];
    expect(error).toMatchObject({ code: 'WORKFLOW_NOT_RETRYABLE', details: { failedStep: 0, repeated } });
    await t.app.workflows.retry(handle.id, { fromStep: 0 });
    await t.clock.runUntil(handle.result());
    expect(ran).toEqual(['ship', 'refund', 'ship']);
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS' });
  });
});
