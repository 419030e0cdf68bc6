import { expectTypeOf } from 'vitest';
import { z } from 'zod';
import {
  type App,
  type Duration,
  type Invocation,
  type LaunchOptions,
  launch,
  now,
  patch,
  random,
  run,
  sleep,
  step,
  uuid,
  type Workflow,
  type WorkflowHandle,
  type WorkflowInfo,
  workflow,
} from '../../src/index.js';
import { testApp, type VirtualClock } from '../../src/testing/index.js';

/**
 * The types that the compiler infers for users. Nothing here runs: `npm run check` compiles it. An expectation that
 * does not hold is a type error, and so is a line marked as an error that is valid.
 */

interface Order {
  readonly id: string;
  readonly cents: number;
}
interface Receipt {
  readonly number: number;
}
declare const order: Order;

export async function steps(): Promise<void> {
  const charge = step(
    'charge',
    async (given: Order, note?: string): Promise<Receipt> => ({ number: given.cents, ...(note && {}) }),
  );
  expectTypeOf(charge).parameters.toEqualTypeOf<[given: Order, note?: string | undefined]>();
  expectTypeOf(charge).returns.toEqualTypeOf<Promise<Receipt>>();

  // The promise of a step is not nested, and a synchronous step returns a promise too.
  const count = step('count', (items: readonly string[]) => items.length);
  expectTypeOf(count).returns.toEqualTypeOf<Promise<number>>();
  expectTypeOf(await run('inline', async () => 'text')).toEqualTypeOf<string>();
  expectTypeOf(await run('inline', () => 1, { retries: 3, timeout: '5s' })).toEqualTypeOf<number>();
  expectTypeOf(await run('nothing', () => {})).toEqualTypeOf<void>();

  // @ts-expect-error: an order is missing
  void charge();
  // @ts-expect-error: not an order
  void charge('order-7');
  // @ts-expect-error: no such option
  step('charge', async () => {}, { retry: 3 });
  // @ts-expect-error: max is required
  step('charge', async () => {}, { retries: { factor: 2 } });
}

export async function workflows(): Promise<void> {
  const checkout = workflow('checkout', async (given: Order, gift?: boolean): Promise<Receipt> => {
    return { number: gift ? 0 : given.cents };
  });
  expectTypeOf(checkout).toEqualTypeOf<Workflow<[given: Order, gift?: boolean | undefined], Receipt>>();
  expectTypeOf(await checkout(order)).toEqualTypeOf<Receipt>();
  expectTypeOf(await checkout.start(order, true)).toEqualTypeOf<WorkflowHandle<Receipt>>();
  expectTypeOf(checkout.workflowName).toEqualTypeOf<string>();

  const nothing = workflow('nothing', async () => {});
  expectTypeOf(await nothing()).toEqualTypeOf<void>();

  // @ts-expect-error: an order is missing
  void checkout();
  // @ts-expect-error: not a boolean
  void checkout.start(order, 'gift');
  // @ts-expect-error: the result is a receipt
  const wrong: string = await checkout(order);
  // @ts-expect-error: no such option
  workflow('checkout', async () => {}, { timeOut: '1h' });
  return void wrong;
}

export async function startOptions(): Promise<void> {
  const checkout = workflow('checkout', async (given: Order): Promise<Receipt> => ({ number: given.cents }));
  const prepared = checkout.with({ id: 'order-7', timeout: '1h', attributes: { country: 'PT' }, roles: ['clerk'] });
  expectTypeOf(prepared).toEqualTypeOf<Invocation<[given: Order], Receipt>>();
  expectTypeOf(await prepared(order)).toEqualTypeOf<Receipt>();
  void checkout.with({ timeout: null }).start(order);

  // @ts-expect-error: an ID is a text
  checkout.with({ id: 7 });
  // @ts-expect-error: no such option
  checkout.with({ idempotencyKey: 'order-7' });
  // @ts-expect-error: still an order
  void prepared('order-7');
  // @ts-expect-error: a prepared workflow already has options
  prepared.with({});
}

export async function handles(app: App): Promise<void> {
  const checkout = workflow('checkout', async (given: Order): Promise<Receipt> => ({ number: given.cents }));
  const handle = await checkout.start(order);
  expectTypeOf(await handle.result()).toEqualTypeOf<Receipt>();
  expectTypeOf(await handle.result({ timeout: '5s' })).toEqualTypeOf<Receipt>();
  expectTypeOf(await handle.status()).toEqualTypeOf<WorkflowInfo>();
  expectTypeOf(handle.id).toEqualTypeOf<string>();

  // An ID alone gives no type for the result, unless the caller names the type.
  expectTypeOf(await app.workflows.handle('order-7').result()).toEqualTypeOf<unknown>();
  expectTypeOf(await app.workflows.handle<Receipt>('order-7').result()).toEqualTypeOf<Receipt>();
  expectTypeOf(await app.workflows.resume<Receipt>('order-7')).toEqualTypeOf<WorkflowHandle<Receipt>>();
  expectTypeOf(await app.workflows.get('order-7')).toEqualTypeOf<WorkflowInfo | undefined>();
  // @ts-expect-error: no such status
  void app.workflows.list({ status: 'DONE' });
}

