import { expect, it } from 'vitest';
import { z } from 'zod';
import { run, type Serializer, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate, overTime, tamper } from '../support/faults.js';
import { talkCounts } from '../support/messaging.js';

describeBackends('sending', (backend) => {
  const numbers = topic<number>('numbers');
  const collect = workflow('collect', async (count: number) => {
    const got: unknown[] = [];
    while (got.length < count) got.push(await numbers.receive({ timeout: '1s' }));
    return got;
  });

  it('with an idempotencyKey delivers once per recipient, from outside, from workflows and in a batch', async () => {
    const sender = workflow('sender', async () => {
      await numbers.send('a', 1, { idempotencyKey: 'k' });
      await numbers.sendAll(['a', 'b'].map((to) => ({ to, value: 2, idempotencyKey: 'k' })));
    });
    const t = await backend.testApp({ workflows: [collect, sender] });
    const handles = await Promise.all(['a', 'b'].map((id) => collect.with({ id }).start(2)));
    await numbers.send('a', 0, { idempotencyKey: 'k' });
    await Promise.all([1, 2].map((n) => numbers.send('a', n, { idempotencyKey: 'k' })));
    await sender();
    const got = await t.clock.runUntil(Promise.all(handles.map((handle) => handle.result())));
    expect(got).toEqual([
      [0, undefined],
      [2, undefined],
    ]);
  });

  it('with the same idempotencyKey after the first message was received sends nothing', async () => {
    const t = await backend.testApp({ workflows: [collect] });
    const handle = await collect.start(2);
    await numbers.send(handle.id, 1, { idempotencyKey: 'k' });
    await t.clock.advance(0);
    await numbers.send(handle.id, 2, { idempotencyKey: 'k' });
    expect(await t.clock.runUntil(handle.result())).toEqual([1, undefined]);
  });

  it('reaches both recipients when keys and IDs join to the same text', async () => {
    const t = await backend.testApp({ workflows: [collect] });
    const pairs = [
      { to: 'b', idempotencyKey: 'k::a' },
      { to: 'a::b', idempotencyKey: 'k' },
      { to: ':b', idempotencyKey: 'c' },
      { to: 'b2', idempotencyKey: 'c:' },
    ];
    const handles = await Promise.all(pairs.map(({ to }) => collect.with({ id: to }).start(1)));
    await numbers.sendAll(pairs.map((pair, value) => ({ ...pair, value })));
    const got = await t.clock.runUntil(Promise.all(handles.map((handle) => handle.result())));
    expect(got).toEqual([[0], [1], [2], [3]]);
  });

  it('to a missing workflow fails, and a replay repeats the error even if the workflow exists by then', async () => {
    const hold = gate();
    const sender = workflow('sender', async () => {
      const problem = await numbers.send('later', 1).catch((error) => `${error.code}: ${error.message}`);
      await run('hold', () => hold.promise);
      return problem;
    });
    const t = await backend.testApp({ workflows: [sender, collect] });
    expect(await failure(numbers.send('later', 1))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    const { id } = await sender.start();
    await t.clock.advance(0);
    const receiving = await collect.with({ id: 'later' }).start(1);
    await t.clock.advance(0);
    const again = await t.restart();
    hold.open();
    const result = await again.app.workflows.handle<string>(id).result();
    expect(result).toMatch(/^WORKFLOW_NOT_FOUND: .*"later"/);
    const received = again.app.workflows.handle(receiving.id).result();
    expect(await again.clock.runUntil(received)).toEqual([undefined]);
  });

  it('several messages delivers none of them if one recipient is missing, also from a workflow', async () => {
    const letters = ['there', 'nobody', 'there'].map((to, value) => ({ to, value }));
    const sender = workflow('sender', () => numbers.sendAll(letters));
    const t = await backend.testApp({ workflows: [sender, collect] });
    const handle = await collect.with({ id: 'there' }).start(1);
    for (const call of [() => numbers.sendAll(letters), () => sender()]) {
      const error = await failure(call());
      expect(error).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
      expect(error.message).toContain('Nothing was sent');
    }
    expect(await t.clock.runUntil(handle.result())).toEqual([undefined]);
    expect(await t.app.workflows.messages('there')).toEqual([]);
  });

  it('an empty list does nothing', async () => {
    const sender = workflow('sender', () => numbers.sendAll([]));
    await backend.testApp({ workflows: [sender] });
    await numbers.sendAll([]);
    expect(await sender()).toBeUndefined();
  });

  it('to an ended workflow stores the message, which is never received', async () => {
    const done = workflow('done', async () => 'done');
    const sender = workflow('sender', (to: string) => numbers.send(to, 2));
    const t = await backend.testApp({ workflows: [done, sender] });
    const handle = await done.start();
    await handle.result();
    await numbers.send(handle.id, 1);
    await sender(handle.id);
    expect(await t.app.workflows.messages(handle.id)).toMatchObject([
      { message: 1, consumed: false },
      { message: 2, consumed: false },
    ]);
    expect(await handle.result()).toBe('done');
  });

  it('from a step delivers at once, and again in each attempt unless the message has a key', async () => {
    let attempts = 0;
    const sender = workflow('sender', (to: string) =>
      run(
        'send',
        async () => {
          await numbers.send(to, 1);
          await numbers.send(to, 2, { idempotencyKey: 'once' });
          if (++attempts < 3) throw new Error('again');
        },
        { retries: { max: 2, initial: 1 } },
      ),
    );
    const t = await backend.testApp({ workflows: [collect, sender] });
    const handle = await collect.start(5);
    await t.clock.runUntil(sender(handle.id));
    expect(await t.clock.runUntil(handle.result())).toEqual([1, 2, 1, 1, undefined]);
  });

  it('from a step continues while the app drains', async () => {
    const hold = gate();
    const sender = workflow('sender', (to: string) =>
      run('send', async () => {
        await hold.promise;
        await numbers.send(to, 1);
        await numbers.sendAll([to, to].map((each) => ({ to: each, value: 2 })));
        return 'sent';
      }),
    );
    const done = workflow('done', async () => {});
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [sender, done], database });
    const { id } = await done.start();
    const handle = await sender.start(id);
    const result = handle.result();
    await t.clock.advance(0);
    const closing = t.app.shutdown({ drain: '30s' });
    expect(await failure(Promise.resolve().then(() => numbers.send(id, 3)))).toMatchObject({ code: 'APP_CLOSED' });
    hold.open();
    await overTime(t.clock, closing, 10);
    expect(await result).toBe('sent');
    expect(await tamper(database, 'select 1 from notifications')).toHaveLength(3);
  });

  it('refuses a value that does not fit the schema of the topic, before anything is written', async () => {
    const orders = topic('orders', { schema: z.object({ id: z.string(), quantity: z.coerce.number().min(1) }) });
    const takes = workflow('takes', () => orders.receive({ timeout: '1s' }));
    const sender = workflow('sender', (to: string) => orders.send(to, { id: 'x', quantity: 0 }));
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [takes, sender], database });
    const handle = await takes.start();
    const before = await talkCounts(database);
    for (const call of [
      () => orders.send(handle.id, { id: 7 } as never),
      () =>
        orders.sendAll([
          { to: handle.id, value: { id: 'x', quantity: 1 } },
          { to: handle.id, value: null as never },
        ]),
      () => sender(handle.id),
    ]) {
      expect(await failure(call())).toMatchObject({ code: 'INVALID_INPUT', details: { issues: expect.any(Array) } });
    }
    expect(await talkCounts(database)).toEqual(before);
    await orders.send(handle.id, { id: 'x', quantity: '3' });
    expect(await t.clock.runUntil(handle.result())).toEqual({ id: 'x', quantity: 3 });
  });

  it.each(['from a workflow', 'in a step', 'outside'])(
    'keeps the order of the calls, however long the schema and the serializer take for each value, %s',
    async (place) => {
      const checked = topic('checked', { schema: z.number().transform(slowWithEven()) });
      const slow = slowWithEven();
      const serializer: Serializer = {
        name: 'slow',
        stringify: async (value) => {
          if (typeof value === 'number') await slow(value);
          return JSON.stringify({ value });
        },
        parse: (text) => (JSON.parse(text) as { value: unknown }).value,
      };
      const takes = workflow('takes', async () => {
        const got: unknown[] = [];
        for (let i = 0; i < 10; i++) got.push(await checked.receive(), await numbers.receive());
        return got;
      });
      const sendEach = async (to: string) => {
        const all = Array.from({ length: 10 }, (_, i) => i);
        await Promise.all(all.flatMap((i) => [checked.send(to, i), numbers.send(to, i)]));
      };
      const sender = workflow('sender', async (to: string, inStep: boolean) =>
        inStep ? run('send', () => sendEach(to)) : sendEach(to),
      );
      await backend.testApp({ workflows: [takes, sender], serializer });
      const handle = await takes.start();
      await (place === 'outside' ? sendEach(handle.id) : sender(handle.id, place === 'in a step'));
      expect(await handle.result()).toEqual(Array.from({ length: 20 }, (_, i) => i >> 1));
    },
  );

  it('waits for an earlier message with a slow schema, even if that message is then refused', async () => {
    const hold = gate();
    const schema = z.number().refine(async (n) => hold.promise.then(() => n !== 2));
    const checked = topic('numbers', { schema });
    const takes = workflow('takes', async () => {
      const got: unknown[] = [];
      while (got.length < 4) got.push(await numbers.receive());
      return got;
    });
    await backend.testApp({ workflows: [takes] });
    const { id, result } = await takes.start();
    const several = [3, 4].map((value) => ({ to: id, value }));
    const calls = [checked.send(id, 1), checked.send(id, 2), checked.sendAll(several), numbers.send(id, 5)];
    hold.open();
    const settled = await Promise.allSettled(calls);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
    expect(await result()).toEqual([1, 3, 4, 5]);
  });

  it.each(['outside', 'in a step'])(
    'keeps the order of send() and sendAll() calls that do not wait for each other, %s',
    async (place) => {
      const takes = workflow('takes', async () => {
        const got: unknown[] = [];
        while (got.length < 9) got.push(await numbers.receive());
        return got;
      });
      const sendEach = async (to: string) => {
        const several = (...values: number[]) => numbers.sendAll(values.map((value) => ({ to, value })));
        const calls = [
          numbers.send(to, 1),
          several(2, 3),
          numbers.send(to, 4),
          numbers.send(to, 5),
          several(6, 7),
          several(8),
        ];
        await Promise.all([...calls, numbers.send(to, 9)]);
      };
      const sender = workflow('sender', (to: string) => run('send', () => sendEach(to)));
      await backend.testApp({ workflows: [takes, sender] });
      const handle = await takes.start();
      await (place === 'outside' ? sendEach(handle.id) : sender(handle.id));
      expect(await handle.result()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    },
  );

  it('a batch with a missing recipient delivers none of it, but other messages of the same moment arrive', async () => {
    const takes = workflow('takes', async () => [await numbers.receive(), await numbers.receive()]);
    await backend.testApp({ workflows: [takes] });
    const { id, result } = await takes.start();
    const lost = numbers.sendAll([
      { to: id, value: 2 },
      { to: 'nobody', value: 3 },
    ]);
    const calls = [numbers.send(id, 1), lost, numbers.send('nobody', 4), numbers.send(id, 5)];
    const settled = await Promise.allSettled(calls);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled']);
    expect(await result()).toEqual([1, 5]);
  });

  it('stores the value as it was at the call, even if the value changes afterwards', async () => {
    const lists = topic<number[]>('lists');
    const takes = workflow('takes', () => lists.receive());
    const sender = workflow('sender', async (to: string) => {
      const list = [1];
      const sending = lists.send(to, list);
      list.push(2);
      await sending;
    });
    await backend.testApp({ workflows: [takes, sender] });
    const handle = await takes.start();
    await sender(handle.id);
    expect(await handle.result()).toEqual([1]);
  });

  it('a value that cannot be stored fails and writes nothing except, in a workflow, that error', async () => {
    const things = topic<unknown>('things');
    const sender = workflow('sender', async (to: string) => things.send(to, () => {}).catch((error) => error.code));
    const takes = workflow('takes', () => things.receive({ timeout: '1s' }));
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [sender, takes], database });
    const { id } = await takes.start();
    const before = await talkCounts(database);
    expect(await failure(things.send(id, Symbol('x')))).toMatchObject({ code: 'UNSERIALIZABLE' });
    expect(
      await failure(
        things.sendAll([
          { to: id, value: 1 },
          { to: id, value: () => {} },
        ]),
      ),
    ).toMatchObject({
      code: 'UNSERIALIZABLE',
    });
    expect(await sender(id)).toBe('UNSERIALIZABLE');
    expect(await talkCounts(database)).toEqual(before);
    await t.clock.advance(0);
  });
});

/** Finishes an even number only after the odd number that follows it has arrived. */
function slowWithEven(): (n: number) => Promise<number> {
  const had = Array.from({ length: 10 }, () => gate());
  return async (n) => {
    had[n]?.open();
    if (n % 2 === 0) await had[n + 1]?.promise;
    return n;
  };
}
