import { expect, it, onTestFinished } from 'vitest';
import { type Client, connect, schedule, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure } from '../support/faults.js';

describeBackends('client.schedules', (backend) => {
  const report = workflow('report', async (at: Date, given?: unknown) => [at, given]);
  const options = { workflows: [report], name: 'shop', clock: 'real' } as const;

  async function connected(database: string, name?: string): Promise<Client> {
    const client = await connect({ database, logger: silent, ...(name && { name }) });
    onTestFinished(() => client.close());
    return client;
  }

  it('manages the schedules of its app, by the names of workflows', async () => {
    const database = await backend.newDatabase();
    await backend.testApp({ ...options, database });
    const client = await connected(database, 'shop');
    await client.schedules.create(schedule('s', '0 0 1 1 *', 'report', { context: { from: 'client' } }));
    const handle = await client.schedules.trigger<[Date, unknown]>('s');
    expect((await handle.result())[1]).toEqual({ from: 'client' });
    await client.schedules.update('s', { catchUp: 'one', context: 'new' });
    expect(await client.schedules.pause('s')).toMatchObject({ status: 'PAUSED', catchUp: 'one' });
    const runs = await client.schedules.backfill('s', { from: '2020-01-01', to: '2022-01-01' });
    expect(await Promise.all(runs.map((run) => run.result()))).toEqual([
      [new Date('2020-01-01T00:00:00Z'), 'new'],
      [new Date('2021-01-01T00:00:00Z'), 'new'],
    ]);
    await client.schedules.delete('s');
    expect(await client.schedules.list()).toEqual([]);
  });

  it('stores schedules that start to tick in the app at once', async () => {
    const database = await backend.newDatabase();
    const { app } = await backend.testApp({ ...options, database });
    const client = await connected(database);
    await client.schedules.apply([schedule('s', '* * * * * *', 'report')]);
    await expect.poll(() => app.workflows.list({ status: 'SUCCESS' })).not.toEqual([]);
    expect(await app.schedules.get('s')).toMatchObject({ workflowName: 'report', status: 'ACTIVE' });
    await app.schedules.apply([schedule('s', '@yearly', report)]);
    // The schedule belongs to the app from now on, and a client without a name still sees it.
    const bank = await connected(database, 'bank');
    expect(await bank.schedules.list()).toEqual([]);
    expect(await client.schedules.list()).toMatchObject([{ name: 's', cron: '@yearly' }]);
    expect(await failure(bank.schedules.create(schedule('s', '@daily', 'any')))).toMatchObject({
      code: 'SCHEDULE_EXISTS',
    });
  });
});
