import { expect, it } from 'vitest';
import { event, registerClass, run, stream, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate, tamper } from '../support/faults.js';

// Other files: timeouts in messages-timeouts.test.ts; owners, crashes and cancellation in messages-owners.test.ts;
// senders, keys and schemas in messages-sending.test.ts. The clock stands still here, so polling finds nothing.
describeBackends('messages', (backend) => {
  const numbers = topic<number>('numbers');
  const collect = workflow('collect', async (count: number) => {
    const got: (number | undefined)[] = [];
    while (got.length < count) got.push(await numbers.receive());
    return got;
  });

  it('pass between workflows and outside callers, together with events and streams', async () => {
    const approvals = topic<{ ok: boolean }>('approvals');
    const progress = event<number>('progress');
    const lines = stream<string>('lines');
    const order = workflow('order', async () => {
      await progress.set(10);
      const answer = await approvals.receive();
      await lines.write(`answered ${answer?.ok}`);
      await run('more', async () => {
        await lines.write('from a step');
        await progress.set(50);
      });
      await lines.close();
      return answer;
    });
    await backend.testApp({ workflows: [order] });
    const handle = await order.start();
    expect(await progress.get(handle.id)).toBe(10);
    await approvals.send(handle.id, { ok: true });
    expect(await handle.result()).toEqual({ ok: true });
    const read: string[] = [];
    for await (const line of lines.read(handle.id)) read.push(line);
    expect(read).toEqual(['answered true', 'from a step']);
    expect(await progress.get(handle.id)).toBe(50);
  });

  it('wait for a receive that begins later', async () => {
    const open = gate();
    const late = workflow('late', async () => {
      await run('hold', () => open.promise);
      return [await numbers.receive(), await numbers.receive()];
    });
    const t = await backend.testApp({ workflows: [late] });
    const handle = await late.start();
    await numbers.send(handle.id, 1);
    await numbers.send(handle.id, 2);
    await t.clock.advance(0);
    open.open();
    expect(await handle.result()).toEqual([1, 2]);
  });

  it('wake a waiting receive at once', async () => {
    const t = await backend.testApp({ workflows: [collect] });
    const handle = await collect.start(2);
    await t.clock.advance(0);
    await numbers.send(handle.id, 1);
    await t.clock.advance(0);
    await numbers.send(handle.id, 2);
    expect(await handle.result()).toEqual([1, 2]);
  });

  it('are found by a receive that starts at the very moment they are sent', async () => {
    await backend.testApp({ workflows: [collect] });
    const handles = await Promise.all(Array.from({ length: 50 }, () => collect.start(1)));
    await Promise.all(handles.map(({ id }, i) => numbers.send(id, i)));
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(handles.map((_, i) => [i]));
  });

  it('stay in order when 100 are sent by workflows, from outside and in batches, one after the other', async () => {
    const sender = workflow('sender', async (to: string, first: number) => {
      await Promise.all([0, 1, 2].map((i) => numbers.send(to, first + i)));
      await numbers.sendAll([3, 4].map((i) => ({ to, value: first + i })));
    });
    const open = gate();
    const late = workflow('late', async () => {
      await run('hold', () => open.promise);
      const got: unknown[] = [];
      while (got.length < 100) got.push(await numbers.receive());
      return got;
    });
    await backend.testApp({ workflows: [collect, sender, late] });
    const handles = [await collect.with({ id: 'early' }).start(100), await late.with({ id: 'late' }).start()];
    for (let n = 0; n < 100; n += 10) {
      for (const { id: to } of handles) {
        await sender(to, n);
        await numbers.send(to, n + 5);
        await Promise.all([6, 7].map((i) => numbers.send(to, n + i)));
        await numbers.sendAll([8, 9].map((i) => ({ to, value: n + i })));
      }
    }
    open.open();
    const all = Array.from({ length: 100 }, (_, i) => i);
    for (const handle of handles) expect(await handle.result()).toEqual(all);
  });

  it('go to parallel receives in the order of their calls, one to each', async () => {
    const parallel = workflow('parallel', () => Promise.all(Array.from({ length: 10 }, () => numbers.receive())));
    const t = await backend.testApp({ workflows: [parallel] });
    const [before, during] = [await parallel.with({ id: 'before' }).start(), await parallel.start()];
    await numbers.sendAll(Array.from({ length: 10 }, (_, i) => ({ to: before.id, value: i })));
    await t.clock.advance(0);
    for (let i = 0; i < 10; i++) {
      await numbers.send(during.id, i);
      if (i % 3 === 0) await t.clock.advance(0);
    }
    const all = Array.from({ length: 10 }, (_, i) => i);
    expect(await before.result()).toEqual(all);
    expect(await during.result()).toEqual(all);
    const rows = await t.app.workflows.messages(during.id);
    expect(rows.every((row) => row.consumed)).toBe(true);
  });

  it('of different topics, or without a topic, do not mix', async () => {
    const [a, b, none] = [topic<string>('a'), topic<string>('b'), topic<string>()];
    const mixed = workflow('mixed', async () => [await b.receive(), await none.receive(), await a.receive()]);
    await backend.testApp({ workflows: [mixed] });
    const handle = await mixed.start();
    await a.send(handle.id, 'for a');
    await none.send(handle.id, 'for none');
    await b.send(handle.id, 'for b');
    expect(await handle.result()).toEqual(['for b', 'for none', 'for a']);
  });

  it('do not mix when the IDs and topics of two workflows join to the same text', async () => {
    const first = topic<string>('c');
    const second = topic<string>('b::c');
    const one = workflow('one', async () => first.receive());
    const two = workflow('two', async () => second.receive());
    const t = await backend.testApp({ workflows: [one, two] });
    const handles = [await one.with({ id: 'a::b' }).start(), await two.with({ id: 'a' }).start()] as const;
    await t.clock.advance(0);
    await second.send('a', 'to a');
    expect(await handles[1].result()).toBe('to a');
    await first.send('a::b', 'to a::b');
    expect(await handles[0].result()).toBe('to a::b');
  });

  it('carry every value that can be stored', async () => {
    class Money {
      constructor(readonly cents: number) {}
    }
    registerClass(Money, { name: `Money ${backend.name}` });
    const values = [undefined, null, 0, '', new Date(7), new Map([['k', new Set([1])]]), [1n], { a: { b: [null] } }];
    const anything = topic<unknown>('anything');
    const all = workflow('all', async () => {
      const got: unknown[] = [];
      for (let i = 0; i <= values.length; i++) got.push(await anything.receive());
      return got.map((value) => (value instanceof Money ? `${value.cents} cents` : value));
    });
    await backend.testApp({ workflows: [all] });
    const handle = await all.start();
    for (const value of [...values, new Money(3)]) await anything.send(handle.id, value);
    expect(await handle.result()).toEqual([...values, '3 cents']);
  });

  it('fail the receive if they cannot be read, are consumed, and do not block the next message', async () => {
    const reads = workflow('reads', async () => {
      const problem = await numbers.receive().catch((error) => error.code);
      return [problem, await numbers.receive()];
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [reads], database });
    const handle = await reads.with({ id: 'r' }).start();
    await t.clock.advance(0);
    const columns = 'message_uuid, destination_uuid, topic, message, serialization';
    await tamper(
      database,
      `insert into notifications (${columns}) values ('m', 'r', 'numbers', 'not JSON', 'js_superjson')`,
    );
    await numbers.send('r', 2);
    expect(await handle.result()).toEqual(['UNREADABLE_VALUE', 2]);
    expect((await t.app.workflows.messages('r')).map((row) => row.consumed)).toEqual([true, true]);
  });

  it('cannot be received outside a workflow or in a step', async () => {
    const inStep = workflow('in-step', () => run('step', () => numbers.receive()));
    await backend.testApp({ workflows: [inStep] });
    await expect(async () => numbers.receive()).rejects.toMatchObject({ code: 'NOT_IN_WORKFLOW' });
    expect(await failure(inStep())).toMatchObject({ code: 'UNSUPPORTED_CALL' });
  });

  it('stay in the table after they are received, marked as consumed', async () => {
    const database = await backend.newDatabase();
    await backend.testApp({ workflows: [collect], database });
    const handle = await collect.start(2);
    for (const n of [1, 2, 3]) await numbers.send(handle.id, n);
    await handle.result();
    const rows = await tamper(
      database,
      'select consumed from notifications order by created_at_epoch_ms, consumed desc',
    );
    expect(rows.map((row) => Boolean(row.consumed))).toEqual([true, true, false]);
  });
});
