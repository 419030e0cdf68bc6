import { beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { context, event, run, step, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { anotherCopy } from '../support/copies.js';
import { failure, recordingLogger } from '../support/faults.js';

type Package = typeof import('../../src/index.js');

/** Defines the same workflow for one bundle. Two bundles give two values, of which the app registers one. */
const ofBundle = ({ workflow, context, run }: Pick<Package, 'workflow' | 'context' | 'run'>) =>
  workflow('whoami', async (greeting: string) => `${greeting} ${await run('ask', () => context().executorId)}`);

describeBackends('a workflow that was defined twice in one process', (backend) => {
  let other: Package;
  beforeAll(async () => {
    other = await anotherCopy();
  });

  it('finds its app by its name, even from another copy of the package', async () => {
    const log = recordingLogger();
    await backend.testApp({ workflows: [ofBundle({ workflow, context, run })], executorId: 'one', logger: log });
    for (const copy of [ofBundle({ workflow, context, run }), ofBundle(other)]) {
      expect(await copy('Hello')).toBe('Hello one');
      const handle = await copy.with({ id: `id-${Math.random()}` }).start('Bye');
      expect(await handle.result()).toBe('Bye one');
      const handles = await copy.startAll([['1'], ['2']]);
      expect(await Promise.all(handles.map((each) => each.result()))).toEqual(['1 one', '2 one']);
    }
    expect(log.lines).toEqual([]);
  });

  it('runs the registered code, and warns once if the source of the other definition differs', async () => {
    const log = recordingLogger();
    const t = await backend.testApp({
      workflows: [workflow('wf', async () => 'registered')],
      version: 'v1',
      logger: log,
    });
    const edited = other.workflow('wf', async () => 'edited');
    expect([await edited(), await edited()]).toEqual(['registered', 'registered']);
    expect(log.matching(/"wf".*differs.*registered/)).toHaveLength(1);
    expect(await (await edited.with({ app: t.app }).start()).result()).toBe('registered');
  });

  it('causes no warning in production, where minifiers change each copy differently', async () => {
    vi.stubEnv('NODE_ENV', 'production');
    onTestFinished(() => void vi.unstubAllEnvs());
    const log = recordingLogger();
    await backend.testApp({ workflows: [workflow('wf', async () => 'registered')], version: 'v1', logger: log });
    expect(await other.workflow('wf', async () => 'minified')()).toBe('registered');
    expect(log.lines).toEqual([]);
  });

  it.each([
    ['timeout', { timeout: '5s' }],
    ['serialization', { serialization: 'portable' }],
    ['requireRole', { requireRole: ['admin'] }],
    ['recovery', { resumable: false }],
  ] as const)('is refused if it has a different %s and is therefore no copy', async (option, options) => {
    const parent = workflow('parent', () => other.workflow('wf', async () => 1, options)());
    const t = await backend.testApp({ workflows: [workflow('wf', async () => 1), parent] });
    const one = other.workflow('wf', async () => 1, options);
    const error = await failure(one());
    expect(error).toMatchObject({ code: 'DUPLICATE_WORKFLOW', details: { name: 'wf' } });
    expect(error.message).toContain(`"${option}"`);
    expect(await failure(one.with({ app: t.app })())).toMatchObject({ code: 'DUPLICATE_WORKFLOW' });
    expect(await failure(parent())).toMatchObject({ code: 'DUPLICATE_WORKFLOW' });
    expect(await t.app.workflows.list({ name: 'wf' })).toEqual([]);
  });

  it('is refused if it takes a different number of arguments', async () => {
    await backend.testApp({ workflows: [workflow('wf', async (a: number) => a)] });
    const error = await failure(other.workflow('wf', async (a: number, b: number) => a + b)(1, 2));
    expect(error).toMatchObject({ code: 'DUPLICATE_WORKFLOW' });
  });

  it('is ambiguous if two running apps have registered the name, unless the call names the app', async () => {
    const one = await backend.testApp({ workflows: [ofBundle({ workflow, context, run })], executorId: 'one' });
    const two = await backend.testApp({ workflows: [ofBundle(other)], executorId: 'two', clock: one.clock });
    const third = ofBundle(other);
    const error = await failure(third(''));
    expect(error).toMatchObject({ code: 'AMBIGUOUS_APP' });
    expect(error.message).toMatch(/Launch the app once.*with\(\{ app \}\)/);
    expect(await third.with({ app: two.app })('Hello')).toBe('Hello two');
    await two.app.shutdown();
    expect(await third('Hello')).toBe('Hello one');
    await one.app.shutdown();
    expect(await failure(third(''))).toMatchObject({ code: 'NOT_LAUNCHED' });
  });

  it('does not start before its app may run it', async () => {
    let early: Promise<Error> | undefined;
    const copy = ofBundle(other);
    const logger = {
      ...recordingLogger(),
      warn: () => {
        early ??= failure(copy(''));
      },
    };
    const registered = ofBundle({ workflow, context, run });
    await backend.testApp({ workflows: [registered], listen: ['no such queue'], logger });
    expect(await early).toMatchObject({ code: 'NOT_LAUNCHED' });
  });

  it('runs as a child like the registered definition, also in a replay', async () => {
    const child = ofBundle(other);
    let runs = 0;
    const parent = workflow('parent', async () => {
      const before = await child('Hello');
      await run('count', () => runs++);
      await topic('go').receive();
      return [before, await (await child.start('Bye')).result()];
    });
    const one = await backend.testApp({ workflows: [parent, ofBundle({ workflow, context, run })] });
    const { id } = await parent.start();
    await expect.poll(() => runs).toBe(1);
    const two = await one.restart({ executorId: 'test' });
    await topic('go').send(id, true);
    expect(await two.app.workflows.handle(id).result()).toEqual(['Hello test', 'Bye test']);
    expect(runs).toBe(1);
  });

  it('is debounced like the registered definition', async () => {
    const log = recordingLogger();
    const t = await backend.testApp({ workflows: [workflow('wf', async (n: number) => n * 10)], logger: log });
    const copies = [other.workflow('wf', async (n: number) => n * 10), workflow('wf', async (n: number) => n * 10)];
    for (const [i, copy] of copies.entries()) {
      const handle = await other.debouncer(copy).debounce('key', '1s', i + 1);
      await t.clock.advance('2s');
      expect(await handle.result()).toBe((i + 1) * 10);
    }
  });
});

describeBackends('code of two copies of the package in one workflow', (backend) => {
  let other: Package;
  beforeAll(async () => {
    other = await anotherCopy();
  });

  it('uses the same app', async () => {
    const reply = event<string>('reply');
    const wf = workflow('wf', async () => reply.set(String(await topic<string>('t').receive())));
    await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await other.topic<string>('t').send(handle.id, 'hello');
    await handle.result();
    expect(await other.event<string>('reply').get(handle.id)).toBe('hello');
  });

  it('records the steps of both copies', async () => {
    let runs = 0;
    const charge = other.step('charge', async () => ++runs);
    const wf = workflow('wf', async () => [await charge(), await step('own', async () => 'own')()]);
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    expect(await handle.result()).toEqual([1, 'own']);
    expect((await t.app.workflows.steps(handle.id)).map(({ name }) => name)).toEqual(['charge', 'own']);
  });
});
