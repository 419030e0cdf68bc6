import { expect, it, onTestFinished } from 'vitest';
import { connect, queue, run, sleep, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, forever } from '../support/faults.js';
import { launchFleet, rowCounts, Stage } from '../support/queues.js';

describeBackends('a deduplication ID', (backend) => {
  const q = queue('q', { concurrency: 1 });

  it('refuses a duplicate while its workflow is DELAYED, ENQUEUED or PENDING, and names that workflow', async () => {
    const stage = new Stage();
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [stage.wf], queues: [q] });
    await stage.wf.with({ queue: q }).start('in the way');
    const holder = await stage.wf.with({ queue: q, dedupId: 'd', delay: '1m' }).start('holder');
    const duplicate = () => failure(stage.wf.with({ queue: q, dedupId: 'd' }).start('another'));
    const details = { queueName: 'q', dedupId: 'd', workflowId: holder.id };
    const statuses: string[] = [];
    const check = async () => {
      statuses.push((await holder.status()).status);
      const error = await duplicate();
      expect(error).toMatchObject({ code: 'QUEUE_DUPLICATE', details });
      expect(error.message).toContain(holder.id);
    };
    await check();
    await t.clock.advance('1m');
    await check();
    stage.end();
    await t.clock.advance(0);
    await check();
    expect(statuses).toEqual(['DELAYED', 'ENQUEUED', 'PENDING']);
    expect(await rowCounts(database)).toMatchObject({ workflows: 2 });
    stage.end();
    await holder.result();
    await stage.wf.with({ queue: q, dedupId: 'd' }).start('another');
  });

  it.each(['SUCCESS', 'ERROR', 'CANCELLED', 'CANCELLED while it waited', 'CANCELLED while DELAYED', 'timed out'])(
    'is free again when its workflow is %s',
    async (how) => {
      const stage = new Stage();
      const fails = workflow('fails', async () => {
        throw new Error('no');
      });
      const t = await backend.testApp({ workflows: [stage.wf, fails], queues: [q] });
      if (how === 'CANCELLED while it waited') await stage.wf.with({ queue: q }).start('in the way');
      const options = {
        queue: q,
        dedupId: 'd',
        ...(how === 'CANCELLED while DELAYED' && { delay: '1h' }),
        ...(how === 'timed out' && { timeout: '1m' }),
      };
      const holder = how === 'ERROR' ? await fails.with(options).start() : await stage.wf.with(options).start('holder');
      await t.clock.advance(0);
      if (how === 'SUCCESS') stage.end();
      if (how.startsWith('CANCELLED')) await holder.cancel();
      if (how === 'timed out') await t.clock.advance('1m');
      await holder.result().catch(() => {});
      const next = await stage.wf.with({ queue: q, dedupId: 'd' }).start('next');
      expect(next.id).not.toBe(holder.id);
      expect((await holder.status()).dedupId).toBeUndefined();
    },
  );

  it('of each start in a batch combines with the common options, in an app and in a client', async () => {
    const stage = new Stage();
    const database = await backend.newDatabase();
    await backend.testApp({ database, workflows: [stage.wf], queues: [q] });
    const client = await connect({ database, name: 'test', logger: silent });
    onTestFinished(() => client.close());
    const common = { queue: q, onDuplicate: 'return-existing' } as const;
    const each = (_: unknown, i: number) => ({ dedupId: `d${i}` });
    const first = await stage.wf.with(common).startAll([['a'], ['b']], each);
    const again = await client.startAll(stage.wf.workflowName, common, [['c'], ['d']], each);
    expect(again.map(({ id }) => id)).toEqual(first.map(({ id }) => id));
    const without = { code: 'INVALID_OPTION', message: expect.stringMatching(/"onDuplicate" must be given together/) };
    const prepared = stage.wf.with(common);
    expect(await failure(prepared.startAll([['e']]))).toMatchObject(without);
    expect(await failure((async () => prepared.start('e'))())).toMatchObject(without);
    expect(await failure((async () => prepared('e'))())).toMatchObject(without);
    // A mistake that no later option can correct is reported at once.
    expect(() => stage.wf.with({ onDuplicate: 'ignore' as 'reject' })).toThrow(/"reject" or "return-existing"/);
  });

  it('is kept through each recovery, and is free again when its workflow becomes a dead letter', async () => {
    const stage = new Stage();
    const poison = workflow('poison', () => run('hang', () => forever()), { maxRecoveryAttempts: 1 });
    let t = await backend.testApp({ workflows: [stage.wf, poison], queues: [q] });
    const { id } = await poison.with({ queue: q, dedupId: 'd' }).start();
    const duplicate = () => stage.wf.with({ queue: q, dedupId: 'd' }).start('another');
    await t.clock.advance(0);
    for (let recovery = 0; recovery < 2; recovery++) {
      expect(await failure(duplicate())).toMatchObject({ code: 'QUEUE_DUPLICATE' });
      t = await t.restart();
      await t.clock.advance('5s');
    }
    expect(await t.app.workflows.get(id)).toMatchObject({ status: 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' });
    await duplicate();
  });

  it('is free again when its workflow is STALLED', async () => {
    const stage = new Stage();
    const before = workflow('changing', async () => {
      await run('a', () => 1);
      await sleep('1h');
    });
    const after = workflow('changing', async () => {
      await run('b', () => 1);
    });
    const t = await backend.testApp({ workflows: [stage.wf, before], queues: [q], version: 'v' });
    const { id } = await before.with({ queue: q, dedupId: 'd' }).start();
    await t.clock.advance('1m');
    const again = await t.restart({ workflows: [stage.wf, after] });
    await again.clock.advance('5s');
    expect(await again.app.workflows.get(id)).toMatchObject({ status: 'STALLED' });
    await stage.wf.with({ queue: q, dedupId: 'd' }).start('another');
  });

  it('returns its workflow, whatever the arguments, if a start asks for return-existing', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    const start = stage.wf.with({ queue: q, dedupId: 'd', onDuplicate: 'return-existing' });
    const first = await start.start('first');
    const second = await start.start('second');
    expect(second.id).toBe(first.id);
    await t.clock.advance(0);
    stage.end();
    expect(await second.result()).toBe('first');
    const third = await start.start('third');
    expect(third.id).not.toBe(first.id);
  });

  it('never returns a handle of a different workflow: the error names the workflow that has it', async () => {
    const refund = workflow('refund', async () => 'refunded');
    const charge = workflow('charge', async () => 'charged');
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [refund, charge], queues: [q] });
    await t.app.queues.pause('q');
    const client = await connect({ database, name: 'test', logger: silent });
    onTestFinished(() => client.close());
    const options = { queue: 'q', dedupId: 'order 7', onDuplicate: 'return-existing' } as const;
    const holder = await refund.with(options).start();
    const before = await rowCounts(database);
    const starts = [
      () => charge.with(options).start(),
      () => charge.with({ queue: 'q' }).startAll([[], []], (_, i) => (i === 0 ? {} : options)),
      () => client.start('charge', options),
      () => client.startAll('charge', options, [[]]),
      // A class method is a different workflow than a function of the same name.
      () => client.start({ name: 'refund', className: 'Shop' }, options),
      () => client.start({ name: 'refund', className: 'Shop', configName: 'de' }, options),
    ];
    for (const start of starts) {
      const error = await failure(start());
      expect(error, start.toString()).toMatchObject({ code: 'QUEUE_DUPLICATE', details: { workflowId: holder.id } });
      expect(error.message).toContain(`"${holder.id}", of "refund"`);
    }
    expect(await rowCounts(database)).toEqual(before);
    expect((await client.start('refund', options)).id).toBe(holder.id);
  });

  it('returns a run of the same class and instance to a method, and refuses a run of another instance', async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, queues: [q] });
    await t.app.queues.pause('q');
    const client = await connect({ database, name: 'test', logger: silent });
    onTestFinished(() => client.close());
    const options = { queue: 'q', dedupId: 'd', onDuplicate: 'return-existing' } as const;
    const start = (configName: string) => client.start({ name: 'm', className: 'Shop', configName }, options);
    const first = await start('de');
    expect((await start('de')).id).toBe(first.id);
    expect(await failure(start('eu'))).toMatchObject({
      code: 'QUEUE_DUPLICATE',
      message: expect.stringContaining(`"${first.id}", of "Shop/de.m"`),
    });
  });

  it('belongs to one queue: another queue may use the same deduplication ID', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q, queue('r', { partition: {} })] });
    await stage.wf.with({ queue: 'q', dedupId: 'd' }).start('on q');
    await stage.wf.with({ queue: 'r', dedupId: 'd', partition: 'a' }).start('on r');
    await stage.wf.with({ dedupId: 'd' }).start('on none');
    await t.clock.advance(0);
    expect(stage.begun.sort()).toEqual(['on none', 'on q', 'on r']);
    // The deduplication ID belongs to the queue, so the partition makes no difference.
    const duplicate = stage.wf.with({ queue: 'r', dedupId: 'd', partition: 'b' }).start('another');
    expect(await failure(duplicate)).toMatchObject({ code: 'QUEUE_DUPLICATE' });
  });

  it('does not refuse its own workflow when it is started again under the same ID', async () => {
    const stage = new Stage();
    const t = await backend.testApp({ workflows: [stage.wf], queues: [q] });
    const start = () => stage.wf.with({ queue: q, id: 'id', dedupId: 'd' }).start('once');
    expect((await start()).id).toBe('id');
    expect((await start()).id).toBe('id');
    await t.clock.advance(0);
    expect(stage.begun).toEqual(['once']);
  });

  it('admits one of a hundred concurrent starts in two processes, or returns that one to all of them', async () => {
    const stage = new Stage();
    const database = await backend.newDatabase();
    const fleet = await launchFleet(backend, 2, { database, workflows: [stage.wf], queues: [q] });
    const race = (onDuplicate: 'reject' | 'return-existing') =>
      Promise.allSettled(
        Array.from({ length: 100 }, (_, i) =>
          stage.wf
            .with({ queue: q, dedupId: onDuplicate, onDuplicate, app: fleet[i % 2]?.app as object })
            .start(`${i}`),
        ),
      );
    const rejected = (await race('reject')).filter((each) => each.status === 'rejected');
    expect(rejected).toHaveLength(99);
    expect(rejected.every(({ reason }) => reason.code === 'QUEUE_DUPLICATE')).toBe(true);
    const existing = await race('return-existing');
    expect(new Set(existing.map((each) => each.status === 'fulfilled' && each.value.id)).size).toBe(1);
    expect(await rowCounts(database)).toMatchObject({ workflows: 2 });
  });
});
