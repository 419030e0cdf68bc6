import { expect, it } from 'vitest';
import { event, launch, run, step, topic, transaction, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, recordingLogger, thrown } from '../support/faults.js';

// Mistakes in code, and the errors that report them. Misspelled options: p8-bad-input.test.ts.
describeBackends('a mistake', (backend) => {
  const anything = (value: unknown) => value as never;

  it('in the argument of run() is reported before a step exists, inside and outside a workflow', async () => {
    const given: [unknown, RegExp][] = [
      [
        5,
        /run\(\) of step "x": "fn" must be a function, but it is 5: pass a function that does the work, as in \(\) => doWork\(\)\./,
      ],
      [undefined, /but it is undefined: pass a function/],
      [Promise.resolve(1), /but it is a promise: pass the function itself, and run\(\) calls it\./],
    ];
    const mistaken = workflow('mistaken', (at: number) => run('x', anything(given[at]?.[0])));
    const t = await backend.testApp({ workflows: [mistaken] });
    for (const [at, [fn, said]] of given.entries()) {
      for (const error of [await failure(mistaken.with({ id: `${at}` })(at)), await failure(run('x', anything(fn)))]) {
        expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringMatching(said) });
      }
      expect(await t.app.workflows.steps(`${at}`)).toEqual([]);
    }
  });

  it('of passing the wrong kind of value is reported with the expected and the given kind', async () => {
    const wf = workflow('wf', async () => {});
    const charge = step('charge', () => 1);
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    const errors: [Error, RegExp][] = [
      [
        await failure(launch({ name: 'x', workflows: anything(wf) })),
        /"workflows" must be a list.*but it is the function/,
      ],
      [await failure(launch({ name: 'x', workflows: [anything(charge)] })), /but it is the function "charge"\.$/],
      [
        thrown(() => t.app.register(wf, anything({ workflows: [wf] }))),
        /^register\(\): "argument 2" must be the result of workflow\(\)/,
      ],
      [
        await failure(launch({ name: 'x', database: anything(5) })),
        /"database" must be a URL, a Pool of pg or its configuration, but it is a number/,
      ],
      [
        await failure(topic('t').send(anything(handle), 1)),
        /A workflow ID must be a string, but it is an object\. Pass the "id" of the handle/,
      ],
      [
        thrown(() => step('x', () => 1, { retries: { max: 1, retryIf: anything('yes') } })),
        /"retryIf" must be a function/,
      ],
      [
        thrown(() =>
          anything(
            transaction(
              'debit' as never,
              anything(() => 1),
              anything(undefined),
            ),
          ),
        ),
        /"datasource" must be/,
      ],
      [
        await failure(wf.with({ timeout: anything(Object.create(null)) })()),
        /must be a length of time, but it is an object/,
      ],
      [
        await failure(wf.with({ timeout: anything(new Date(0)) })()),
        /but it is 1970-01-01T00:00:00.000Z\. Give milliseconds/,
      ],
      [
        await failure(wf.with({ attributes: { f: () => 1 } })()),
        /^The attributes of workflow "wf" cannot be stored: value\.f/,
      ],
    ];
    for (const [error, said] of errors) {
      expect(error).toMatchObject({ name: 'HoldfastError', message: expect.stringMatching(said) });
    }
    await t.stop();
  });

  it('in the ID of an event causes a warning only, because the workflow may be about to start', async () => {
    const logger = recordingLogger();
    const progress = event<number>('progress');
    const asks = workflow('asks', async () => (await progress.get('in a workflow', { timeout: 0 })) ?? null);
    const t = await backend.testApp({ workflows: [asks], logger });
    await asks();
    expect(logger.lines).toEqual([
      'get() of Event "progress" returned undefined, because workflow "in a workflow" does not exist. Check the ID.',
    ]);
    expect(await event('other').get((await asks.start()).id, { timeout: 0, app: t.app })).toBeUndefined();
    expect(await event('other').get('outside', { timeout: 0, app: t.app })).toBeUndefined();
    expect(logger.lines.slice(1)).toEqual([expect.stringContaining('"outside" does not exist')]);
  });

  it('of returning a promise inside a result is reported with the place of the promise', async () => {
    const wf = workflow('wf', async () => ({ page: run('fetch', () => 1) }));
    await backend.testApp({ workflows: [wf] });
    const message = 'The result of workflow "wf" cannot be stored: value.page is a promise. Await it first.';
    expect(await failure(wf())).toMatchObject({ code: 'UNSERIALIZABLE', message });
  });
});
