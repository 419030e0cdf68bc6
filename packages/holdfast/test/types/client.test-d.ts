import { expectTypeOf } from 'vitest';
import { type Client, type WorkflowHandle, workflow } from '../../src/index.js';

/** The types that the compiler infers for users of a client. Nothing here runs: see inference.test-d.ts. */

interface Order {
  readonly id: string;
}
declare const client: Client;
declare const tx: unknown;
declare const order: Order;
const checkout = workflow('checkout', async (given: Order, note?: string) => ({ id: given.id, note: note ?? null }));
const sweep = workflow('sweep', async () => 1);
type Receipt = { id: string; note: string | null };

export async function byValue(): Promise<void> {
  expectTypeOf(await client.start(checkout, { queue: 'q' }, order)).toEqualTypeOf<WorkflowHandle<Receipt>>();
  expectTypeOf(await client.start(checkout, undefined, order, 'note')).toEqualTypeOf<WorkflowHandle<Receipt>>();
  expectTypeOf(await client.start(sweep)).toEqualTypeOf<WorkflowHandle<number>>();
  expectTypeOf(await client.startIn(tx, checkout, {}, order)).toEqualTypeOf<WorkflowHandle<Receipt>>();
  expectTypeOf(await client.startAll(checkout, {}, [[order], [order, 'note']])).toEqualTypeOf<
    WorkflowHandle<Receipt>[]
  >();
  await client.startAll(checkout, {}, [[order]], ([given], i) => ({ id: `${given.id}-${i}` }));

  // @ts-expect-error: an order is missing
  await client.start(checkout);
  // @ts-expect-error: an order is missing
  await client.start(checkout, {});
  // @ts-expect-error: not an order
  await client.start(checkout, {}, 'order-7');
  // @ts-expect-error: start options come first
  await client.start(checkout, order);
  // @ts-expect-error: not a list of arguments
  await client.startAll(checkout, {}, [['order-7']]);
  // @ts-expect-error: not an order
  await client.startIn(tx, checkout, {}, 'order-7');
}

export async function byTypedName(): Promise<void> {
  expectTypeOf(await client.start<typeof checkout>('checkout', {}, order)).toEqualTypeOf<WorkflowHandle<Receipt>>();
  expectTypeOf(await client.start<typeof sweep>('sweep')).toEqualTypeOf<WorkflowHandle<number>>();
  expectTypeOf(await client.startIn<typeof checkout>(tx, 'checkout', {}, order)).toEqualTypeOf<
    WorkflowHandle<Receipt>
  >();
  expectTypeOf(await client.startAll<typeof checkout>('checkout', {}, [[order]])).toEqualTypeOf<
    WorkflowHandle<Receipt>[]
  >();
  const method = { name: 'checkout', className: 'Shop' };
  expectTypeOf(await client.start<typeof checkout>(method, {}, order)).toEqualTypeOf<WorkflowHandle<Receipt>>();

  // @ts-expect-error: an order is missing
  await client.start<typeof checkout>('checkout', {});
  // @ts-expect-error: not an order
  await client.start<typeof checkout>('checkout', {}, 'order-7');
  // @ts-expect-error: not an order
  await client.startAll<typeof checkout>('checkout', {}, [['order-7']]);
}

export async function byName(): Promise<void> {
  expectTypeOf(await client.start('checkout', {}, order)).toEqualTypeOf<WorkflowHandle<unknown>>();
  expectTypeOf(await client.start('checkout')).toEqualTypeOf<WorkflowHandle<unknown>>();
  expectTypeOf(await client.start<string>('checkout', {}, 1, 'two')).toEqualTypeOf<WorkflowHandle<string>>();
  expectTypeOf(await client.startAll<number>('double', {}, [[1], ['2']])).toEqualTypeOf<WorkflowHandle<number>[]>();

  // @ts-expect-error: no such option
  await client.start('checkout', { queues: 'q' });
}
