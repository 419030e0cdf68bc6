import { expect, it } from 'vitest';
import { context, transaction, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { claimNothing } from '../support/claims.js';
import { libraries, plainest, watched } from '../support/datasources.js';
import { failure, gate } from '../support/faults.js';
import { withoutTakeoverNews } from '../support/not-listening.js';
import { counter, openUserData, openUserDataIn } from '../support/user-data.js';

describeBackends('a transaction whose commit is in doubt', suite, ['postgres']);

function suite(backend: Backend): void {
  withoutTakeoverNews();
  for (const library of libraries.filter(({ dialect }) => dialect === 'postgres')) {
    it.each(['another', 'the same'])(
      `fails if the database rolls it back at its commit, in %s database, through ${library.name}`,
      async (place) => {
        const database = await backend.newDatabase();
        const data = await openUserDataIn(place === 'the same' ? database : await backend.emptyDatabase(), library);
        const pay = transaction(data.datasource, 'pay', async (tx) => {
          await data.add(tx, 'ada', 1);
          const unawaited = async () => {
            await data.datasource.query(tx, 'select 1', []);
            await data.datasource.query(tx, 'select 1/0', []);
          };
          void unawaited().catch(() => {});
          return 'paid';
        });
        const wf = workflow('wf', async () => pay());
        await backend.testApp({ workflows: [wf], database });
        expect(await failure(wf())).toMatchObject({ code: expect.stringMatching(/UNSUPPORTED_CALL|22012|25P02/) });
        expect(await counter(data.url, 'ada')).toBe(0);
      },
    );
  }

  it('cannot be committed by an execution that lost the workflow once the new owner reported a failure', async () => {
    const database = await backend.newDatabase();
    const data = await openUserData(backend, plainest.postgres);
    const [inside, goOn] = [gate(), gate()];
    const { datasource, under } = watched(data.datasource);
    const pay = transaction(datasource, 'pay', async (tx) => {
      if (context().executorId === 'second') throw new Error('the provider is down');
      await data.add(tx, 'ada', 1);
      inside.open();
      await goOn.promise;
      return 'paid';
    });
    const wf = workflow('wf', async () => pay().catch((error: Error) => `not paid: ${error.message}`));
    const first = await backend.testApp({ workflows: [wf], database, executorId: 'first' });
    await wf.with({ id: 'x' }).start();
    await inside.promise;
    const second = await backend.testApp({ workflows: [wf], database, clock: first.clock, executorId: 'second' });
    claimNothing(first.app);
    const [recovered] = await second.app.recovery.recover(['first']);
    expect(await recovered?.result()).toBe('not paid: the provider is down');
    goOn.open();
    await Promise.allSettled(under);
    expect(await counter(data.url, 'ada')).toBe(0);
  });

  it('survives the cancellation of another workflow while both look up where their records belong', async () => {
    const data = await openUserData(backend, plainest.postgres);
    const [looking, goOn, entered] = [gate(), gate(), gate()];
    let calls = 0;
    const slow: typeof data.datasource = {
      ...data.datasource,
      transact: async (mode, work) => {
        if (calls++ === 0) {
          looking.open();
          await goOn.promise;
        }
        return data.datasource.transact(mode, work);
      },
    };
    const pay = transaction(slow, 'pay', async () => 'paid');
    const wf = workflow('wf', async (second: boolean) => {
      if (second) entered.open();
      return pay();
    });
    await backend.testApp({ workflows: [wf] });
    const cancelled = await wf.start(false);
    await looking.promise;
    const other = await wf.start(true);
    await entered.promise;
    await cancelled.cancel();
    goOn.open();
    expect(await other.result()).toBe('paid');
  });
}
