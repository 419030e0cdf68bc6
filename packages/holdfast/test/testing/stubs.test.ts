import { expect, it } from 'vitest';
import { context, FatalError, run, sleep, step, transaction, workflow } from '../../src/index.js';
import type { Datasource } from '../../src/storage/caller/datasource.js';
import { stub, testApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { failure } from '../support/faults.js';

interface Order {
  readonly id: string;
  readonly amount: number;
}

/** The body of the real steps, which must never run in a test. */
const real = (): never => {
  throw new FatalError('the real step ran');
};
const nowhere = { transact: real, query: real } as unknown as Datasource<object>;

const charge = step('charge', async (order: Order): Promise<string> => real() ?? order.id, { retries: 2 });
const book = transaction(nowhere, 'book', async (_tx, order: Order): Promise<number> => real() ?? order.amount);
const checkout = workflow('checkout', async (order: Order) => {
  const receipt = await charge(order);
  const terms = await run('fetch terms', async (): Promise<string> => real());
  const booking = await book(order);
  await sleep('1h');
  return { receipt, terms, booking };
});

const order: Order = { id: 'o-7', amount: 30 };

describeBackends('stubs', (backend) => {
  it('replace steps, inline steps and transactions, with their arguments, retries and records', async () => {
    const seen: unknown[] = [];
    const t = await backend.testApp({
      workflows: [checkout],
      stubs: {
        ...stub(charge, async (given) => {
          seen.push([given, context().attempt]);
          if (context().attempt < 2) throw new Error('card reader is busy');
          return `receipt ${given.id}`;
        }),
        'fetch terms': () => 'the terms',
        book: (given: Order) => given.amount,
      },
    });
    const handle = await checkout.with({ id: 'x' }).start(order);
    await t.clock.advance('30m');
    const again = await t.restart();
    const result = await again.clock.runUntil(again.app.workflows.handle(handle.id).result());
    expect(result).toEqual({ receipt: 'receipt o-7', terms: 'the terms', booking: 30 });
    expect(seen).toEqual([
      [order, 1],
      [order, 2],
    ]);
    await again.assertSteps('x', [
      { name: 'charge', result: 'receipt o-7', attempts: 2 },
      'fetch terms',
      { name: 'book', outcome: 'returned', result: 30, attempts: 1 },
      { name: 'DBOS.sleep', attempts: 0 },
    ]);
  });
});

it('stubs replace steps that are called in another step, and may call the step they replace', async () => {
  const calls: string[] = [];
  const note = step('note', async (text: string) => calls.push(`real ${text}`));
  const wf = workflow('wf', () =>
    run('outer', async () => {
      const receipt = await charge(order);
      await note(receipt);
      return receipt;
    }),
  );
  const t = await testApp({
    workflows: [wf],
    stubs: {
      ...stub(charge, () => 'receipt'),
      ...stub(note, async (text) => {
        calls.push(`stub ${text}`);
        return note(text);
      }),
    },
  });
  expect(await wf()).toBe('receipt');
  expect(calls).toEqual(['stub receipt', 'real receipt']);
  await t.stop();
});

it('testApp() refuses stubs that are not functions', async () => {
  expect(await failure(testApp({ stubs: { charge: 'receipt' as never } }))).toMatchObject({ code: 'INVALID_OPTION' });
});

it('stop() refuses a stub whose name no step has, and suggests an existing name', async () => {
  const wf = workflow('wf', async () => {
    await run('charge', () => 1);
    if (Math.random() > 2) await run('refund', () => 2);
  });
  const t = await testApp({ workflows: [wf], stubs: { refund: () => 0, chrage: () => 0 } });
  await wf();
  expect(await failure(t.stop())).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/no step named "chrage" has run\. Did you mean "charge"\?.*stub\(step, fn\)/),
  });
  const unused = await testApp({ workflows: [wf], stubs: { refund: () => 0, ...stub(charge, () => 'receipt') } });
  await unused.stop();
});

it('assertSteps() compares the recorded steps with the steps that a test expects', async () => {
  const wf = workflow('wf', async () => {
    await run('a', () => 1);
    await run('b', () => Promise.reject(new Error('no luck'))).catch(() => {});
    await sleep('1h');
  });
  const t = await testApp({ workflows: [wf] });
  await wf.with({ id: 'x' }).start();
  await t.clock.advance('1m');
  expect(await t.steps('x')).toMatchObject([
    { name: 'a', stepNumber: 0, outcome: 'returned', result: 1, error: undefined, attempts: 1 },
    { name: 'b', stepNumber: 1, outcome: 'threw', error: { message: 'no luck' }, attempts: 1 },
    { name: 'DBOS.sleep', outcome: 'waiting' },
  ]);
  await t.assertSteps('x', ['a', { error: 'no luck' }, 'DBOS.sleep']);
  for (const wrong of [
    ['a', 'b'],
    ['a', 'c', 'DBOS.sleep'],
    [{ result: 2 }, 'b', 'DBOS.sleep'],
    ['a', 'b', 'DBOS.sleep', 'd'],
  ]) {
    expect(await failure(t.assertSteps('x', wrong))).toMatchObject({ code: 'ERR_ASSERTION' });
  }
  // A missing workflow has no recorded steps. Without this error, such a test could never fail.
  for (const unknown of [t.assertSteps('y', []), t.steps('y')]) {
    expect(await failure(unknown)).toMatchObject({ code: 'WORKFLOW_NOT_FOUND', details: { workflowId: 'y' } });
  }
  await t.stop();
});
