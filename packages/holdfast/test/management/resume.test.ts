import { expect, it } from 'vitest';
import { queue, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever, overTime } from '../support/faults.js';

describeBackends('resume', (backend) => {
  it('starts a cancelled workflow again after its last recorded step', async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async () => {
      await run('a', () => void ran.push('a'));
      await sleep('1h');
      await run('b', () => void ran.push('b'));
      return 'done';
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('1m');
    await handle.cancel();
    expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    const resumed = await t.app.workflows.resume(handle.id);
    expect(await t.clock.runUntil(resumed.result())).toBe('done');
    expect(ran).toEqual(['a', 'b']);
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS', attempts: 1, reason: undefined });
    expect(await handle.result()).toBe('done');
  });

  it('also resumes children that were cancelled with their parent', async () => {
    const leaf = workflow('leaf', async () => {
      await sleep('1h');
      return 'leaf';
    });
    const child = workflow('child', async () => `child of ${await leaf.with({ id: 'leaf' })()}`);
    const parent = workflow('parent', async () => `parent of ${await child.with({ id: 'child' })()}`);
    const t = await backend.testApp({ workflows: [parent, child, leaf] });
    const handle = await parent.start();
    await t.clock.advance('1m');
    await handle.cancel();
    expect(await t.app.workflows.get('leaf')).toMatchObject({ status: 'CANCELLED' });
    const resumed = await t.app.workflows.resume(handle.id);
    expect(await t.clock.runUntil(resumed.result())).toBe('parent of child of leaf');
    const all = await t.app.workflows.list();
    expect(all.map(({ status }) => status)).toEqual(['SUCCESS', 'SUCCESS', 'SUCCESS']);
  });

  it('leaves a child cancelled if its parent has recorded the cancellation', async () => {
    const child = workflow('child', () => sleep('1d'));
    const parent = workflow('parent', async () => {
      const { code } = await failure(child.with({ id: 'child' })());
      await sleep('1d');
      return code;
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const handle = await parent.start();
    await t.clock.advance('1m');
    await t.app.workflows.cancel('child');
    await t.clock.advance('1m');
    await handle.cancel();
    await t.app.workflows.resume(handle.id);
    expect(await t.clock.runUntil(handle.result())).toBe('WORKFLOW_CANCELLED');
    expect(await t.app.workflows.get('child')).toMatchObject({ status: 'CANCELLED' });
  });

  it('gives a dead-lettered workflow its attempts back', async () => {
    let hang = true;
    const wf = workflow('wf', () => run('hang', () => (hang ? forever() : 'done')), { maxRecoveryAttempts: 0 });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    let again = await t.restart();
    expect(await again.app.workflows.get(id)).toMatchObject({ status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', attempts: 2 });
    hang = false;
    const resumed = await again.app.workflows.resume(id);
    expect(await overTime(again.clock, resumed.result())).toBe('done');
    expect(await resumed.status()).toMatchObject({ status: 'SUCCESS', attempts: 1 });
    again = await again.restart();
    expect(await again.app.workflows.handle(id).result()).toBe('done');
  });

  it('gives a workflow with a timeout the full time again', async () => {
    const wf = workflow('wf', () => sleep('2h'), { timeout: '1h' });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('90m');
    expect(await handle.status()).toMatchObject({ status: 'CANCELLED' });
    await t.app.workflows.resume(handle.id);
    await t.clock.advance(1000);
    expect((await handle.status()).deadlineAt).toBeGreaterThanOrEqual(t.clock.now() + 3_590_000);
    await t.clock.runUntil(handle.result());
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS' });
  });

  it('survives a crash right after the request', async () => {
    const wf = workflow('wf', async () => {
      await sleep('90s');
      return 'done';
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('1m');
    await handle.cancel();
    await t.app.workflows.resume(handle.id);
    const again = await t.restart();
    expect(await overTime(again.clock, again.app.workflows.handle(handle.id).result())).toBe('done');
  });

  it('refuses a failed workflow with a typed error that names alternatives, and resumes none of the call', async () => {
    const failing = workflow('failing', () => run('charge', () => Promise.reject(new Error('declined'))));
    const sleeping = workflow('sleeping', () => sleep('1h'));
    const t = await backend.testApp({ workflows: [failing, sleeping] });
    const failed = await failing.with({ id: 'order-7' }).start();
    await failure(t.clock.runUntil(failed.result()));
    const other = await sleeping.start();
    await other.cancel();
    const error = await failure(t.app.workflows.resume([other.id, 'order-7']));
    expect(error).toMatchObject({
      code: 'WORKFLOW_NOT_RESUMABLE',
      details: { workflowId: 'order-7', status: 'ERROR' },
    });
    expect(error.message).toMatch(/"order-7" has failed.*retry.*fork.*delete/);
    expect(await other.status()).toMatchObject({ status: 'CANCELLED' });
    expect(await failed.status()).toMatchObject({ status: 'ERROR' });
    expect(await failure(t.app.workflows.resume([other.id, 'nobody']))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(await other.status()).toMatchObject({ status: 'CANCELLED' });
  });

  it('takes a list, and a queue with a partition for these workflows but not for their children', async () => {
    const child = workflow('child', () => sleep('1h'));
    const parent = workflow('parent', () => child());
    const [from, plain] = [queue('from'), queue('plain')];
    const parted = queue('parted', { partition: { concurrency: 1 } });
    const t = await backend.testApp({ workflows: [parent, child], queues: [from, plain, parted] });
    const ids = ['a', 'b'];
    for (const id of ids) await parent.with({ id, queue: from }).start();
    await t.clock.advance('1m');
    await t.app.workflows.cancel(ids);
    for (const each of ['from', 'plain', 'parted']) await t.app.queues.pause(each);
    const handles = await t.app.workflows.resume(ids, { queue: parted, partition: 'p1' });
    expect(handles.map(({ id }) => id)).toEqual(ids);
    const moved = { status: 'ENQUEUED', queueName: 'parted', partition: 'p1' };
    for (const handle of handles) expect(await handle.status()).toMatchObject(moved);
    const children = await t.app.workflows.list({ name: 'child' });
    expect(children.map(({ queueName }) => queueName === 'parted')).toEqual([false, false]);
    await t.app.workflows.cancel(ids);
    await t.app.workflows.resume('a', { queue: 'plain' });
    expect(await t.app.workflows.get('a')).toMatchObject({ queueName: 'plain', partition: undefined });
    await t.app.workflows.resume(['b']);
    expect(await t.app.workflows.get('b')).toMatchObject({ queueName: 'parted', partition: 'p1' });
    for (const each of ['plain', 'parted']) await t.app.queues.resume(each);
    await t.clock.runUntil(Promise.all(handles.map((handle) => handle.result())));
  });

  it('refuses unknown options, and queues and partitions that do not fit together', async () => {
    const wf = workflow('wf', () => sleep('1h'));
    const t = await backend.testApp({ workflows: [wf], queues: [queue('plain'), queue('parted', { partition: {} })] });
    const handle = await wf.start();
    await handle.cancel();
    const refused: [object, RegExp][] = [
      [{ que: 'plain' }, /no option "que". It takes: queue, partition/],
      [{ priority: 1 }, /no option "priority"/],
      [{ partition: 'p' }, /"partition" must be given with a "queue"/],
      [{ queue: 'parted' }, /"partition" is missing/],
      [{ queue: 'plain', partition: 'p' }, /"partition" must be left out/],
      [{ queue: 'nowhere' }, /nowhere/],
    ];
    for (const [options, message] of refused) {
      expect((await failure(t.app.workflows.resume(handle.id, options))).message).toMatch(message);
    }
    expect(await handle.status()).toMatchObject({ status: 'CANCELLED' });
  });

  it('changes nothing for a running workflow, and fails with WORKFLOW_NOT_FOUND for an unknown one', async () => {
    let bodies = 0;
    const wf = workflow('wf', async () => {
      bodies++;
      await sleep('1h');
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('1m');
    const resumed = await t.app.workflows.resume(handle.id);
    await t.clock.runUntil(resumed.result());
    expect(bodies).toBe(1);
    expect(await failure(t.app.workflows.resume('nobody'))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
  });
});
