import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import { connect, launch, queue, run, schedule, sleep, step, topic, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, thrown } from '../support/faults.js';

// P8. Bad input is a typed error, before any side effect, and breaks no other workflow.
// Databases: p8-bad-database.test.ts; values that cannot be stored: values.test.ts; schemas: schemas.test.ts.
describeBackends('P8 bad input', (backend) => {
  const anything = (value: unknown) => value as never;
  const wf = workflow('checkout', async () => 1);

  it('names the option that was probably meant, in calls from launch to shutdown', async () => {
    const t = await backend.testApp({ workflows: [wf] });
    const url = await backend.newDatabase();
    const errors = [
      await failure(launch({ name: 'x', databse: url } as never)),
      thrown(() => workflow('x', async () => 1, { timeuot: '1s' } as never)),
      thrown(() => step('x', () => 1, { retrys: 3 } as never)),
      thrown(() => step('x', () => 1, { retries: { max: 1, maxdelay: 3 } } as never)),
      thrown(() => wf.with({ idd: 'x' } as never)),
      await failure(t.app.workflows.list({ stats: 'ERROR' } as never)),
      await failure(t.app.workflows.handle('x').result({ timout: 1 } as never)),
      await failure(t.app.shutdown({ drian: 1 } as never)),
    ];
    const meant = ['database', 'timeout', 'retries', 'maxDelay', 'id', 'status', 'timeout', 'drain'];
    for (const [n, error] of errors.entries()) {
      expect(error).toMatchObject({ code: 'INVALID_OPTION' });
      expect(error.message).toContain(`Did you mean "${meant[n]}"?`);
      expect(error.message).toContain('It takes: ');
    }
  });

  it('refuses an unknown option of run() before the step runs', async () => {
    let ran = 0;
    const bad = workflow('bad', () => run('x', () => ran++, { timout: '1s' } as never));
    const t = await backend.testApp({ workflows: [bad] });
    expect(await failure(bad.with({ id: 'x' })())).toMatchObject({ code: 'INVALID_OPTION' });
    expect(ran).toBe(0);
    expect(await t.app.workflows.steps('x')).toEqual([]);
  });

  it('refuses values that an option does not accept, and says which it accepts', () => {
    const cases: [() => unknown, string][] = [
      [() => workflow('x', async () => 1, { maxRecoveryAttempts: -1 }), 'a whole number of at least 0'],
      [() => workflow('x', async () => 1, { maxRecoveryAttempts: 1.5 }), 'a whole number'],
      [() => workflow('x', async () => 1, { serialization: anything('xml') }), '"native" or "portable"'],
      [() => workflow('x', async () => 1, { input: anything({}) }), 'a Standard Schema'],
      [() => workflow('x', anything('no function')), 'a function'],
      [() => workflow('x', async () => 1, anything(null)), 'an object'],
      [() => step('x', anything(undefined)), 'a function'],
      [() => step('x', () => 1, { retries: Number.NaN }), 'a whole number'],
      [() => step('x', () => 1, { retries: anything(null) }), ''],
      [() => step('x', () => 1, { retries: { max: 1, factor: 0.5 } }), 'at least 1'],
      [() => step('x', () => 1, { retries: { max: 1, jitter: 2 } }), 'from 0 to 1'],
      [() => step('x', () => 1, anything('3 retries')), 'an object'],
      [() => wf.with({ roles: anything('admin') }), 'a list of strings'],
      [() => wf.with(anything(undefined)), 'an object'],
    ];
    for (const [call, expected] of cases) {
      const error = thrown(call);
      expect(error, call.toString()).toMatchObject({ code: 'INVALID_OPTION' });
      expect(error.message).toContain(expected);
    }
  });

  it('refuses options inside a promise, a Map, a Set or a list', async () => {
    const t = await backend.testApp({ workflows: [wf] });
    const holders: [unknown, RegExp][] = [
      [Promise.resolve({ id: 'lost' }), /await it first/],
      // biome-ignore lint/suspicious/noThenProperty: promises of other libraries are not instances of Promise.
      [Object.create({ then: () => {} }), /await it first/],
      [new Map([['id', 'lost']]), /given a Map/],
      [new Set(['id']), /given a Set/],
      [[['id', 'lost']], /given a list/],
    ];
    for (const [options, problem] of holders) {
      const errors = [
        thrown(() => wf.with(anything(options))),
        thrown(() => workflow('x', async () => 1, anything(options))),
        thrown(() => queue('x', anything(options))),
        await failure((async () => topic('x').send('y', 1, anything(options)))()),
        await failure(t.app.workflows.list(anything(options))),
        await failure(t.app.workflows.fork('x', anything(options))),
      ];
      for (const [n, error] of errors.entries()) {
        expect(error, `case ${n}`).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringMatching(problem) });
      }
    }
    expect(await t.app.workflows.list()).toEqual([]);
  });

  const nightly = schedule('nightly', '0 0 * * *', wf);
  const texts = ['name', 'executorId', 'version', 'parentWorkflowId', 'forkedFrom', 'schedule'];
  const badFilters: object[] = [
    ...[...texts, 'queue'].flatMap((option) =>
      [7, null, true, wf, {}, ['a'], 'a\0b', 'half \ud83d'].map((value) => ({ [option]: value })),
    ),
    { schedule: nightly },
    ...['one', null, 7, {}, new Set(['one']), ['a\0b'], [7], [null]].map((ids) => ({ ids })),
    ...[null, 7, '', 'FINE', {}, [null], ['SUCCESS', 'FINE']].map((status) => ({ status })),
    ...['false', 'true', 0, null].map((newestFirst) => ({ newestFirst })),
    ...['5', null, 0].map((limit) => ({ limit })),
    ...['5', null, -1].map((offset) => ({ offset })),
  ];

  it('refuses invalid filters of a list, in an app and in a client', async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf] });
    const client = await connect({ database, logger: silent });
    for (const { workflows, recovery } of [t.app, client]) {
      for (const filter of badFilters) {
        const [option] = Object.keys(filter);
        const error = await failure(workflows.list(filter));
        expect(error, inspect(filter)).toMatchObject({ code: 'INVALID_OPTION', details: { option } });
      }
      for (const workflowIds of ['abc', null, 7, {}, new Set(['abc'])]) {
        const error = await failure(recovery.incomplete({ workflowIds: anything(workflowIds) }));
        expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining('a list of IDs') });
      }
    }
    await client.close();
  });

  it('refuses launch options of the wrong kind', async () => {
    const database = await backend.newDatabase();
    const cases: unknown[] = [
      undefined,
      'shop',
      { name: 'x', database, workflows: [() => {}] },
      { name: 'x', database, logger: {} },
      { name: 'x', database, logger: null },
      { name: 'x', database, migrate: 'yes' },
      { name: 'x', database, serializer: { name: 'x' } },
      { name: 'x', database, schema: 's'.repeat(64) },
      { name: 'x', database, schema: 'pg_foo' },
      { name: 'x', database, workflows: workflow('alone', async () => {}) },
      { name: 'x', database, poolSize: 1 },
      { name: 'x', database, poolSize: 2.5 },
    ];
    for (const options of cases) {
      expect(await failure(launch(anything(options))), String(options)).toMatchObject({ code: 'INVALID_OPTION' });
    }
  });

  const badNames: [string, unknown, RegExp][] = [
    ['empty', '', /must not be empty/],
    ['blank', '  ', /must not be empty/],
    ['NUL', 'a\0b', /NUL/],
    ['lone surrogate', 'a\ud800', /surrogate/],
    ['too long', 'x'.repeat(513), /513 characters long, but at most 512 are allowed/],
    ['not a string', 7, /must be a string/],
  ];

  it.each(badNames)('refuses a name or ID that is %s, wherever one is given', async (_, name, message) => {
    const t = await backend.testApp({ workflows: [wf] });
    const bad = anything(name);
    const errors = [
      thrown(() => workflow(bad, async () => 1)),
      thrown(() => step(bad, () => 1)),
      thrown(() => wf.with({ id: bad })),
      thrown(() => wf.with({ user: bad })),
      thrown(() => t.app.workflows.handle(bad)),
      await failure(t.app.workflows.get(bad)),
      await failure(t.app.workflows.resume(bad)),
      await failure(t.app.workflows.cancel(bad)),
      await failure(launch({ name: bad, logger: silent })),
      await failure(launch({ name: 'x', executorId: bad, database: await backend.newDatabase() })),
      await failure(launch({ name: 'x', version: bad, database: await backend.newDatabase() })),
    ];
    for (const [n, error] of errors.entries()) {
      expect(error, `case ${n}`).toMatchObject({ code: 'INVALID_NAME' });
      expect(error.message).toMatch(message);
    }
    expect(await t.app.workflows.list()).toEqual([]);
  });

  it('accepts names and IDs of every other kind', async () => {
    const id = `ünï/🦄 "quoted" 'x' -- \\ %_ ${'x'.repeat(400)}`;
    const odd = workflow(id, () => run(id, () => 'fine'));
    const t = await backend.testApp({ workflows: [odd], version: id, executorId: id });
    expect(await odd.with({ id })()).toBe('fine');
    expect(await t.app.workflows.get(id)).toMatchObject({ workflowId: id, name: id, version: id, executorId: id });
  });

  it('refuses step names that are reserved or clash, before the step runs', async () => {
    expect(thrown(() => step('DBOS.sleep', () => 1))).toMatchObject({ code: 'INVALID_NAME' });
    let ran = 0;
    const one = step('charge', () => ++ran);
    const two = step('charge', () => ++ran);
    const clash = workflow('clash', async () => {
      await one();
      await two();
    });
    const reserved = workflow('reserved', () => run('DBOS.mine', () => ++ran));
    const t = await backend.testApp({ workflows: [clash, reserved] });
    const error = await failure(clash());
    expect(error).toMatchObject({ code: 'STEP_NAME_CLASH', message: expect.stringContaining('Rename one') });
    expect(await failure(reserved.with({ id: 'r' })())).toMatchObject({
      code: 'INVALID_NAME',
      message: expect.stringContaining('"DBOS.'),
    });
    expect(ran).toBe(1);
    expect(await t.app.workflows.steps('r')).toEqual([]);
  });

  const badDurations = [
    Number.NaN,
    -1,
    Number.POSITIVE_INFINITY,
    '',
    'soon',
    '5 parsecs',
    '-3s',
    '1h 5',
    1e300,
    null,
    {},
  ];

  it.each(badDurations.map((value) => [value]))('refuses %j as a duration, wherever it is given', async (value) => {
    const bad = anything(value);
    const sleepy = workflow('sleepy', () => sleep(bad));
    const limited = workflow('limited', () => run('x', () => 1, { timeout: bad }));
    const t = await backend.testApp({ workflows: [wf, sleepy, limited] });
    const errors = [
      thrown(() => workflow('x', async () => 1, { timeout: bad })),
      thrown(() => step('x', () => 1, { timeout: bad })),
      await failure(t.app.workflows.handle('x').result({ timeout: bad })),
      await failure(sleepy()),
      await failure(limited()),
    ];
    errors.push(thrown(() => step('x', () => 1, { retries: { max: 1, initial: bad } })));
    errors.push(thrown(() => step('x', () => 1, { retries: { max: 1, maxDelay: bad } })));
    if (value !== null) errors.push(await failure((async () => wf.with({ id: 'w', timeout: bad }).start())()));
    for (const [n, error] of errors.entries()) {
      expect(error, `case ${n}`).toMatchObject({ code: 'INVALID_DURATION' });
      expect(error.message).toMatch(/"30s"/);
    }
    expect(await t.app.workflows.get('w')).toBeUndefined();
  });

  it('refuses two workflows with one name, and accepts one workflow twice', async () => {
    const twin = workflow('checkout', async () => 2);
    const database = await backend.newDatabase();
    const error = await failure(launch({ name: 'x', database, workflows: [wf, twin] }));
    expect(error).toMatchObject({ code: 'DUPLICATE_WORKFLOW', message: expect.stringContaining('Rename one') });
    const t = await backend.testApp({ workflows: [wf, wf] });
    expect(thrown(() => t.app.register(twin))).toMatchObject({ code: 'DUPLICATE_WORKFLOW' });
    expect(await wf()).toBe(1);
    t.app.register(wf);
    expect(await wf()).toBe(1);
  });

  it('refuses a call before launch, and says to launch first', async () => {
    const early = workflow('early', async () => 1);
    for (const call of [early, early.start, early.with({ id: 'x' })]) {
      const error = await failure(call());
      expect(error).toMatchObject({ code: 'NOT_LAUNCHED' });
      expect(error.message).toMatch(/launch\(\{ name, workflows: \[\.\.\.\] \}\)/);
    }
  });

  it('does not affect other workflows', async () => {
    const t = await backend.testApp({ workflows: [wf] });
    const good = Array.from({ length: 20 }, () => wf());
    const bad = [
      failure((async () => wf.with({ id: '' })())()),
      failure(wf.with({ attributes: anything({ fn: () => {} }) })()),
    ];
    expect(await Promise.all(good)).toEqual(good.map(() => 1));
    expect((await Promise.all(bad)).map(({ code }) => code)).toEqual(['INVALID_NAME', 'UNSERIALIZABLE']);
    expect(await t.app.workflows.list()).toHaveLength(20);
  });

  it('accepts a module namespace and ignores exports that are not workflows', async () => {
    const namespace = { wf, helper: () => {}, constant: 7, nothing: undefined };
    await backend.testApp({ workflows: namespace });
    expect(await wf()).toBe(1);
  });
});
