import { expect, it } from 'vitest';
import { connect, deprecatePatch, event, patch, queue, schedule, sleep, stream, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';

/** The arguments that each operation takes before its options. An operation that is missing here fails the test. */
const args: Record<string, Record<string, readonly unknown[]>> = {
  workflows: {
    handle: ['known'],
    get: ['known'],
    list: [],
    steps: ['known'],
    events: ['known'],
    messages: ['known'],
    streams: ['known'],
    cancel: ['known'],
    resume: ['known'],
    retry: ['known'],
    fork: ['known'],
    delete: ['known'],
    setDelay: ['known', '1h'],
    setPriority: ['known', 1],
  },
  queues: {
    register: ['other'],
    get: ['mail'],
    list: [],
    update: ['mail'],
    pause: ['mail'],
    resume: ['mail'],
    delete: ['mail'],
  },
  schedules: {
    create: [
      schedule(
        'nightly',
        '0 0 * * *',
        workflow('nightly', async () => 1),
      ),
    ],
    apply: [[]],
    list: [],
    get: ['hourly'],
    update: ['hourly'],
    pause: ['hourly'],
    resume: ['hourly'],
    delete: ['hourly'],
    trigger: ['hourly'],
    backfill: ['hourly'],
  },
  versions: { list: [], latest: [], setLatest: ['v1'] },
  recovery: { incomplete: [], recover: [], sweep: [] },
};

function outcome(call: () => Promise<unknown>): Promise<{ readonly code?: unknown } | undefined> {
  return call().then(
    () => undefined,
    (error: { readonly code?: unknown }) => error,
  );
}

// P8. An option that an operation does not have is refused before the operation changes anything.
describeBackends('P8 unknown options', (backend) => {
  const wf = workflow('wf', async () => 1);

  it('are refused by every operation of an app and of a client', async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({
      database,
      workflows: [wf],
      version: 'v1',
      queues: [queue('mail')],
      schedules: [schedule('hourly', '0 * * * *', wf)],
    });
    await wf.with({ id: 'known' })();
    const client = await connect({ database, logger: silent });
    const accepted: string[] = [];
    for (const [door, part] of Object.entries({ app: t.app, client })) {
      for (const [group, operations] of Object.entries(args)) {
        const found = part[group as 'workflows'] as unknown as Record<string, (...args: unknown[]) => unknown>;
        for (const [name, operation] of Object.entries(found)) {
          const given = operations[name];
          expect(given, `${group}.${name} is in the table`).toBeDefined();
          const error = await outcome(async () => operation(...(given ?? []), { nonsense: true }));
          if (error?.code !== 'INVALID_OPTION') accepted.push(`${door}.${group}.${name}: ${error ?? 'no error'}`);
        }
      }
    }
    expect(accepted).toEqual([]);
    expect(await t.app.workflows.get('known')).toMatchObject({ status: 'SUCCESS' });
    expect(await t.app.queues.get('mail')).toMatchObject({ paused: false });
    expect(await t.app.schedules.get('nightly')).toBeUndefined();
    await client.close();
  });

  it('are refused by every call without options, before it does anything', async () => {
    const shown = event<number>('shown');
    const lines = stream<number>('lines');
    const refused: Record<string, unknown> = {};
    const inside = workflow('inside', async () => {
      const calls: Record<string, (...args: never[]) => Promise<unknown>> = {
        'event.set': shown.set.bind(shown, 1),
        'stream.write': lines.write.bind(lines, 1),
        'stream.close': lines.close,
        sleep: sleep.bind(null, '1h'),
        patch: patch.bind(null, 'p'),
        deprecatePatch: deprecatePatch.bind(null, 'p'),
        'handle.status': t.app.workflows.handle('known').status,
        'handle.cancel': t.app.workflows.handle('known').cancel,
      };
      for (const [name, call] of Object.entries(calls)) {
        refused[name] = (await outcome(async () => call({ nonsense: true } as never)))?.code;
      }
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf, inside], queues: [queue('mail')] });
    await t.app.queues.pause('mail');
    await wf.with({ id: 'known', queue: 'mail' }).start();
    const handle = await inside.start();
    await handle.result();
    expect(Object.entries(refused).filter(([, code]) => code !== 'INVALID_OPTION')).toEqual([]);
    expect(await t.app.workflows.steps(handle.id)).toEqual([]);
    const known = t.app.workflows.handle('known');
    const cancel = known.cancel as (options: object) => Promise<void>;
    expect(await outcome(() => cancel({ children: false }))).toMatchObject({ code: 'INVALID_OPTION' });
    expect(await known.status()).toMatchObject({ status: 'ENQUEUED' });
    const client = await connect({ database, logger: silent });
    const close = client.close as (options: object) => Promise<void>;
    expect(await outcome(() => close({ drain: '1s' }))).toMatchObject({ code: 'INVALID_OPTION' });
    await client.close();
  });

  it('do not include the index and the array that map() passes', async () => {
    const t = await backend.testApp({ workflows: [wf] });
    await wf.with({ id: 'known' })();
    const [info] = await Promise.all(['known'].map(t.app.workflows.get));
    expect(info).toMatchObject({ status: 'SUCCESS' });
  });
});
