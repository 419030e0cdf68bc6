import { expect, it } from 'vitest';
import { FatalError, queue, run, sleep, workflow } from '../../src/index.js';
import { type CrashPoint, crashPhases } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate, overTime } from '../support/faults.js';
import { switchable } from '../support/switchable.js';

describeBackends('workflows.retry', (backend) => {
  it('continues under the same ID from the failed step, and keeps the steps before it', async () => {
    const ran: string[] = [];
    const { broken, work } = switchable(ran);
    const order = workflow('order', async () => `${await work('charge')} ${await work('ship')} ${await work('mail')}`);
    const t = await backend.testApp({ workflows: [order] });
    broken.add('ship');
    const handle = await order.with({ id: 'order-7' }).start();
    expect((await failure(t.clock.runUntil(handle.result()))).message).toBe('no ship');
    broken.clear();
    const again = await t.app.workflows.retry<string>('order-7');
    expect(await t.clock.runUntil(again.result())).toBe('charge ship mail');
    expect(again.id).toBe('order-7');
    expect(ran).toEqual(['charge', 'ship', 'ship', 'mail']);
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS', attempts: 1, error: undefined });
  });

  it('records who retried it, when, and after which error', async () => {
    const { broken, work } = switchable([]);
    const order = workflow('order', () => work('ship'));
    const t = await backend.testApp({ workflows: [order] });
    broken.add('ship');
    const handle = await order.with({ id: 'order-7' }).start();
    for (const fromStep of [undefined, 0]) {
      await failure(t.clock.runUntil(handle.result()));
      await t.clock.advance('1m');
      await t.app.workflows.retry('order-7', fromStep === undefined ? {} : { fromStep });
    }
    await failure(t.clock.runUntil(handle.result()));
    broken.clear();
    const dropped = [{ stepNumber: 0, name: 'ship' }];
    const by = { executorId: 'test', error: { message: 'no ship' }, dropped };
    const info = await t.app.workflows.get('order-7');
    expect(info?.retries).toMatchObject([
      { ...by, fromStep: undefined },
      { ...by, fromStep: 0 },
    ]);
    const [first, second] = info?.retries ?? [];
    expect(first?.failedAt).toBeLessThan(first?.retriedAt ?? 0);
    expect(second?.failedAt).toBeGreaterThanOrEqual(first?.retriedAt ?? 0);
    expect((await t.app.workflows.retry('order-7')).id).toBe('order-7');
    expect(await t.clock.runUntil(handle.result())).toBe('ship');
  });

  it('keeps what the other branches of a Promise.all had done or begun before the failure', async () => {
    const ran: string[] = [];
    const { broken, work } = switchable(ran);
    const wf = workflow('wf', async () => {
      const all = await Promise.allSettled([work('a'), work('b'), work('c')]);
      const failed = all.find((each) => each.status === 'rejected');
      if (failed) throw failed.reason;
      return [all.map((each) => each.status), await work('d')];
    });
    const t = await backend.testApp({ workflows: [wf] });
    broken.add('a');
    const handle = await wf.start();
    await failure(t.clock.runUntil(handle.result()));
    broken.clear();
    await t.app.workflows.retry(handle.id);
    const fulfilled = 'fulfilled';
    expect(await t.clock.runUntil(handle.result())).toEqual([[fulfilled, fulfilled, fulfilled], 'd']);
    expect(ran).toEqual(['a', 'b', 'c', 'a', 'd']);
  });

  it('runs all failed branches again at once', async () => {
    const ran: string[] = [];
    const { broken, work } = switchable(ran);
    const wf = workflow('wf', () => Promise.any([work('a'), work('b')]));
    const t = await backend.testApp({ workflows: [wf] });
    for (const name of ['a', 'b']) broken.add(name);
    const handle = await wf.start();
    await failure(t.clock.runUntil(handle.result()));
    broken.clear();
    await t.app.workflows.retry(handle.id);
    expect(await t.clock.runUntil(handle.result())).toBe('a');
    expect(ran).toEqual(['a', 'b', 'a', 'b']);
  });

  it.each(['Promise.all', 'Promise.allSettled'])(
    'runs both branches of %s again if they failed alike, one after the other',
    async (kind) => {
      const ran: string[] = [];
      const told = gate();
      let isBusy = true;
      const work = async (name: string) => {
        ran.push(name);
        if (name === 'late') await told.promise;
        if (isBusy) throw new Error('busy');
        return name;
      };
      const wf = workflow('wf', async () => {
        const late = run('late', () => work('late'));
        const early = run('early', () => work('early')).finally(told.open);
        if (kind === 'Promise.all') return Promise.all([late, early]).finally(() => late.catch(() => {}));
        const [first] = await Promise.allSettled([late, early]);
        if (first.status === 'rejected') throw first.reason;
        return [first.value, await early];
      });
      const t = await backend.testApp({ workflows: [wf] });
      const handle = await wf.start();
      await failure(t.clock.runUntil(handle.result()));
      isBusy = false;
      await t.app.workflows.retry(handle.id);
      expect(await t.clock.runUntil(handle.result())).toEqual(['late', 'early']);
      expect(ran).toEqual(['late', 'early', 'late', 'early']);
    },
  );

  it('replays a retried workflow exactly, also after a crash', async () => {
    const ran: string[] = [];
    const { broken, work } = switchable(ran);
    const wf = workflow('wf', async () => {
      const order: string[] = [];
      const branch = async (name: string) => order.push((await work(name)) + (await work(`${name}2`)));
      await Promise.all(['a', 'b', 'c'].map(branch));
      await sleep('90s');
      return [...order, await work('end')];
    });
    const t = await backend.testApp({ workflows: [wf] });
    broken.add('b');
    const { id } = await wf.start();
    await failure(t.clock.runUntil(t.app.workflows.handle(id).result()));
    broken.clear();
    await t.app.workflows.retry(id, { fromStep: 1 });
    await t.clock.advance('30s');
    const before = [...ran];
    const again = await t.restart();
    const result = await overTime(again.clock, again.app.workflows.handle(id).result());
    expect(ran).toEqual([...before, 'end']);
    expect(result).toHaveLength(4);
  });

  it('distinguishes thrown values that are not errors', async () => {
    const ran: string[] = [];
    let isBroken = true;
    const attempt = (name: string) =>
      run(name, () => {
        ran.push(name);
        return isBroken ? Promise.reject({ failed: name }) : undefined;
      });
    const wf = workflow('wf', async () => {
      await attempt('charge').catch(async (thrown) => {
        await attempt('report').catch(() => {});
        throw thrown;
      });
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    expect(await t.clock.runUntil(handle.result().catch((thrown) => thrown))).toEqual({ failed: 'charge' });
    isBroken = false;
    expect(await failure(t.app.workflows.retry(handle.id))).toMatchObject({ details: { failedStep: 0 } });
    await t.app.workflows.retry(handle.id, { fromStep: 0 });
    await t.clock.runUntil(handle.result());
    expect(ran).toEqual(['charge', 'report', 'charge']);
  });

  it('continues the function after its last step if the function itself failed', async () => {
    const ran: string[] = [];
    const { work } = switchable(ran);
    let isBroken = true;
    const wf = workflow('wf', async () => {
      await work('a').catch(() => {});
      await work('b');
      if (isBroken) throw new Error('a bug');
      return work('c');
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await failure(t.clock.runUntil(handle.result()));
    isBroken = false;
    await t.app.workflows.retry(handle.id);
    expect(await t.clock.runUntil(handle.result())).toBe('c');
    expect(ran).toEqual(['a', 'b', 'c']);
    expect((await handle.status()).retries).toMatchObject([{ error: { message: 'a bug' }, dropped: [] }]);
  });

  it('retries a step with all its attempts, on the queue of its workflow, with the full timeout', async () => {
    let failures = 5;
    const jobs = queue('jobs', { concurrency: 1 });
    const charge = () => {
      if (failures-- > 0) throw new Error('busy');
      return 'paid';
    };
    const wf = workflow('wf', () => run('charge', charge, { retries: { max: 2, initial: 10 } }), { timeout: '1h' });
    const t = await backend.testApp({ workflows: [wf], queues: [jobs] });
    const handle = await wf.with({ queue: jobs }).start();
    await failure(t.clock.runUntil(handle.result()));
    await t.clock.advance('2h');
    await t.app.workflows.retry(handle.id);
    expect(await t.clock.runUntil(handle.result())).toBe('paid');
    const { queueName, deadlineAt, completedAt } = await handle.status();
    expect(queueName).toBe('jobs');
    expect(deadlineAt).toBeGreaterThan(completedAt ?? 0);
  });

  it('happens once, however many callers ask for it at the same time', async () => {
    const { broken, work } = switchable([]);
    const wf = workflow('wf', () => work('a'));
    const t = await backend.testApp({ workflows: [wf] });
    broken.add('a');
    const handle = await wf.start();
    await failure(t.clock.runUntil(handle.result()));
    broken.clear();
    const calls = await Promise.allSettled([1, 2, 3].map(() => t.app.workflows.retry(handle.id)));
    const refused = calls.flatMap((call) => (call.status === 'rejected' ? [call.reason] : []));
    expect(refused).toHaveLength(2);
    for (const error of refused) expect(error).toMatchObject({ code: 'WORKFLOW_NOT_RETRYABLE' });
    expect(await t.clock.runUntil(handle.result())).toBe('a');
    expect((await handle.status()).retries).toHaveLength(1);
  });

  it.each(crashPhases)('is done completely or not at all after a crash %s', async (phase) => {
    const ran: string[] = [];
    const { broken, work } = switchable(ran);
    const wf = workflow('wf', async () => [await work('a'), await work('b')]);
    const failedApp = async (crashAt?: CrashPoint) => {
      const t = await backend.testApp({ workflows: [wf], ...(crashAt && { crashAt }) });
      broken.add('b');
      const { id } = await wf.with({ id: 'w', app: t.app }).start();
      await failure(t.clock.runUntil(t.app.workflows.handle(id).result()));
      broken.clear();
      ran.length = 0;
      return t;
    };
    const uncrashed = await failedApp();
    await uncrashed.app.workflows.retry('w');
    const statement = uncrashed.statements.indexOf('workflows.retry') + 1;
    await uncrashed.stop();
    const t = await failedApp({ statement, phase });
    void t.app.workflows.retry('w').catch(() => {});
    await t.crashed;
    const again = await t.restart();
    const { status, retries } = (await again.app.workflows.get('w')) ?? {};
    expect(retries).toHaveLength(status === 'ERROR' ? 0 : 1);
    if (status === 'ERROR') await again.app.workflows.retry('w');
    expect(await overTime(again.clock, again.app.workflows.handle('w').result())).toEqual(['a', 'b']);
    expect(new Set(ran)).toEqual(new Set(['b']));
  });

  it('ends in the same error again if a step fails permanently', async () => {
    const wf = workflow('wf', () => run('a', () => Promise.reject(new FatalError('never'))));
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    for (let n = 0; n < 3; n++) {
      expect(await failure(t.clock.runUntil(handle.result()))).toMatchObject({ code: 'FATAL' });
      await t.app.workflows.retry(handle.id);
    }
    await failure(t.clock.runUntil(handle.result()));
    expect((await handle.status()).retries).toHaveLength(3);
  });

  it('keeps only one result of a step that was running when its workflow failed', async () => {
    const slow = gate<string>();
    const begun = gate();
    let runs = 0;
    const wf = workflow('wf', () => {
      const slowly = run('slow', () => {
        runs++;
        begun.open();
        return runs === 1 ? slow.promise : 'second';
      });
      const failing = run('fail', async () => {
        await begun.promise;
        if (runs === 1) throw new Error('once');
      });
      return Promise.all([slowly, failing]);
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await failure(t.clock.runUntil(handle.result()));
    await t.app.workflows.retry(handle.id);
    const result = t.clock.runUntil(handle.result());
    slow.open('first');
    // If the second run of `fail` comes before the second run of `slow`, it fails again. The next retry succeeds.
    await result.catch(() => {});
    if ((await handle.status()).status === 'ERROR') await t.app.workflows.retry(handle.id);
    expect(await t.clock.runUntil(handle.result())).toEqual(['second', undefined]);
  });

  it('retries a failed child whose start runs again, if its own ID only looks generated', async () => {
    const { broken, work } = switchable([]);
    const child = workflow('child', () => work('a'));
    const wf = workflow('wf', () => child.with({ id: 'w-0-refund' })());
    const t = await backend.testApp({ workflows: [wf, child] });
    broken.add('a');
    const handle = await wf.with({ id: 'w' }).start();
    await failure(t.clock.runUntil(handle.result()));
    broken.clear();
    await t.app.workflows.retry('w', { fromStep: 0 });
    expect(await t.clock.runUntil(handle.result())).toBe('a');
  });
});
