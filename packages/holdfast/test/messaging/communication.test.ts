import { afterEach, expect, it } from 'vitest';
import { type Client, connect, event, run, stream, topic, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, gate, tamper } from '../support/faults.js';
import { readAll, talkCounts } from '../support/messaging.js';

describeBackends('communication with a workflow', (backend) => {
  const numbers = topic<number>('numbers');
  const progress = event<string>('progress');
  const lines = stream<string>('lines');
  const talks = workflow('talks', async () => {
    await progress.set('waits');
    await lines.write('begun');
    const got = await numbers.receive({ timeout: '1h' });
    await lines.write(`got ${got}`);
    await progress.set('done');
    return got;
  });
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });
  const connected = async (database: string): Promise<Client> => {
    const client = await connect({ database, logger: silent });
    clients.push(client);
    return client;
  };

  it('works from a client with { app: client }: messages, events, streams and lists of them', async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [talks], database });
    const app = await connected(database);
    const handle = await talks.with({ id: 'x' }).start();
    expect(await progress.get('x', { app })).toBe('waits');
    const reading = readAll(lines.read('x', { app }));
    await numbers.send('x', 7, { app, idempotencyKey: 'k' });
    await numbers.sendAll([{ to: 'x', value: 8 }], { app });
    expect(await handle.result()).toBe(7);
    expect(await reading).toEqual(['begun', 'got 7']);
    expect(await failure(numbers.send('nobody', 1, { app }))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    for (const { workflows } of [app, t.app]) {
      expect(await workflows.events('x')).toEqual({ progress: 'done' });
      expect(await workflows.streams('x')).toEqual({ lines: ['begun', 'got 7'] });
      expect(await workflows.messages('x')).toEqual([
        { topic: 'numbers', message: 7, sentAt: expect.any(Number), consumed: true },
        { topic: 'numbers', message: 8, sentAt: expect.any(Number), consumed: false },
      ]);
    }
  });

  it('fails if the client is closed', async () => {
    const database = await backend.newDatabase();
    const app = await connect({ database, logger: silent });
    const waiting = failure(progress.get('x', { app }));
    await app.close();
    expect(await waiting).toMatchObject({ code: 'APP_CLOSED' });
    for (const call of [
      () => numbers.send('x', 1, { app }),
      () => numbers.sendAll([{ to: 'x', value: 1 }], { app }),
      () => progress.get('x', { app }),
      async () => lines.read('x', { app }),
    ]) {
      expect(await failure(call())).toMatchObject({ code: 'APP_CLOSED' });
    }
  });

  it('without { app } uses the only app of the process, and fails if there is none or two', async () => {
    const calls = [
      () => numbers.send('x', 1),
      () => numbers.sendAll([{ to: 'x', value: 1 }]),
      () => progress.get('x', { timeout: 0 }),
      async () => lines.read('x'),
    ];
    const message = expect.stringMatching(/no app runs in this process\. Call launch\(\) first/);
    for (const call of calls) expect(await failure(call())).toMatchObject({ code: 'NOT_LAUNCHED', message });
    const one = await backend.testApp({ workflows: [talks] });
    await talks.with({ id: 'x' }).start();
    await numbers.send('x', 1);
    const two = await backend.testApp({ executorId: 'two' });
    for (const call of calls) {
      const error = await failure(call());
      expect(error).toMatchObject({ code: 'AMBIGUOUS_APP' });
      expect(error.message).toContain('{ app }');
    }
    expect(await progress.get('x', { app: one.app })).toBeDefined();
    expect(await failure(numbers.send('x', 1, { app: two.app }))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    await two.app.shutdown();
    await numbers.send('x', 2);
  });

  it('in a workflow uses its own app; sending to another app is refused outside steps', async () => {
    const [first, second] = [await backend.newDatabase(), await backend.newDatabase()];
    const sends = workflow('sends', async () => {
      await numbers.send('x', 1);
      const other = await Promise.resolve()
        .then(() => numbers.send('x', 2, { app: two.app }))
        .catch((error) => error.code);
      await run('in a step', () => numbers.send('x', 3, { app: two.app }));
      return [other, await progress.get('x', { app: two.app })];
    });
    const one = await backend.testApp({ workflows: [sends, talks], database: first });
    const two = await backend.testApp({ workflows: [talks], database: second, executorId: 'two' });
    for (const { app } of [one, two]) await talks.with({ id: 'x', app }).start();
    expect(await sends.with({ app: one.app })()).toEqual(['UNSUPPORTED_CALL', expect.any(String)]);
    const heard = async (app: typeof one.app) => (await app.workflows.messages('x')).map((row) => row.message);
    expect([await heard(one.app), await heard(two.app)]).toEqual([[1], [3]]);
  });

  it('is shown in full by app.workflows, even unreadable values; a silent workflow shows nothing', async () => {
    const database = await backend.newDatabase();
    const many = workflow('many', async () => {
      for (const key of ['b', 'a', '__proto__']) {
        await event(key).set({ key });
        await stream(key).write([key]);
      }
      await stream('closed').close();
    });
    const t = await backend.testApp({ workflows: [many, talks], database });
    await many.with({ id: 'm' })();
    await topic().send('m', 'without a topic');
    const { workflows } = t.app;
    const events = await workflows.events('m');
    expect(Object.entries(events).sort()).toEqual(['__proto__', 'a', 'b'].map((key) => [key, { key }]));
    const streams = await workflows.streams('m');
    expect(Object.entries(streams).sort()).toEqual([
      ['__proto__', [['__proto__']]],
      ['a', [['a']]],
      ['b', [['b']]],
      ['closed', []],
    ]);
    expect(({} as Record<string, unknown>).key).toBeUndefined();
    expect(await workflows.messages('m')).toMatchObject([{ topic: undefined, message: 'without a topic' }]);
    await tamper(database, "update workflow_events set value = '{', serialization = 'js_superjson' where key = 'a'");
    expect(Object.keys(await workflows.events('m')).sort()).toEqual(['__proto__', 'a', 'b']);
    const nothing = [await workflows.events('x'), await workflows.streams('x'), await workflows.messages('x')];
    expect(nothing).toEqual([{}, {}, []]);
    for (const call of [workflows.events, workflows.streams, workflows.messages]) {
      expect(await failure(Promise.resolve().then<unknown>(() => call('')))).toMatchObject({ code: 'INVALID_NAME' });
    }
  });

  it('in a step adds no records of its own to the history', async () => {
    const open = gate();
    const holds = workflow('holds', async () => {
      await progress.set('set');
      await lines.write('written');
      await lines.close();
      await run('hold', () => open.promise);
    });
    const plain = workflow('plain', (id: string) =>
      run('step', async () => [await progress.get(id), await readAll(lines.read(id))]),
    );
    const t = await backend.testApp({ workflows: [holds, plain] });
    const { id } = await holds.start();
    const handle = await plain.start(id);
    expect(await handle.result()).toEqual(['set', ['written']]);
    expect((await t.app.workflows.steps(handle.id)).map((step) => step.name)).toEqual(['step']);
    open.open();
  });

  const anything = (value: unknown) => value as never;
  const badCalls: [string, () => unknown, string][] = [
    ['a topic without a usable name', () => topic(''), 'INVALID_NAME'],
    ['a topic whose name is a number', () => topic(anything(7)), 'INVALID_NAME'],
    ['a topic with a reserved name', () => topic('__null__topic__'), 'INVALID_NAME'],
    ['an event without a key', () => event(''), 'INVALID_NAME'],
    ['a stream without a key', () => stream(anything(undefined)), 'INVALID_NAME'],
    ['an object that is not a schema', () => topic('x', { schema: anything({}) }), 'INVALID_OPTION'],
    ['a schema that is a number', () => topic('x', { schema: anything(5) }), 'INVALID_OPTION'],
    ['a topic with an unknown option', () => topic('x', anything({ shema: 1 })), 'INVALID_OPTION'],
    ['an event in an unknown format', () => event('x', { serialization: anything('xml') }), 'INVALID_OPTION'],
    ['a stream whose options are null', () => stream('x', anything(null)), 'INVALID_OPTION'],
    ['a send without a recipient', () => numbers.send('', 1), 'INVALID_NAME'],
    ['a send to a number', () => numbers.send(anything(1), 1), 'INVALID_NAME'],
    ['a send with NUL in the ID', () => numbers.send('a\0', 1), 'INVALID_NAME'],
    ['a send whose options are null', () => numbers.send('x', 1, anything(null)), 'INVALID_OPTION'],
    ['a misspelled option', () => numbers.send('x', 1, anything({ idempotencykey: 'k' })), 'INVALID_OPTION'],
    ['an empty key', () => numbers.send('x', 1, { idempotencyKey: '' }), 'INVALID_NAME'],
    ['an object that is not an app', () => numbers.send('x', 1, { app: {} }), 'INVALID_OPTION'],
    ['messages that are not a list', () => numbers.sendAll(anything('x')), 'INVALID_OPTION'],
    ['a message that is null', () => numbers.sendAll([anything(null)]), 'INVALID_OPTION'],
    ['a message with a misspelled key', () => numbers.sendAll([anything({ to: 'x', vlaue: 1 })]), 'INVALID_OPTION'],
    ['a message without a recipient', () => numbers.sendAll([anything({ value: 1 })]), 'INVALID_NAME'],
    ['an event without a workflow ID', () => progress.get(''), 'INVALID_NAME'],
    ['a timeout that is not a duration', () => progress.get('x', { timeout: anything('soon') }), 'INVALID_DURATION'],
    ['a negative wait for an event', () => progress.get('x', { timeout: -1 }), 'INVALID_DURATION'],
    ['an unknown option of get', () => progress.get('x', anything({ timout: 1 })), 'INVALID_OPTION'],
    ['a stream without a workflow ID', () => lines.read(''), 'INVALID_NAME'],
    ['a stream from a negative position', () => lines.read('x', { from: -1 }), 'INVALID_OPTION'],
    ['a stream from a fractional position', () => lines.read('x', { from: 0.5 }), 'INVALID_OPTION'],
    ['a stream from a position that is too large', () => lines.read('x', { from: 2 ** 31 }), 'INVALID_OPTION'],
    ['an unknown option of read', () => lines.read('x', anything({ form: 1 })), 'INVALID_OPTION'],
  ];

  it('refuses bad input with a typed error and writes nothing', async () => {
    const database = await backend.newDatabase();
    await backend.testApp({ workflows: [talks], database });
    for (const [what, call, code] of badCalls) {
      expect(await failure(Promise.resolve().then(call)), what).toMatchObject({ code });
    }
    expect(Object.values(await talkCounts(database))).toEqual([0, 0, 0, 0]);
  });

  it('refuses bad timeouts and options of a receive before a step is recorded', async () => {
    const bad = workflow('bad', async (options: unknown) => numbers.receive(anything(options)));
    const t = await backend.testApp({ workflows: [bad] });
    const cases: [unknown, string][] = [
      [{ timeout: -1 }, 'INVALID_DURATION'],
      [{ timeout: Number.NaN }, 'INVALID_DURATION'],
      [{ timout: 1 }, 'INVALID_OPTION'],
      [null, 'INVALID_OPTION'],
    ];
    for (const [options, code] of cases) {
      const handle = await bad.start(options);
      expect(await failure(handle.result())).toMatchObject({ code });
      expect(await t.app.workflows.steps(handle.id)).toEqual([]);
    }
  });
});