export async function insideAWorkflow(): Promise<void> {
  expectTypeOf(await sleep('3 days')).toEqualTypeOf<void>();
  await sleep('1h 30m');
  await sleep('1h30m 10S');
  await sleep('1.5 Hours');
  await sleep(`${1 + 1}s`);
  // @ts-expect-error: no such unit
  await sleep('10 parsecs');
  // @ts-expect-error: a text without a unit
  await sleep('10');
  for (const text of ['30s', '1h 30m', ' 5s'.trim(), '2.5 days', '10 MIN'] as const) await sleep(text);
  await sleep(1000);
  const hours = 3;
  await sleep(`${hours} hours`);
  // A text that is only known at runtime is checked at runtime.
  await sleep(process.env.PATIENCE ?? '1h');
  await sleep(order.cents > 100 ? '1h' : order.cents);
  const given: Duration = '1h';
  await sleep(given);
  // @ts-expect-error: not a duration
  await sleep('tomorrow');
  // @ts-expect-error: an empty text
  await sleep('');
  // @ts-expect-error: null
  await sleep(null);
  expectTypeOf(await patch('name')).toEqualTypeOf<boolean>();
  expectTypeOf([now(), random(), uuid()] as const).toEqualTypeOf<readonly [Date, number, string]>();
  expectTypeOf<Duration>().toEqualTypeOf<number | string>();
}

export async function launching(): Promise<void> {
  const one = workflow('one', async (given: Order) => given.id);
  const two = workflow('two', () => 2);
  expectTypeOf(await launch({ name: 'shop', workflows: [one, two] })).toEqualTypeOf<App>();
  // An object like that of `import * as workflows`: exports that are not workflows are ignored.
  void launch({ name: 'shop', workflows: { one, two, helper: () => {}, limit: 3 } });
  void launch({ name: 'shop', database: process.env.DATABASE_URL });
  expectTypeOf((await testApp({ workflows: [one] })).clock).toEqualTypeOf<VirtualClock>();
  expectTypeOf<LaunchOptions>().toHaveProperty('name');

  // @ts-expect-error: a name is required
  void launch({ workflows: [one] });
  // @ts-expect-error: a plain function is not a workflow
  void launch({ name: 'shop', workflows: [async () => 1] });
}

export async function schemas(): Promise<void> {
  const input = z.object({ amount: z.coerce.number() });
  // The function receives the output type of the schema. Callers pass its input type.
  const pay = workflow('pay', async (order, note: string) => `${order.amount.toFixed(2)} ${note}`, { input });
  expectTypeOf(await pay({ amount: '3' }, 'thanks')).toEqualTypeOf<string>();
  // A function may take no input, or fewer arguments.
  const ping = workflow('ping', async () => 1, { input, timeout: '1h' });
  expectTypeOf(ping).toEqualTypeOf<Workflow<[input: { amount: unknown }], number>>();

  // @ts-expect-error: the schema converts the amount to a number
  workflow('mismatch', async (order: { amount: string }) => order.amount, { input });
  // @ts-expect-error: the input is an object, not a text
  workflow('mismatch', async (order: string, note: string) => order + note, { input });
  // @ts-expect-error: not a schema
  workflow('mismatch', async (order: { amount: number }) => order.amount, { input: {} });
  // @ts-expect-error: the second argument is a text
  void pay({ amount: '3' }, 7);
}

export async function outputSchemas(): Promise<void> {
  const output = z.object({ state: z.enum(['paid', 'open']), total: z.number().transform(String) });
  // The function returns the input type of the schema. Callers get its output type.
  const pay = workflow('pay', async (cents: number) => ({ state: 'paid', total: cents }), { output });
  expectTypeOf(pay).toEqualTypeOf<Workflow<[cents: number], { state: 'paid' | 'open'; total: string }>>();
  const both = workflow('both', (order) => ({ state: 'open', total: order.cents }), {
    input: z.object({ cents: z.number() }),
    output,
  });
  expectTypeOf(await both({ cents: 1 })).toEqualTypeOf<{ state: 'paid' | 'open'; total: string }>();
  expectTypeOf(await (await both.start({ cents: 1 })).result())
    .toHaveProperty('total')
    .toEqualTypeOf<string>();
  workflow('fails', async () => Promise.reject<never>(new Error('no')), { output });

  // @ts-expect-error: the total is a number
  workflow('mismatch', async () => ({ state: 'paid', total: '3' }), { output });
  // @ts-expect-error: no state
  workflow('mismatch', (cents: number) => ({ total: cents }), { output });
  // @ts-expect-error: the state is also required with an input schema
  workflow('mismatch', async (order) => order, { input: z.object({ cents: z.number() }), output });
}
