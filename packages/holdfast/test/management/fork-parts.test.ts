import { expect, it } from 'vitest';
import { connect, context, event, queue, run, sleep, stream, topic, transaction, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, gate, isSettled, tamper } from '../support/faults.js';
import { counter, openUserData } from '../support/user-data.js';

// The parts of a workflow that its fork gets, and those that it does not get.
describeBackends('a fork of a workflow', (backend) => {
  it('takes over the order in which concurrent steps completed', async () => {
    const slow = gate();
    const wf = workflow('wf', async () => {
      const order: string[] = [];
      const branch = async (name: string, body: () => unknown) => {
        await run(name, body);
        order.push(name);
        await run(`${name} 2`, () => slow.open());
      };
      await Promise.all([branch('slow', () => slow.promise), branch('fast', () => 0)]);
      await run('end', () => 0);
      return order;
    });
    const t = await backend.testApp({ workflows: [wf] });
    expect(await wf.with({ id: 'x' })()).toEqual(['fast', 'slow']);
    const count = (await t.app.workflows.steps('x')).length;
    for (let fromStep = 2; fromStep <= count; fromStep++) {
      const fork = await t.app.workflows.fork('x', { fromStep });
      expect(await fork.result()).toEqual(['fast', 'slow']);
      expect(await t.app.workflows.steps(fork.id)).toHaveLength(count);
    }
  });

  it('takes over recorded children; later children have IDs of the fork', async () => {
    const ran: string[] = [];
    const child = workflow('child', async (name: string) => {
      ran.push(name);
      return `${name} by ${context().workflowId}`;
    });
    const parent = workflow('parent', async () => [await child('first'), await child('second')]);
    const t = await backend.testApp({ workflows: [parent, child] });
    await parent.with({ id: 'x' })();
    // Step 0 starts the first child, and step 1 waits for it. Steps 2 and 3 belong to the second child.
    const fork = await t.app.workflows.fork('x', { fromStep: 1, id: 'f' });
    expect(await fork.result()).toEqual(['first by x-0', 'second by f-2']);
    expect(ran).toEqual(['first', 'second', 'second']);
    expect(await t.app.workflows.get('f-2')).toMatchObject({ parentWorkflowId: 'f' });
    expect(await fork.status()).toMatchObject({ parentWorkflowId: undefined });
    await child.with({ id: 'other' })('other');
    const replaced = await t.app.workflows.fork('x', { fromStep: 3, replaceChildren: { 'x-2': 'other' } });
    expect(await replaced.result()).toEqual(['first by x-0', 'other by other']);
  });

  it('takes over the end of a sleep, even if the sleep has not ended yet', async () => {
    const wf = workflow('wf', async () => {
      await run('a', () => 0);
      await sleep('1h');
      return run('b', () => 'awake');
    });
    const t = await backend.testApp({ workflows: [wf] });
    await wf.with({ id: 'x' }).start();
    await t.clock.advance('30m');
    const asleep = await t.app.workflows.fork('x', { fromStep: 2 });
    const anew = await t.app.workflows.fork('x', { fromStep: 1 });
    const [first, second] = [asleep.result(), anew.result()];
    await t.clock.advance('29m');
    expect(await isSettled(t.clock, first)).toBe(false);
    await t.clock.advance('1m');
    expect(await first).toBe('awake');
    expect(await isSettled(t.clock, second)).toBe(false);
    await t.clock.advance('30m');
    expect(await second).toBe('awake');
  });

  it('takes over what was received, but not the messages, which stay with the original', async () => {
    const letters = topic<string>('letters');
    const wf = workflow('wf', async () => {
      const first = await letters.receive({ timeout: '1h' });
      return [first, await letters.receive({ timeout: '1h' })];
    });
    const t = await backend.testApp({ workflows: [wf] });
    const original = await wf.with({ id: 'x' }).start();
    await letters.send('x', 'one');
    await t.clock.advance('1m');
    await letters.send('x', 'two');
    expect(await original.result()).toEqual(['one', 'two']);
    // Each receive is a step, with its timer as the next step.
    const fork = await t.app.workflows.fork('x', { fromStep: 2, id: 'f' });
    const result = fork.result();
    await t.clock.advance('1m');
    expect(await isSettled(t.clock, result)).toBe(false);
    await letters.send('f', 'three');
    expect(await result).toEqual(['one', 'three']);
    expect(await t.app.workflows.messages('x')).toHaveLength(2);
  });

  it('takes over the deadline of an open receive, because instants do not move', async () => {
    const letters = topic<string>('letters');
    const wf = workflow('wf', async () => (await letters.receive({ timeout: '1h' })) ?? 'nothing');
    const t = await backend.testApp({ workflows: [wf] });
    const original = await wf.with({ id: 'x' }).start();
    await t.clock.advance('30m');
    await original.cancel();
    const recorded = await t.app.workflows.steps('x');
    const fork = await t.app.workflows.fork('x', { fromStep: recorded.length === 0 ? 0 : 2 });
    const result = fork.result();
    await t.clock.advance('29m');
    expect(await isSettled(t.clock, result)).toBe(false);
    await t.clock.advance('1m');
    expect(await result).toBe('nothing');
  });

  it('takes over events and streams as they were at that step, without gaps', async () => {
    const progress = event<number>('progress');
    const log = stream<string>('log');
    const held = gate();
    let isFork = false;
    const wf = workflow('wf', async () => {
      await progress.set(1);
      await log.write('one');
      await progress.set(2);
      await log.write('two');
      if (isFork) await run('hold', () => held.promise);
      await progress.set(3);
      await log.write('three');
      await log.close();
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf] });
    await wf.with({ id: 'x' })();
    isFork = true;
    const at = async (fromStep: number) => {
      const { id } = await t.app.workflows.fork('x', { fromStep, delay: '1h' });
      return [await t.app.workflows.events(id), await t.app.workflows.streams(id)];
    };
    expect(await at(0)).toEqual([{}, {}]);
    expect(await at(1)).toEqual([{ progress: 1 }, {}]);
    expect(await at(2)).toEqual([{ progress: 1 }, { log: ['one'] }]);
    expect(await at(3)).toEqual([{ progress: 2 }, { log: ['one'] }]);
    expect(await at(7)).toEqual([{ progress: 3 }, { log: ['one', 'two', 'three'] }]);
    expect(await t.app.workflows.events('x')).toEqual({ progress: 3 });
    // Two branches wrote alternately. The remaining values of one branch move together and leave no gaps.
    await tamper(database, `update streams set function_id = 9 where workflow_uuid = 'x' and "offset" = 0`);
    const fork = await t.app.workflows.fork('x', { fromStep: 4, id: 'f' });
    const read: string[] = [];
    const reading = (async () => {
      for await (const each of log.read('f')) read.push(each);
    })();
    held.open();
    await t.clock.runUntil(fork.result());
    await t.clock.runUntil(reading);
    expect(read).toEqual(['two', 'three']);
    const places = await tamper(database, `select "offset" as place from streams where workflow_uuid = 'f' order by 1`);
    expect(places.map(({ place }) => Number(place))).toEqual([0, 1, 2]);
  });

  it('takes over recorded transactions, with another database too, and runs the later ones again', async () => {
    const data = await openUserData(backend, plainest[backend.name]);
    const add = transaction(data.datasource, 'add', async (tx, id: string) => {
      await data.add(tx, id, 1);
      return data.read(tx, id);
    });
    const wf = workflow('wf', async () => [await add('a'), await add('b')]);
    const t = await backend.testApp({ workflows: [wf] });
    await wf.with({ id: 'x' })();
    expect(await (await t.app.workflows.fork('x', { fromStep: 1 })).result()).toEqual([1, 2]);
    expect([await counter(data.url, 'a'), await counter(data.url, 'b')]).toEqual([1, 2]);
  });

  it('takes over user, roles and attributes, and its timeout starts again', async () => {
    const wf = workflow(
      'wf',
      async () => {
        await sleep('1h');
        return [context().user, context().roles];
      },
      { requireRole: ['admin'] },
    );
    const t = await backend.testApp({ workflows: [wf] });
    const options = { id: 'x', user: 'ada', roles: ['admin'], attributes: { tenant: 7 }, timeout: '2h' };
    const original = await wf.with(options).start();
    await t.clock.advance('3h');
    expect(await original.result()).toEqual(['ada', ['admin']]);
    const fork = await t.app.workflows.fork('x');
    const untimed = await t.app.workflows.fork('x', { timeout: null });
    const short = await t.app.workflows.fork('x', { timeout: '1m' });
    await t.clock.advance('5m');
    const startedAt = t.clock.now() - 300_000;
    expect(await fork.status()).toMatchObject({
      ...{ user: 'ada', roles: ['admin'], assumedRole: 'admin', attributes: { tenant: 7 } },
      ...{ timeoutMs: 7_200_000, deadlineAt: startedAt + 7_200_000, createdAt: startedAt },
    });
    expect(await untimed.status()).toMatchObject({ timeoutMs: undefined, deadlineAt: undefined });
    expect(await failure(short.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(await t.clock.runUntil(fork.result())).toEqual(['ada', ['admin']]);
  });

  it('goes to the requested queue, version and place in the queue, also from a client', async () => {
    const wf = workflow('wf', async () => run('a', () => 'done'));
    const jobs = queue('jobs');
    const parts = queue('parts', { partition: { concurrency: 1 } });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf], queues: [jobs, parts], listen: [] });
    await wf.with({ id: 'x' })();
    const client = await connect({ database, name: 'test', logger: silent });
    try {
      await t.app.workflows.fork('x', {
        fromStep: 1,
        id: 'a',
        queue: 'jobs',
        priority: 3,
        version: 'v9',
        delay: '1h',
      });
      await client.workflows.fork('x', { id: 'b', queue: 'parts', partition: 'p' });
      expect(await failure(client.workflows.fork('x', { queue: 'parts' }))).toMatchObject({ code: 'INVALID_OPTION' });
      expect(await client.workflows.fork('x', { id: 'b' })).toMatchObject({ id: 'b' });
      const [version] = (await t.app.versions.list()).map(({ name }) => name);
      expect(await client.workflows.get('a')).toMatchObject({
        ...{ status: 'DELAYED', queueName: 'jobs', priority: 3, version: 'v9', appName: 'test' },
      });
      expect(await client.workflows.get('b')).toMatchObject({
        ...{ status: 'ENQUEUED', queueName: 'parts', partition: 'p', version },
      });
    } finally {
      await client.close();
    }
  });
});
