import { expect, it } from 'vitest';
import { context, queue, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { claimNothing } from '../support/claims.js';
import { failure } from '../support/faults.js';
import { Stage } from '../support/queues.js';

describeBackends('children on queues', (backend) => {
  const q = queue('q', { concurrency: 1 });

  it('wait for a slot, and return their result to their parent', async () => {
    const stage = new Stage();
    const parent = workflow('parent', () => Promise.all(['a', 'b'].map((label) => stage.wf.with({ queue: q })(label))));
    const t = await backend.testApp({ workflows: [parent, stage.wf], queues: [q] });
    const handle = await parent.with({ id: 'p' }).start();
    await t.clock.advance(0);
    expect(stage.begun).toEqual(['a']);
    expect(await t.app.workflows.get('p-2')).toMatchObject({
      status: 'ENQUEUED',
      parentWorkflowId: 'p',
      queueName: 'q',
    });
    stage.end();
    await t.clock.advance(0);
    stage.end();
    expect(await handle.result()).toEqual(['a', 'b']);
  });

  it.each(['before-send', 'after-apply', 'after-reply', 'before-resolve'] as const)(
    'run once even if the app crashes between the enqueueing and its record, %s',
    async (phase) => {
      const children: string[] = [];
      const child = workflow('child', async () => run('once', () => children.push(context().workflowId)));
      const parent = workflow('parent', async () => {
        await child.with({ queue: q })();
        return 'done';
      });
      const shared = { workflows: [parent, child], queues: [q] };
      const probe = await backend.testApp(shared);
      await parent();
      const statement = probe.statements.indexOf('workflows.enqueueChild') + 1;
      expect(statement).toBeGreaterThan(0);
      await probe.stop();
      children.length = 0;
      const t = await backend.testApp({ ...shared, crashAt: { statement, phase } });
      // The app that crashes would otherwise run the child's step, and may crash before the step is on record.
      claimNothing(t.app);
      parent
        .with({ id: 'p' })()
        .catch(() => {});
      await t.crashed;
      const again = await t.restart();
      expect(await again.app.workflows.handle('p').result()).toBe('done');
      expect(children).toEqual(['p-0']);
    },
  );

  it('inherit the deadline of their parent, even while they wait or are delayed', async () => {
    const stage = new Stage();
    const parent = workflow('parent', async () => {
      await stage.wf.with({ queue: q, id: 'runs' }).start('runs');
      await stage.wf.with({ queue: q, id: 'waits' }).start('waits');
      await stage.wf.with({ queue: q, id: 'delayed', delay: '2h' }).start('delayed');
      await stage.wf.with({ queue: q, id: 'shorter', timeout: '1s' }).start('shorter');
      await stage.wf.with({ queue: q, id: 'detached', timeout: null }).start('detached');
      return 'gone';
    });
    const t = await backend.testApp({ workflows: [parent, stage.wf], queues: [q] });
    const from = t.clock.now();
    expect(await parent.with({ timeout: '1h' })()).toBe('gone');
    await t.clock.advance('59m');
    const deadlines = (await t.app.workflows.list({ queue: 'q' })).map((each) => [each.workflowId, each.deadlineAt]);
    const inherited = from + 3_600_000;
    expect(Object.fromEntries(deadlines)).toEqual({
      runs: inherited,
      waits: inherited,
      delayed: inherited,
      shorter: inherited,
      detached: undefined,
    });
    // The parent has ended, so the children are cancelled by their own deadlines.
    await t.clock.advance('66s');
    const statuses = (await t.app.workflows.list({ queue: 'q' })).map((each) => [each.workflowId, each.status]);
    expect(Object.fromEntries(statuses)).toEqual({
      runs: 'CANCELLED',
      waits: 'CANCELLED',
      delayed: 'CANCELLED',
      shorter: 'CANCELLED',
      detached: 'PENDING',
    });
    expect(stage.begun).toEqual(['runs', 'detached']);
  });

  it('are cancelled with their parent while they run, wait or are delayed, unless detached', async () => {
    const stage = new Stage();
    const parent = workflow('parent', async () => {
      await stage.wf.with({ queue: q, id: 'runs' }).start('runs');
      await stage.wf.with({ queue: q, id: 'waits' }).start('waits');
      await stage.wf.with({ queue: q, id: 'delayed', delay: '1h' }).start('delayed');
      await stage.wf.with({ queue: q, id: 'detached', timeout: null }).start('detached');
      await sleep('1d');
    });
    const t = await backend.testApp({ workflows: [parent, stage.wf], queues: [q] });
    const handle = await parent.start();
    await t.clock.advance('1m');
    await handle.cancel();
    await t.clock.advance('2h');
    const all = await t.app.workflows.list({ queue: 'q' });
    expect(Object.fromEntries(all.map(({ workflowId, status }) => [workflowId, status]))).toEqual({
      runs: 'CANCELLED',
      waits: 'CANCELLED',
      delayed: 'CANCELLED',
      detached: 'PENDING',
    });
    expect(stage.begun).toEqual(['runs', 'detached']);
  });

  it('report a refused enqueueing to their parent as an error, and as the same error after a replay', async () => {
    const child = workflow('child', async () => 1);
    const other = workflow('other', async () => 2);
    const parent = workflow('parent', async () => {
      const held = await failure(child.with({ queue: q, dedupId: 'held' }).start());
      const unknown = await failure(child.with({ queue: 'unknown' }).start());
      const existing = await child.with({ queue: q, dedupId: 'held', onDuplicate: 'return-existing' }).start();
      const foreign = await failure(other.with({ queue: q, dedupId: 'held', onDuplicate: 'return-existing' }).start());
      await sleep('1h');
      return [held.code, unknown.code, existing.id, foreign.code];
    });
    const t = await backend.testApp({ workflows: [parent, child, other], queues: [q] });
    await t.app.queues.pause('q');
    await child.with({ queue: q, dedupId: 'held', id: 'holder' }).start();
    const { id } = await parent.start();
    await t.clock.advance('1m');
    await t.app.queues.resume('q');
    const again = await t.restart();
    const result = again.app.workflows.handle(id).result();
    const refused = 'QUEUE_DUPLICATE';
    expect(await again.clock.runUntil(result)).toEqual([refused, 'UNKNOWN_QUEUE', 'holder', refused]);
  });

  it('do not block their parent on the same queue if it has slots for both', async () => {
    const child = workflow('child', async () => 'child');
    const parent = workflow('parent', () => child.with({ queue: 'pair' })());
    const pair = queue('pair', { concurrency: 2 });
    await backend.testApp({ workflows: [parent, child], queues: [pair] });
    const handle = await parent.with({ queue: pair }).start();
    expect(await handle.result()).toBe('child');
  });
});
