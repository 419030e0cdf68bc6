import { expect, it } from 'vitest';
import { context, run, sleep, uuid, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, thrown } from '../support/faults.js';

/** Code acts for the workflow that it belongs to, and for no other workflow. */
describeBackends('user code', (backend) => {
  it('in the input schema of a child draws no random numbers from the parent, so replays match', async () => {
    const drawn: string[] = [];
    const validate = () => ({ value: uuid() });
    const child = workflow('child', async (id: unknown) => id, {
      input: { '~standard': { version: 1, vendor: 'test', validate } },
    });
    const parent = workflow('parent', async () => {
      await child('');
      drawn.push(uuid());
      await sleep('1h');
    });
    const t = await backend.testApp({ workflows: [child, parent] });
    const { id } = await parent.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    await again.clock.runUntil(again.app.workflows.handle(id).result());
    expect(drawn).toHaveLength(2);
    expect(drawn[0]).toBe(drawn[1]);
  });

  it('in retryIf draws no random numbers from the workflow', async () => {
    const drawn: string[] = [];
    let failures = 2;
    const wf = workflow('wf', async () => {
      const attempt = () => {
        if (failures-- > 0) throw new Error('not yet');
      };
      await run('flaky', attempt, { retries: { max: 3, retryIf: () => uuid() !== '' } });
      drawn.push(uuid());
      await sleep('1h');
    });
    const t = await backend.testApp({ workflows: [wf] });
    const { id } = await wf.start();
    await t.clock.advance('1m');
    const again = await t.restart();
    await again.clock.runUntil(again.app.workflows.handle(id).result());
    expect(drawn).toHaveLength(2);
    expect(drawn[0]).toBe(drawn[1]);
  });

  it('that listens to an abort does not run inside the workflow that cancelled it', async () => {
    const seen: unknown[] = [];
    const victim = workflow('victim', async () => {
      context().signal.addEventListener('abort', () => seen.push(thrown(() => context()).code));
      await sleep('1d');
    });
    const canceller = workflow('canceller', (id: string) => t.app.workflows.handle(id).cancel());
    const t = await backend.testApp({ workflows: [victim, canceller] });
    const { id } = await victim.start();
    await t.clock.advance('1m');
    const handle = await canceller.start(id);
    await t.clock.runUntil(handle.result());
    expect(seen).toEqual(['NOT_IN_WORKFLOW']);
  });

  it('in a workflow may use the handle of another app, on another database', async () => {
    const there = workflow('there', async () => new Map([['far', 'away']]));
    const far = await backend.testApp({ name: 'far', workflows: [there] });
    const { id } = await there.start();
    await far.clock.runUntil(far.app.workflows.handle(id).result());
    const wf = workflow('wf', async () => {
      const handle = far.app.workflows.handle(id);
      const seen = [(await handle.status()).status, await handle.result()];
      await sleep('1h');
      return seen;
    });
    const near = await backend.testApp({ name: 'near', workflows: [wf] });
    const mine = await wf.start();
    await near.clock.advance('1m');
    const again = await near.restart();
    const result = again.clock.runUntil(again.app.workflows.handle(mine.id).result());
    expect(await result).toEqual(['SUCCESS', new Map([['far', 'away']])]);
  });

  it('that starts a child in another app than the parent gets an error', async () => {
    const child = workflow('child', async () => {});
    const other = await backend.testApp({ name: 'other', workflows: [child] });
    const parent = workflow('parent', async () => child.with({ app: other.app })());
    const t = await backend.testApp({ name: 'own', workflows: [parent, child] });
    const handle = await parent.start();
    expect(await failure(t.clock.runUntil(handle.result()))).toMatchObject({ code: 'UNSUPPORTED_CALL' });
    expect(await other.app.workflows.list()).toEqual([]);
  });
});
