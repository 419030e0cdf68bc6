import { expect, it } from 'vitest';
import { connect, context, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, overTime } from '../support/faults.js';

describeBackends('two apps in one process', (backend) => {
  const whoami = () =>
    workflow('whoami', async () => `${context().executorId} ${await run('step', () => context().executorId)}`);

  it('run their own work on one database', async () => {
    const a = whoami();
    const b = workflow('another', async () => context().executorId);
    const database = await backend.newDatabase();
    const one = await backend.testApp({ workflows: [a], database, executorId: 'one' });
    const two = await backend.testApp({ workflows: [b], database, executorId: 'two', clock: one.clock });
    expect(await Promise.all([a(), b()])).toEqual(['one one', 'two']);
    expect(await two.app.workflows.list()).toHaveLength(2);
  });

  it('run their own work on separate databases', async () => {
    const a = whoami();
    const one = await backend.testApp({ workflows: [a], executorId: 'one' });
    const two = await backend.testApp({ executorId: 'two' });
    await a();
    expect(await one.app.workflows.list()).toHaveLength(1);
    expect(await two.app.workflows.list()).toEqual([]);
  });

  it('make a call ambiguous if both registered the workflow, unless the call names the app', async () => {
    const wf = whoami();
    const database = await backend.newDatabase();
    const one = await backend.testApp({ workflows: [wf], database, executorId: 'one' });
    const two = await backend.testApp({ workflows: [wf], database, executorId: 'two', clock: one.clock });
    const error = await failure(wf());
    expect(error).toMatchObject({ code: 'AMBIGUOUS_APP' });
    expect(error.message).toContain('whoami.with({ app })');
    expect(await wf.with({ app: one.app })()).toBe('one one');
    expect(await wf.with({ app: two.app })()).toBe('two two');
    await two.app.shutdown();
    expect(await wf()).toBe('one one');
    expect(await failure(wf.with({ app: two.app })())).toMatchObject({ code: 'NOT_LAUNCHED' });
    expect(await failure(wf.with({ app: {} })())).toMatchObject({ code: 'NOT_LAUNCHED' });
  });

  it('start children in the app of their parent', async () => {
    const child = whoami();
    const parent = workflow('parent', () => child());
    const database = await backend.newDatabase();
    const one = await backend.testApp({ workflows: [parent, child], database, executorId: 'one' });
    const two = await backend.testApp({ workflows: [parent, child], database, executorId: 'two', clock: one.clock });
    expect(await parent.with({ app: two.app })()).toBe('two two');
    expect(await parent.with({ app: one.app })()).toBe('one one');
  });

  it('can read the results of each other', async () => {
    const wf = workflow('wf', async () => {
      await sleep('1m');
      return { at: new Date(0), big: 10n };
    });
    const database = await backend.newDatabase();
    const one = await backend.testApp({ workflows: [wf], database, executorId: 'one' });
    const two = await backend.testApp({ database, executorId: 'two', clock: one.clock });
    const { id } = await wf.start();
    const handle = two.app.workflows.handle(id);
    expect(await overTime(one.clock, handle.result())).toEqual({ at: new Date(0), big: 10n });
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS', executorId: 'one' });
  });

  it('do not depend on each other: when one shuts down, the other continues', async () => {
    const wf = workflow('wf', async () => {
      await sleep('1m');
      return context().executorId;
    });
    const database = await backend.newDatabase();
    const one = await backend.testApp({ workflows: [wf], database, executorId: 'one' });
    const two = await backend.testApp({ workflows: [wf], database, executorId: 'two', clock: one.clock });
    const first = await wf.with({ app: one.app }).start();
    const second = await wf.with({ app: two.app }).start();
    await one.clock.advance('10s');
    await one.app.shutdown();
    const results = [first, second].map(({ id }) => two.app.workflows.handle(id).result());
    expect(await overTime(two.clock, Promise.all(results))).toEqual(['two', 'two']);
  });

  it('keep their versions separate if they have different names', async () => {
    const database = await backend.newDatabase();
    const one = await backend.testApp({ database, name: 'one', version: '1' });
    const two = await backend.testApp({ database, name: 'two', version: '2', clock: one.clock });
    expect((await one.app.versions.list()).map(({ name }) => name)).toEqual(['1']);
    expect((await two.app.versions.list()).map(({ name }) => name)).toEqual(['2']);
  });

  it('run only their own work without a version, even if their versions have the same name', async () => {
    const database = await backend.newDatabase();
    const wf = workflow('wf', async () => context().executorId);
    const one = await backend.testApp({ workflows: [wf], database, name: 'one', version: '1' });
    const second = { name: 'two', version: '1', executorId: 'second', clock: one.clock };
    await backend.testApp({ workflows: [wf], database, ...second });
    const client = await connect({ database, name: 'two' });
    const handle = await client.start('wf', {});
    expect(await handle.result()).toBe('second');
    await client.close();
  });
});
