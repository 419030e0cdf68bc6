import { expect, it } from 'vitest';
import { connect, debouncer, queue, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, tamper, thrown } from '../support/faults.js';

/** P8 for queues: bad input is a typed error, and nothing is written. */
describeBackends('bad input for queues', (backend) => {
  const anything = (value: unknown) => value as never;
  const wf = workflow('wf', async (_?: unknown) => 1);
  const largest = 2 ** 31 - 1;

  const badNames: [name: unknown, problem: RegExp][] = [
    ['', /must not be empty/],
    ['   ', /must not be empty/],
    [`it's`, /quote or a control character/],
    ['"; drop table queues; --', /quote or a control character/],
    ['`x`', /quote or a control character/],
    ['two\nlines', /quote or a control character/],
    ['nul\0', /NUL/],
    ['x'.repeat(300), /300 characters long, but at most 255 are allowed/],
    ['half \ud83d', /half a surrogate pair/],
    ['_dbos_internal_queue', /reserved/],
    [7, /must be a string/],
    [null, /must be a string/],
    [undefined, /must be a string/],
    [['q'], /must be a string/],
  ];
  const badLimits = [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, largest + 1, 1e300, '5', true, {}, []];
  const badRates: unknown[] = [
    0,
    false,
    '',
    7,
    '10/s',
    {},
    { max: 1 },
    { per: '1s' },
    { max: 0, per: '1s' },
    { max: -1, per: '1s' },
    { max: 1.5, per: '1s' },
    { max: Number.NaN, per: '1s' },
    { max: largest + 1, per: '1s' },
    { max: '5', per: '1s' },
    { max: 1, per: 0 },
    { max: 1, per: '0s' },
    { max: 1, per: -1 },
    { max: 1, per: Number.NaN },
    { max: 1, per: 'often' },
    { max: 1, per: null },
    { max: 1, per: '1s', burst: 2 },
  ];
  /** Settings that no queue can have; each is wrong in one place. */
  const badSettings: unknown[] = [
    ...['concurrency', 'workerConcurrency'].flatMap((name) => badLimits.map((value) => ({ [name]: value }))),
    ...badRates.map((rateLimit) => ({ rateLimit })),
    ...badLimits.slice(0, 4).map((concurrency) => ({ partition: { concurrency } })),
    ...badRates.slice(0, 12).map((rateLimit) => ({ partition: { rateLimit } })),
    { partition: true },
    { partition: 'tenant' },
    { partition: [] },
    { partition: { priority: true } },
    { priority: 1 },
    { priority: 'yes' },
    { priority: null },
    { whileWaiting: 'wait' },
    { whileWaiting: true },
    { whileWaiting: null },
    { partition: { whileWaiting: 'release' } },
    { concurency: 1 },
  ];
  const typed = { code: expect.stringMatching(/^INVALID_(OPTION|DURATION)$/) };

  /** Everything that a call might have written. */
  const contents = (database: string) =>
    Promise.all([
      tamper(database, 'select * from queues order by name'),
      tamper(database, 'select workflow_uuid, status, priority, delay_until_epoch_ms from workflow_status order by 1'),
    ]);

  it('in a definition is refused before anything is opened', () => {
    for (const [name, problem] of badNames) {
      const error = thrown(() => queue(anything(name)));
      expect(error, String(name)).toMatchObject({ code: 'INVALID_NAME' });
      expect(error.message).toMatch(problem);
    }
    for (const options of badSettings) {
      expect(
        thrown(() => queue('q', anything(options))),
        JSON.stringify(options),
      ).toMatchObject(typed);
    }
    for (const options of [null, 7, 'q', [], { onConflict: 'sometimes' }, { onConflict: true }, { listen: [] }]) {
      expect(thrown(() => queue('q', anything(options)))).toMatchObject({ code: 'INVALID_OPTION' });
    }
    const meant: Record<string, string> = {
      concurency: 'concurrency',
      ratelimit: 'rateLimit',
      partitions: 'partition',
    };
    for (const [given, option] of Object.entries(meant)) {
      expect(thrown(() => queue('q', { [given]: 1 })).message).toContain(`Did you mean "${option}"?`);
    }
    expect(queue('x'.repeat(255), { concurrency: largest, rateLimit: { max: largest, per: 1 } }).name).toHaveLength(
      255,
    );
  });

  it('for launch is refused, and nothing is stored', async () => {
    const database = await backend.newDatabase();
    const before = await contents(database);
    const launch = (options: object) => backend.testApp({ database, workflows: [wf], ...options });
    const cases: object[] = [
      { queues: 'q' },
      { queues: ['q'] },
      { queues: [{ name: 'q' }] },
      { queues: [queue('a'), undefined] },
      { queues: [queue('same'), queue('same', { concurrency: 1 })] },
      { queues: [queue('a')], listen: 'a' },
      { queues: [queue('a')], listen: [7] },
      { queues: [queue('a')], listen: [''] },
    ];
    for (const options of cases) {
      const code = expect.stringMatching(/^INVALID_(OPTION|NAME)$/);
      expect(await failure(launch(options)), JSON.stringify(options)).toMatchObject({ code });
    }
    expect(await contents(database)).toEqual(before);
  });

  it('for register, update, pause, resume, delete and get is refused, by an app and a client', async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, queues: [queue('q', { concurrency: 3 })] });
    const client = await connect({ database, logger: silent });
    const before = await contents(database);
    for (const { queues } of [t.app, client]) {
      for (const [name] of badNames) {
        const calls = [
          () => queues.register(anything(name)),
          () => queues.update(anything(name), { concurrency: 1 }),
          () => queues.pause(anything(name)),
          () => queues.resume(anything(name)),
          () => queues.delete(anything(name)),
          () => queues.get(anything(name)),
        ];
        for (const call of calls) {
          expect(await failure(call()), `${call} ${name}`).toMatchObject({ code: 'INVALID_NAME' });
        }
      }
      for (const options of badSettings) {
        for (const call of [
          () => queues.register('new', anything(options)),
          () => queues.update('q', anything(options)),
        ]) {
          expect(await failure(call()), JSON.stringify(options)).toMatchObject(typed);
        }
      }
      const others = [
        () => queues.update('q', anything({ onConflict: 'always' })),
        () => queues.update('q', anything({ paused: true })),
        () => queues.update('q', anything(null)),
        () => queues.update('q', anything(undefined)),
        () => queues.register(queue('new'), { concurrency: 1 }),
        () => queues.register('new', anything(null)),
      ];
      for (const call of others) {
        expect(await failure(call()), `${call}`).toMatchObject({ code: 'INVALID_OPTION' });
      }
    }
    await client.close();
    expect(await contents(database)).toEqual(before);
  });

  const badStarts: [options: object, code: string][] = [
    ...[{}, 7, null, true, [], { name: 7 }, () => {}].map((given): [object, string] => [
      { queue: given },
      'INVALID_OPTION',
    ]),
    ...badNames
      .filter(([name]) => typeof name === 'string')
      .map(([name]): [object, string] => [{ queue: name }, 'INVALID_NAME']),
    [{ queue: 'unknown' }, 'UNKNOWN_QUEUE'],
    ...[-1, 1.5, Number.NaN, largest + 1, Number.NEGATIVE_INFINITY, '1', null, {}].map((priority): [object, string] => [
      { queue: 'q', priority },
      'INVALID_OPTION',
    ]),
    [{ priority: 1 }, 'INVALID_OPTION'],
    [{ queue: 'strict', priority: 1 }, 'INVALID_OPTION'],
    [{ queue: 'parts' }, 'INVALID_OPTION'],
    [{ queue: 'q', partition: 'a' }, 'INVALID_OPTION'],
    [{ partition: 'a' }, 'INVALID_OPTION'],
    ...['', '  ', 'a\0', 'half \ud83d', 'x'.repeat(600), '漢'.repeat(301), 7, null, {}].flatMap(
      (given): [object, string][] => [
        [{ queue: 'parts', partition: given }, 'INVALID_NAME'],
        [{ queue: 'q', dedupId: given }, 'INVALID_NAME'],
        [{ queue: 'q', version: given }, 'INVALID_NAME'],
        [{ queue: 'q', id: given }, 'INVALID_NAME'],
      ],
    ),
    ...[-1, Number.NaN, Number.POSITIVE_INFINITY, 'soon', '', '5 fortnights', null, {}, true].map(
      (delay): [object, string] => [{ queue: 'q', delay }, 'INVALID_DURATION'],
    ),
    [{ queue: 'q', onDuplicate: 'return-existing' }, 'INVALID_OPTION'],
    [{ queue: 'q', onDuplicate: 'reject' }, 'INVALID_OPTION'],
    [{ queue: 'q', dedupId: 'd', onDuplicate: 'ignore' }, 'INVALID_OPTION'],
    [{ queue: 'q', dedupId: 'd', onDuplicate: null }, 'INVALID_OPTION'],
    [{ queue: 'q', dedupID: 'd' }, 'INVALID_OPTION'],
    [{ queue: 'q', delaySeconds: 5 }, 'INVALID_OPTION'],
  ];

  it('for a start is refused in a single start, a batch, a client and a debouncer', async () => {
    const database = await backend.newDatabase();
    const queues = [queue('q'), queue('parts', { partition: {} }), queue('strict', { priority: false })];
    const t = await backend.testApp({ database, workflows: [wf], queues });
    for (const { name } of queues) await t.app.queues.pause(name);
    const client = await connect({ database, name: 'test', logger: silent });
    const before = await contents(database);
    for (const [options, code] of badStarts) {
      const calls: (() => Promise<unknown>)[] = [
        () => wf.with(anything(options)).start(),
        () => wf.with(anything(options))(),
        () => wf.startAll([[1], [2]], (_, i) => anything(i === 1 ? options : {})),
        () => client.start('wf', anything(options)),
        () => client.startAll('wf', anything(options), [[1]]),
      ];
      // A debouncer sets some of these options itself.
      if (!['id', 'dedupId', 'dedupID', 'onDuplicate', 'delay', 'delaySeconds'].some((option) => option in options)) {
        calls.push(() => debouncer(wf, { start: anything(options) }).debounce('k', '1s', 1));
      }
      for (const call of calls) {
        expect(await failure((async () => call())()), `${JSON.stringify(options)} ${call}`).toMatchObject({ code });
      }
    }
    await client.close();
    expect(await contents(database)).toEqual(before);
  });

  it('for a start throws an error that says what to do instead', async () => {
    await backend.testApp({ workflows: [wf], queues: [queue('emails'), queue('parts', { partition: {} })] });
    const messages: [object, RegExp][] = [
      [{ queue: 'email' }, /There is no queue "email"\. Did you mean "emails"\?.*app\.queues\.register/],
      [{ queue: 'parts' }, /"partition".*queue "parts" is divided into partitions/],
      [{ queue: 'emails', partition: 'a' }, /"partition" must be left out: queue "emails" has no partitions/],
      [{ priority: 1 }, /"priority" must be given with a "queue"/],
      [{ queue: 'emails', prioritie: 1 }, /Did you mean "priority"\?/],
    ];
    for (const [options, message] of messages) {
      expect((await failure((async () => wf.with(options).start())())).message).toMatch(message);
    }
  });

  it('for a debouncer, setPriority and setDelay is refused', async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf], queues: [queue('q')] });
    await wf.with({ queue: 'q', delay: '1h', id: 'delayed', priority: 3 }).start();
    const before = await contents(database);
    const save = debouncer(wf);
    const { setPriority, setDelay } = t.app.workflows;
    const cases: [() => unknown, string][] = [
      [() => debouncer(anything(undefined)), 'INVALID_OPTION'],
      [() => debouncer(anything(() => {})), 'INVALID_OPTION'],
      [() => debouncer(''), 'INVALID_NAME'],
      [() => debouncer(wf, anything({ timout: 1 })), 'INVALID_OPTION'],
      [() => debouncer(wf, anything(null)), 'INVALID_OPTION'],
      [() => debouncer(wf, { timeout: -1 }), 'INVALID_DURATION'],
      [() => debouncer(wf, { timeout: 'soon' }), 'INVALID_DURATION'],
      [() => debouncer(wf, { start: anything({ delay: '1s' }) }), 'INVALID_OPTION'],
      [() => debouncer(wf, { start: anything({ dedupId: 'd' }) }), 'INVALID_OPTION'],
      [() => debouncer(wf, { start: anything({ id: 'x' }) }), 'INVALID_OPTION'],
      [() => debouncer(wf, { app: {} }).debounce('k', '1s'), 'NOT_LAUNCHED'],
      [() => debouncer('wf').debounce('k', '1s'), 'NOT_LAUNCHED'],
      [() => save.debounce('', '1s'), 'INVALID_NAME'],
      [() => save.debounce(anything(7), '1s'), 'INVALID_NAME'],
      [() => save.debounce('a\0', '1s'), 'INVALID_NAME'],
      [() => save.debounce('k', -1), 'INVALID_DURATION'],
      [() => save.debounce('k', anything(undefined)), 'INVALID_DURATION'],
      [() => save.debounce('k', '1s', () => {}), 'UNSERIALIZABLE'],
      ...[-1, 0.5, Number.NaN, largest + 1, '1', null].map((priority): [() => unknown, string] => [
        () => setPriority('delayed', anything(priority)),
        'INVALID_OPTION',
      ]),
      ...[-1, Number.NaN, 'soon', null].map((delay): [() => unknown, string] => [
        () => setDelay('delayed', anything(delay)),
        'INVALID_DURATION',
      ]),
      [() => setPriority('', 1), 'INVALID_NAME'],
      [() => setDelay(anything(7), 1), 'INVALID_NAME'],
    ];
    for (const [call, code] of cases) {
      expect(await failure((async () => call())()), call.toString()).toMatchObject({ code });
    }
    expect(await contents(database)).toEqual(before);
  });
});

describeBackends('a start that the database itself refuses', (backend) => {
  it('fails soon with a typed error in each form, and nothing is written', async () => {
    const wf = workflow('wf', async (_: string) => 1);
    const database = await backend.newDatabase();
    await backend.testApp({ database, workflows: [wf], queues: [queue('q')] });
    const refusal = {
      sqlite: `create trigger refuse before insert on workflow_status when new.inputs like '%refuse%'
        begin select raise(abort, 'not this one'); end`,
      postgres: `alter table workflow_status add constraint refuse check (inputs not like '%refuse%')`,
    };
    await tamper(database, refusal[backend.name]);
    const start = wf.with({ queue: 'q' });
    const calls = [
      () => start.start('refuse'),
      () => start.startAll([['take'], ['refuse']]),
      () => start.startAll([['take'], ['refuse']], (_, i) => ({ dedupId: `${i}` })),
      () => debouncer(wf, { start: { queue: 'q' } }).debounce('k', '1s', 'refuse'),
    ];
    for (const call of calls) expect(await failure(call()), `${call}`).toMatchObject({ code: 'STORAGE_REFUSED' });
    expect(await tamper(database, 'select * from workflow_status')).toEqual([]);
  });
});
