import { expect, it } from 'vitest';
import { run, type Serializer, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';

describeBackends('values', (backend) => {
  const everything = () => ({
    date: new Date(12),
    map: new Map<unknown, unknown>([['a', new Set([1, 2])]]),
    big: 2n ** 70n,
    buffer: Buffer.from([0, 255]),
    bytes: new Uint8Array([1, 2]),
    missing: undefined,
    numbers: [Number.NaN, -0, Number.POSITIVE_INFINITY],
    nothing: null,
    text: 'ünï 🦄 "quoted"\n',
    nested: { list: [{ deep: [[]] }] },
  });

  it('come back equal from input, step, child and output, in the first run and in a replay', async () => {
    const seen: unknown[] = [];
    const echo = workflow('echo', async (value: unknown) => value);
    const wf = workflow('wf', async (value: unknown) => {
      const fromStep = await run('echo', () => everything());
      const fromChild = await echo(everything());
      seen.push([value, fromStep, fromChild]);
      await sleep('1h');
      return { value, fromStep, fromChild };
    });
    const t = await backend.testApp({ workflows: [wf, echo] });
    const { id } = await wf.start(everything());
    await t.clock.advance('1m');
    const again = await t.restart();
    const expected = everything();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toEqual({
      value: expected,
      fromStep: expected,
      fromChild: expected,
    });
    expect(seen).toEqual([
      [expected, expected, expected],
      [expected, expected, expected],
    ]);
  });

  it('are refused as input before anything is stored, with the path of the part that cannot be stored', async () => {
    let bodies = 0;
    const wf = workflow('wf', async (..._: unknown[]) => ++bodies);
    const t = await backend.testApp({ workflows: [wf] });
    const cases: [unknown, string][] = [
      [{ items: [1, { callback: () => {} }] }, 'args[1].items[1].callback'],
      [{ 'with space': Symbol('s') }, 'args[1]["with space"]'],
      ['a\0b', 'args[1]'],
      [{ half: '\ud800' }, 'args[1].half'],
      [new (class Secret {})(), 'args[1]'],
      [{ weak: new WeakMap() }, 'args[1].weak'],
    ];
    for (const [value, path] of cases) {
      const error = await failure(wf.start('fine', value));
      expect(error).toMatchObject({ code: 'UNSERIALIZABLE', details: { path } });
      expect(error.message).toContain(`The input of workflow "wf" cannot be stored: ${path} `);
    }
    expect(await t.app.workflows.list()).toEqual([]);
    expect(bodies).toBe(0);
  });

  it('end the workflow as ERROR if they cannot be stored as its output', async () => {
    const wf = workflow('wf', async () => ({ fn: () => 1 }));
    const t = await backend.testApp({ workflows: [wf] });
    expect(await failure(wf.with({ id: 'x' })())).toMatchObject({ code: 'UNSERIALIZABLE' });
    expect(await t.app.workflows.get('x')).toMatchObject({ status: 'ERROR' });
  });

  it('are plain JSON in a portable workflow, so other languages can read them', async () => {
    const wf = workflow('wf', async (order: { n: number }, tag: string) => ({ tag, total: order.n * 2 }), {
      serialization: 'portable',
    });
    const database = await backend.newDatabase();
    await backend.testApp({ workflows: [wf], database });
    expect(await wf({ n: 2 }, 'x')).toEqual({ tag: 'x', total: 4 });
    const [row] = await tamper(database, 'select inputs, output, serialization from workflow_status');
    expect(row?.serialization).toBe('portable_json');
    expect(JSON.parse(row?.inputs as string)).toEqual({ positionalArgs: [{ n: 2 }, 'x'] });
    expect(JSON.parse(row?.output as string)).toEqual({ tag: 'x', total: 4 });
  });

  it('reach a portable workflow in the same form in the first run and in a replay', async () => {
    const seen: unknown[] = [];
    const wf = workflow(
      'wf',
      async (input: unknown) => {
        seen.push(input);
        await sleep('1h');
        return input;
      },
      { serialization: 'portable' },
    );
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start({ at: new Date(0), missing: undefined });
    await t.clock.advance('1m');
    const again = await t.restart();
    await again.clock.runUntil(again.app.workflows.handle(id).result());
    expect(seen).toEqual([{ at: '1970-01-01T00:00:00.000Z' }, { at: '1970-01-01T00:00:00.000Z' }]);
  });

  it('keep the name, message, code and data of an error in a portable workflow', async () => {
    const wf = workflow(
      'wf',
      async () => {
        throw Object.assign(new TypeError('no'), { code: 'E1', data: { left: 3 } });
      },
      { serialization: 'portable' },
    );
    const database = await backend.newDatabase();
    await backend.testApp({ workflows: [wf], database });
    expect(await failure(wf())).toMatchObject({ name: 'TypeError', message: 'no', code: 'E1', data: { left: 3 } });
    const [row] = await tamper(database, 'select error from workflow_status');
    expect(JSON.parse(row?.error as string)).toEqual({
      name: 'TypeError',
      message: 'no',
      code: 'E1',
      data: { left: 3 },
    });
  });

  const encode = (value: unknown) => Buffer.from(JSON.stringify(value) ?? 'null').toString('base64');
  const decode = (text: string): unknown => JSON.parse(Buffer.from(text, 'base64').toString());
  const serializers: Record<string, Serializer> = {
    synchronous: { name: 'base64', stringify: encode, parse: decode },
    asynchronous: { name: 'base64', stringify: async (value) => encode(value), parse: async (text) => decode(text) },
  };

  it.each(Object.keys(serializers))('pass through a custom %s serializer, also across a restart', async (kind) => {
    const seen: unknown[] = [];
    const wf = workflow('wf', async (input: unknown) => {
      const loaded = await run('load', () => ({ at: new Date(0) }));
      const error = await failure(
        run('fails', () => Promise.reject(Object.assign(new RangeError('far'), { code: 'F' }))),
      );
      seen.push([input, loaded, error.name, error.code]);
      await sleep('1h');
      return { input };
    });
    const database = await backend.newDatabase();
    const serializer = serializers[kind] as Serializer;
    const t = await backend.testApp({ workflows: [wf], database, serializer });
    const { id } = await wf.start({ when: new Date(0) });
    await t.clock.advance('1m');
    const again = await t.restart();
    const input = { when: '1970-01-01T00:00:00.000Z' };
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toEqual({ input });
    const each = [input, { at: '1970-01-01T00:00:00.000Z' }, 'RangeError', 'F'];
    expect(seen).toEqual([each, each]);
    const [row] = await tamper(database, 'select inputs, serialization from workflow_status');
    expect(row?.serialization).toBe('base64');
    expect(decode(row?.inputs as string)).toEqual([input]);
  });

  it('cause a typed error if a custom serializer refuses them or returns no text', async () => {
    const wf = workflow('wf', async (_: unknown) => 1);
    const serializer: Serializer = {
      name: 'picky',
      stringify: (value) => {
        if (JSON.stringify(value).includes('refuse')) throw new Error('I will not');
        return JSON.stringify(value).includes('number') ? (7 as never) : JSON.stringify(value);
      },
      parse: JSON.parse,
    };
    const t = await backend.testApp({ workflows: [wf], serializer });
    expect(await failure(wf('refuse'))).toMatchObject({
      code: 'UNSERIALIZABLE',
      message: expect.stringContaining('I will not'),
    });
    expect(await failure(wf('number'))).toMatchObject({ code: 'UNSERIALIZABLE' });
    expect(await t.app.workflows.list()).toEqual([]);
    expect(await wf('fine')).toBe(1);
  });

  it('stall only the workflow whose serializer is missing, until the serializer is back', async () => {
    const wf = workflow('wf', async () => {
      await sleep('1h');
      return 'done';
    });
    const t = await backend.testApp({ workflows: [wf], serializer: serializers.synchronous as Serializer });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    const again = await t.restart({ serializer: undefined as never });
    await again.clock.advance('1s');
    const error = await failure(again.app.workflows.handle(id).result());
    expect(error).toMatchObject({ code: 'UNKNOWN_SERIALIZER', message: expect.stringContaining('"base64"') });
    expect(await again.clock.runUntil(wf())).toBe('done');
    const info = await again.app.workflows.get(id);
    expect(info).toMatchObject({ status: 'STALLED', reason: expect.stringContaining('"base64"') });
    const last = await again.restart({ serializer: serializers.synchronous as Serializer });
    const resumed = await last.app.workflows.resume(id);
    expect(await last.clock.runUntil(resumed.result())).toBe('done');
  });
});
