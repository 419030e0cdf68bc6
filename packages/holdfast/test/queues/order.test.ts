import { expect, it } from 'vitest';
import { connect, queue, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, forever } from '../support/faults.js';
import { launchFleet } from '../support/queues.js';

/** The clock does not move in most of these tests, so no order can come from timestamps. */
describeBackends('the order of a queue', (backend) => {
  const recorder = () => {
    const ran: string[] = [];
    return { ran, wf: workflow('wf', async (label: string) => void ran.push(label)) };
  };
  /** Runs one workflow at a time. The tests pause it until everything is enqueued. */
  const single = queue('q', { concurrency: 1 });
  const labels = (count: number): string[] => Array.from({ length: count }, (_, i) => `${i}`);

  async function paused(options: Parameters<typeof backend.testApp>[0]): Promise<TestApp> {
    const t = await backend.testApp({ queues: [single], ...options });
    await t.app.queues.pause('q');
    return t;
  }

  async function runAll({ app, clock }: TestApp): Promise<void> {
    await app.queues.resume('q');
    await clock.advance(0);
  }

  it('is the order of the calls, even for 500 calls in the same event loop turn', async () => {
    const { wf, ran } = recorder();
    const t = await paused({ workflows: [wf] });
    await Promise.all(labels(500).map((label) => wf.with({ queue: single }).start(label)));
    await runAll(t);
    expect(ran).toEqual(labels(500));
  });

  it('is the order of the acknowledgments when two processes enqueue alternately', async () => {
    const { wf, ran } = recorder();
    const [one, two] = (await launchFleet(backend, 2, { workflows: [wf], queues: [single] })) as [TestApp, TestApp];
    await one.app.queues.pause('q');
    for (const label of labels(60)) {
      const { app } = Number(label) % 3 === 0 ? one : two;
      if (Number(label) % 5 === 0) await wf.with({ queue: single, app }).startAll([[label]]);
      else await wf.with({ queue: single, app }).start(label);
    }
    await two.app.shutdown();
    await runAll(one);
    expect(ran).toEqual(labels(60));
  });

  it('is the order of the list in a batch, whatever IDs its workflows have', async () => {
    const { wf, ran } = recorder();
    const t = await paused({ workflows: [wf] });
    const backwards = (_: unknown, i: number) => ({ id: `id ${900 - i}` });
    await wf.with({ queue: single }).startAll(
      labels(40).map((label) => [label] as [string]),
      backwards,
    );
    await Promise.all(labels(40).map((label, i) => wf.with({ queue: single, id: `id ${700 - i}` }).start(`+${label}`)));
    await runAll(t);
    expect(ran).toEqual([...labels(40), ...labels(40).map((label) => `+${label}`)]);
  });

  it('is by priority, lowest number first and 0 by default, then by acknowledgment', async () => {
    const { wf, ran } = recorder();
    const t = await paused({ workflows: [wf] });
    const largest = 2 ** 31 - 1;
    for (const priority of [5, 1, largest, undefined, 1, 5, 0]) {
      const options = { queue: single, ...(priority !== undefined && { priority }) };
      await wf.with(options).start(`${priority}.${ran.length}`);
      await wf.with(options).start(`${priority}.again`);
    }
    await runAll(t);
    const of = (priority: unknown) => [`${priority}.0`, `${priority}.again`];
    expect(ran).toEqual([...of(undefined), ...of(0), ...of(1), ...of(1), ...of(5), ...of(5), ...of(largest)]);
  });

  it('is changed by setPriority only for workflows that have not started', async () => {
    const { wf, ran } = recorder();
    const t = await paused({ workflows: [wf] });
    const { setPriority, get } = t.app.workflows;
    for (const label of ['a', 'b', 'c', 'd']) await wf.with({ queue: single, id: label, priority: 10 }).start(label);
    await wf.with({ queue: single, id: 'delayed', delay: '1m', priority: 10 }).start('delayed');
    expect(await setPriority('c', 1)).toBe(true);
    expect(await setPriority('a', 99)).toBe(true);
    expect(await setPriority('delayed', 0)).toBe(true);
    expect(await get('c')).toMatchObject({ priority: 1, status: 'ENQUEUED' });
    await t.clock.advance('1m');
    await runAll(t);
    expect(ran).toEqual(['delayed', 'c', 'b', 'd', 'a']);
    expect(await setPriority('c', 2)).toBe(false);
    expect(await get('c')).toMatchObject({ priority: 1 });
    expect(await failure(setPriority('unknown', 2))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
  });

  it('is by priority for delayed workflows too, once they are due', async () => {
    const { wf, ran } = recorder();
    const t = await paused({ workflows: [wf] });
    await wf.with({ queue: single, delay: '1m', priority: 2 }).start('delayed, last');
    await wf.with({ queue: single, delay: '2m', priority: 0 }).start('delayed, first');
    await wf.with({ queue: single, priority: 1 }).start('not delayed');
    await t.clock.advance('2m');
    await runAll(t);
    expect(ran).toEqual(['delayed, first', 'not delayed', 'delayed, last']);
  });

  it('keeps the place of work that a process hands over at shutdown', async () => {
    const { wf, ran } = recorder();
    const database = await backend.newDatabase();
    const holder = workflow('holder', () => forever());
    const t = await backend.testApp({ workflows: [wf, holder], queues: [single], database });
    await holder.with({ queue: single, id: 'first' }).start();
    for (const label of ['b', 'c']) await wf.with({ queue: single, id: label }).start(label);
    await t.clock.advance(0);
    await t.app.shutdown();
    const first = workflow('holder', async () => void ran.push('first'));
    const next = await backend.testApp({ workflows: [wf, first], database, clock: t.clock, version: t.app.version });
    await next.clock.advance(0);
    expect(ran).toEqual(['first', 'b', 'c']);
  });

  it('takes no priority on a queue that is strictly first come, first served', async () => {
    const { wf, ran } = recorder();
    const strict = queue('strict', { priority: false, concurrency: 1 });
    const t = await backend.testApp({ workflows: [wf], queues: [strict] });
    for (const priority of [0, 1]) {
      expect(await failure(wf.with({ queue: strict, priority }).start('x'))).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/"priority" must be left out: queue "strict" is set to \{ priority: false \}/),
      });
    }
    await wf.with({ queue: strict }).startAll([['a'], ['b']]);
    await t.clock.advance(0);
    expect(ran).toEqual(['a', 'b']);
    expect(await t.app.workflows.list()).toHaveLength(2);
  });

  it('is not changed by setPriority on a queue that is strictly first come, first served', async () => {
    const { wf, ran } = recorder();
    const strict = queue('strict', { priority: false, concurrency: 1 });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf], queues: [strict] });
    const client = await connect({ database, logger: silent });
    await t.app.queues.pause('strict');
    await wf.with({ queue: strict, id: 'a' }).start('a');
    await wf.with({ queue: strict, id: 'b', delay: '1m' }).start('b');
    const message = expect.stringMatching(
      /"priority" must be left out: queue "strict" is set to \{ priority: false \}/,
    );
    for (const { workflows } of [t.app, client]) {
      for (const id of ['a', 'b']) {
        expect(await failure(workflows.setPriority(id, 0))).toMatchObject({ code: 'INVALID_OPTION', message });
        expect(await failure(workflows.setPriority(id, 7))).toMatchObject({ code: 'INVALID_OPTION', message });
        expect(await workflows.get(id)).toMatchObject({ priority: 0 });
      }
    }
    await t.app.queues.update('strict', { priority: true });
    for (const { workflows } of [t.app, client]) expect(await workflows.setPriority('a', 7)).toBe(true);
    await t.app.queues.update('strict', { priority: false });
    await t.app.queues.resume('strict');
    await t.clock.advance('1m');
    expect(ran).toEqual(['a', 'b']);
    expect(await t.app.workflows.setPriority('a', 1)).toBe(false);
    await client.close();
  });
});

