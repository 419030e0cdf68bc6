import { expect, it, onTestFinished } from 'vitest';
import { run, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';

/** Some libraries replace the global Promise, but async functions still return instances of the original class. */
describeBackends('a program that has replaced the global Promise', (backend) => {
  it('sends messages of a topic with a schema', async () => {
    const validate = async (value: unknown) => ({ value: value as string });
    const notes = topic('notes', { schema: { '~standard': { version: 1, vendor: 'test', validate } } as const });
    const takes = workflow('takes', () => notes.receive());
    await backend.testApp({ workflows: [takes] });
    const handle = await takes.start();
    const real = globalThis.Promise;
    onTestFinished(() => {
      globalThis.Promise = real;
    });
    globalThis.Promise = class Foreign<T> extends real<T> {} as PromiseConstructor;
    await notes.send(handle.id, 'hello');
    globalThis.Promise = real;
    expect(await handle.result()).toBe('hello');
  });

  it.each([
    ['ERROR', 'no money'],
    ['SUCCESS', undefined],
  ])('records the status %s correctly', async (status, message) => {
    const wf = workflow('wf', async () => {
      await run('step', async () => 1);
      if (message !== undefined) throw new Error(message);
      return 'done';
    });
    await backend.testApp({ workflows: [wf] });
    const real = globalThis.Promise;
    onTestFinished(() => {
      globalThis.Promise = real;
    });
    globalThis.Promise = class Foreign<T> extends real<T> {} as PromiseConstructor;
    const handle = await wf.with({ id: 'x' }).start();
    await handle.result().catch(() => {});
    globalThis.Promise = real;
    expect(await handle.status()).toMatchObject({ status, ...(message !== undefined && { error: { message } }) });
  });
});
