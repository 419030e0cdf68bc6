import { expect, it } from 'vitest';
import { connect, context, event, queue, run, sleep, stream, topic, transaction, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, gate, isSettled, tamper } from '../support/faults.js';
import { counter, openUserData } from '../support/user-data.js';

// What of a workflow goes into its fork, and what does not.
describeBackends('what a fork takes over', (backend) => {
  it('is the order in which concurrent steps completed', async () => {
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

  it('are the children that are on record; later ones have IDs of the fork', async () => {
    const ran: string[] = [];
    const child = workflow('child', async (name: string) => {
      ran.push(name);
      return `${name} by ${context().workflowId}`;
    });
    const parent = workflow('parent', async () => [await child('first'), await child('second')]);
    const t = await backend.testApp({ workflows: [parent, child] });
    await parent.with({ id: 'x' })();
    // Step 0 starts the first, 1 waits for it; 2 and 3 are those of the second.
    const fork = await t.app.workflows.fork('x', { fromStep: 1, id: 'f' });
    expect(await fork.result()).toEqual(['first by x-0', 'second by f-2']);
    expect(ran).toEqual(['first', 'second', 'second']);
    expect(await t.app.workflows.get('f-2')).toMatchObject({ parentWorkflowId: 'f' });
    expect(await fork.status()).toMatchObject({ parentWorkflowId: undefined });
    await child.with({ id: 'other' })('other');
    const replaced = await t.app.workflows.fork('x', { fromStep: 3, replaceChildren: { 'x-2': 'other' } });
    expect(await replaced.result()).toEqual(['first by x-0', 'other by other']);
  });

  it('is when a sleep ends, also if it has not ended yet', async () => {
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

  it("is what it received, and none of the messages: those are the original's", async () => {
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
    // Each receive is a step and the timer beside it.
    const fork = await t.app.workflows.fork('x', { fromStep: 2, id: 'f' });
    const result = fork.result();
    await t.clock.advance('1m');
    expect(await isSettled(t.clock, result)).toBe(false);
    await letters.send('f', 'three');
    expect(await result).toEqual(['one', 'three']);
    expect(await t.app.workflows.messages('x')).toHaveLength(2);
  });

  it('is until when an open receive waits: instants do not move', async () => {
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

  it('are events and streams as they were at that step, without gaps', async () => {
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
    // Two branches wrote in turns: the places of the branch that is left are closed up.
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

  it('are transactions on record, with another database too: those beyond are made anew', async () => {
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

  it('is on whose behalf it runs, and what it was given; its time begins anew', async () => {
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

  it('goes to the queue, the version and the place in it that are asked for, also by a client', async () => {
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
