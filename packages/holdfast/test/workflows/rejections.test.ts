import { expect, it } from 'vitest';
import { debouncer, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, watchUnhandled } from '../support/faults.js';

// Node ends the process on an unhandled rejection. A rejection by the engine must not cause that.
describeBackends('a rejection that the code handles late or never', (backend) => {
  it('is not unhandled when a child fails that was called but is not awaited yet', async () => {
    const unhandled = watchUnhandled();
    const child = workflow('child', async () => {
      throw new Error('the child failed');
    });
    const parent = workflow('parent', async () => {
      const called = child();
      await sleep('1m');
      return called.catch((error: Error) => error.message);
    });
    const t = await backend.testApp({ workflows: [child, parent] });
    const handle = await parent.start();
    expect(await t.clock.runUntil(handle.result())).toBe('the child failed');
    expect(unhandled).toEqual([]);
  });

  it('is not unhandled when a workflow with unawaited children is cancelled', async () => {
    const unhandled = watchUnhandled();
    const child = workflow('child', () => sleep('1d'));
    const parent = workflow('parent', async () => {
      const called = [child(), child()];
      await sleep('1h');
      await Promise.all(called);
    });
    const t = await backend.testApp({ workflows: [child, parent] });
    const handle = await parent.start();
    await t.clock.advance('1m');
    await handle.cancel();
    expect((await failure(handle.result())).code).toBe('WORKFLOW_CANCELLED');
    await t.clock.advance('1m');
    expect(unhandled).toEqual([]);
  });

  it('is not unhandled when the start of a child is refused', async () => {
    const unhandled = watchUnhandled();
    const child = workflow('child', async (_: unknown) => {});
    const parent = workflow('parent', async () => {
      const started = child.start(() => 'no function can be stored');
      await sleep('1h');
      return started.then(
        () => 'started',
        (error) => error.code,
      );
    });
    const t = await backend.testApp({ workflows: [child, parent] });
    const handle = await parent.start();
    expect(await t.clock.runUntil(handle.result())).toBe('UNSERIALIZABLE');
    expect(unhandled).toEqual([]);
  });

  it('is not unhandled when the arguments of a call are refused, and the call does not throw', async () => {
    const unhandled = watchUnhandled();
    const child = workflow('child', async () => {});
    const save = debouncer(child);
    const anything = (value: unknown) => value as never;
    const parent = workflow('parent', async () => {
      const handle = await child.start();
      const refused = [
        save.debounce('', '1s'),
        save.debounce('k', 'soon'),
        handle.result({ timeout: 'soon' }),
        handle.result(anything({ timout: 1 })),
      ];
      await sleep('1h');
      return Promise.all(refused.map(async (call) => (await failure(call)).code));
    });
    const t = await backend.testApp({ workflows: [child, parent] });
    const handle = await parent.start();
    const codes = ['INVALID_NAME', 'INVALID_DURATION', 'INVALID_DURATION', 'INVALID_OPTION'];
    expect(await t.clock.runUntil(handle.result())).toEqual(codes);
    expect(unhandled).toEqual([]);
    // The same outside of workflows.
    const outside = [save.debounce('', '1s'), save.debounce('k', 'soon')];
    outside.push(...['soon', -1].map((timeout) => handle.result({ timeout }) as never));
    const refused = await Promise.all(outside.map(async (call) => (await failure(call)).code));
    expect(refused).toEqual(['INVALID_NAME', 'INVALID_DURATION', 'INVALID_DURATION', 'INVALID_DURATION']);
  });
});