describeBackends('the order of partitions', (backend) => {
  const recorder = () => {
    const ran: string[] = [];
    return { ran, wf: workflow('wf', async (label: string) => void ran.push(label)) };
  };

  it('lets other partitions start at once even if one has a thousand workflows waiting', async () => {
    const { wf, ran } = recorder();
    const q = queue('q', { concurrency: 1, partition: {} });
    const t = await backend.testApp({ workflows: [wf], queues: [q] });
    await t.app.queues.pause('q');
    await wf.with({ queue: q, partition: 'a' }).startAll(Array.from({ length: 1000 }, () => ['a']));
    await wf.with({ queue: q, partition: 'b' }).start('b');
    const c = await wf.with({ queue: q, partition: 'c' }).start('c');
    await t.app.queues.resume('q');
    await c.result();
    // A partition that arrives during the backlog does not wait for the thousand workflows either.
    const before = ran.length;
    const d = await wf.with({ queue: q, partition: 'd' }).start('d');
    await d.result();
    expect(ran.slice(0, 3).sort()).toEqual(['a', 'b', 'c']);
    expect(ran.indexOf('d')).toBeLessThan(before + 10);
  });

  it('alternates between keys, and follows priority within a key', async () => {
    const { wf, ran } = recorder();
    const q = queue('q', { concurrency: 1, partition: {} });
    const t = await backend.testApp({ workflows: [wf], queues: [q] });
    await t.app.queues.pause('q');
    const work: [string, number][] = [
      ['a', 9],
      ['a', 1],
      ['a', 5],
      ['b', 3],
      ['b', 2],
      ['c', 0],
    ];
    for (const [partition, priority] of work) {
      await wf.with({ queue: q, partition, priority }).start(`${partition}${priority}`);
    }
    await t.app.queues.resume('q');
    await t.clock.advance(0);
    expect(ran).toEqual(['a1', 'b2', 'c0', 'a5', 'b3', 'a9']);
  });

  it('shares the starts of one query evenly among the keys', async () => {
    const { wf, ran } = recorder();
    const q = queue('q', { rateLimit: { max: 6, per: '1m' }, partition: {} });
    const t = await backend.testApp({ workflows: [wf], queues: [q] });
    await t.app.queues.pause('q');
    for (const partition of ['a', 'b', 'c']) {
      await wf.with({ queue: q, partition }).startAll(Array.from({ length: 50 }, () => [partition]));
    }
    await t.app.queues.resume('q');
    await t.clock.advance(0);
    expect(ran.sort()).toEqual(['a', 'a', 'b', 'b', 'c', 'c']);
  });
});
