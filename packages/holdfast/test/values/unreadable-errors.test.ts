import { expect, it } from 'vitest';
import { run, sleep, type Topic, topic, transaction, workflow } from '../../src/index.js';
import type { TestAppOptions } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, gate } from '../support/faults.js';
import { unreadable, unreadableKinds } from '../support/unreadable.js';
import { counter, openUserData } from '../support/user-data.js';

type Definitions = readonly ReturnType<typeof workflow>[];

// P2. A step never runs again after its outcome is committed. Therefore every outcome must be recordable.
describeBackends('an error that cannot be read back', (backend) => {
  /** Calls `call` in a workflow, crashes after it, and returns the error that the code saw, live and in the replay. */
  async function seenTwice(kind: string, call: () => Promise<unknown>, others: Definitions = []) {
    const seen: unknown[] = [];
    const reached = gate();
    const wf = workflow('wf', async () => {
      const error = await failure(call());
      seen.push({ name: error.name, message: error.message, code: error.code, stack: error.stack });
      reached.open();
      await sleep('1h');
      return seen.length;
    });
    const t = await backend.testApp({ workflows: [wf, ...others], ...unreadable(kind).launch });
    const { id } = await wf.start();
    await reached.promise;
    await t.clock.advance('1m');
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe(2);
    const [live, replayed] = seen;
    expect(replayed).toEqual(live);
    return { live, steps: await again.app.workflows.steps(id) };
  }

  function declined(kind: string): Error {
    return Object.assign(new RangeError('the card was declined'), { data: unreadable(kind).value() });
  }

  it.each(unreadableKinds)('is recorded for a step, and the step does not run again: %s', async (kind) => {
    let charged = 0;
    const { live, steps } = await seenTwice(kind, () =>
      run('charge', () => {
        charged++;
        throw declined(kind);
      }),
    );
    expect(charged).toBe(1);
    // Everything that can be read is kept.
    expect(live).toMatchObject({ name: 'RangeError', message: 'the card was declined' });
    expect(steps[0]).toMatchObject({ name: 'charge', error: { message: 'the card was declined' } });
  });

  it.each(unreadableKinds)('is recorded for a transaction, and its function does not run again: %s', async (kind) => {
    const data = await openUserData(backend, plainest[backend.name]);
    let calls = 0;
    const add = transaction(data.datasource, 'add', async (tx) => {
      calls++;
      await data.add(tx, 'a', 1);
      throw declined(kind);
    });
    const { live } = await seenTwice(kind, () => add());
    expect(live).toMatchObject({ message: 'the card was declined' });
    expect(calls).toBe(1);
    expect(await counter(data.url, 'a')).toBeFalsy();
  });

  it.each(unreadableKinds)('is recorded for the checked call if a schema throws it: %s', async (kind) => {
    let asked = 0;
    const refusing = {
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: () => {
          asked++;
          throw declined(kind);
        },
      },
    };
    const child = workflow('child', async (_: unknown) => 1, { input: refusing });
    const letters: Topic<unknown> = topic('letters', { schema: refusing });
    const starting = await seenTwice(kind, () => child.start(1), [child]);
    expect(starting.live).toMatchObject({ message: 'the card was declined' });
    const sending = await seenTwice(kind, () => letters.send('somebody', 1));
    expect(sending.live).toMatchObject({ message: 'the card was declined' });
    expect(asked).toBe(2);
  });

  it.each(unreadableKinds)('ends a workflow with an ERROR that every process can read: %s', async (kind) => {
    const wf = workflow('wf', async () => {
      throw declined(kind);
    });
    const t = await backend.testApp({ workflows: [wf], ...unreadable(kind).launch });
    const expected = { name: 'RangeError', message: 'the card was declined' };
    expect(await failure(wf.with({ id: 'w' })())).toMatchObject(expected);
    expect(await t.app.workflows.get('w')).toMatchObject({ status: 'ERROR', error: expected });
    const again = await t.restart();
    expect(await failure(again.app.workflows.handle('w').result())).toMatchObject(expected);
  });

  const broken = (): never => {
    throw new Error('this getter is broken');
  };
  /** Values that cannot be inspected, so that no log line can be made of them. */
  const unspeakable: Record<string, () => unknown> = {
    'an object without a prototype': () => Object.assign(Object.create(null), { message: 'declined' }),
    'an object whose toString throws': () => ({ toString: broken }),
    'an error whose message throws': () => Object.defineProperty(new Error(), 'message', { get: broken }),
    'an error whose code throws': () => Object.defineProperty(new Error(), 'code', { get: broken }),
    'a proxy that was revoked': () => {
      const { proxy, revoke } = Proxy.revocable({}, {});
      revoke();
      return proxy;
    },
  };

  /** Runs a step with three attempts and crashes. Returns how often the step ran before the crash, and in all. */
  async function chargedTwice(thrown: () => unknown, options: TestAppOptions = {}) {
    let charged = 0;
    const reached = gate();
    const charge = (): never => {
      charged++;
      throw thrown();
    };
    const wf = workflow('wf', async () => {
      const failed = await run('charge', charge, { retries: { max: 2, initial: 1 } }).catch(() => 'failed');
      reached.open();
      await sleep('1h');
      return failed;
    });
    const t = await backend.testApp({ workflows: [wf], ...options });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    await reached.promise;
    const before = charged;
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe('failed');
    return [before, charged];
  }

  it.each(Object.keys(unspeakable))('is recorded after the last retry of a step: %s', async (what) => {
    expect(await chargedTwice(unspeakable[what] as () => unknown)).toEqual([3, 3]);
  });

  it('is recorded after the last retry of a step even if the logger throws', async () => {
    const logger = { debug: broken, info: broken, warn: broken, error: broken };
    expect(await chargedTwice(() => new Error('declined'), { logger })).toEqual([3, 3]);
  });
});
