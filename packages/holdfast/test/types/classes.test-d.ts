import { expectTypeOf } from 'vitest';
import {
  ConfiguredInstance,
  className,
  type Invocations,
  invoke,
  requireRole,
  step,
  workflow,
} from '../../src/classes/index.js';
import {
  type App,
  debouncer,
  launch,
  type Schedule,
  schedule,
  type Workflow,
  type WorkflowHandle,
} from '../../src/index.js';

/** The types that the compiler infers for classes. See inference.test-d.ts. */

@className('shop')
class Shop extends ConfiguredInstance {
  readonly currency = 'EUR';

  @workflow({ timeout: '1h', name: 'check out' })
  async checkout(order: { id: string }, times = 1): Promise<number> {
    expectTypeOf(this.charge('x')).resolves.toBeString();
    return times + order.id.length;
  }

  @requireRole('admin', 'ops')
  @workflow()
  async refund(): Promise<void> {}

  @step({ retries: 3 })
  async charge(id: string): Promise<string> {
    return id;
  }

  @workflow()
  static async nightly(_at: Date, context: { region: string }): Promise<string> {
    return context.region;
  }

  describe(): string {
    return this.currency;
  }
}

export async function calls(shop: Shop): Promise<void> {
  expectTypeOf(await shop.checkout({ id: 'x' })).toBeNumber();
  const { checkout } = invoke(shop);
  expectTypeOf(checkout).toEqualTypeOf<Workflow<[order: { id: string }, times?: number | undefined], number>>();
  expectTypeOf(await checkout.start({ id: 'x' }, 2)).toEqualTypeOf<WorkflowHandle<number>>();
  expectTypeOf(await checkout.with({ id: 'order-7', queue: 'q' })({ id: 'x' })).toBeNumber();
  expectTypeOf(await invoke(Shop).nightly(new Date(), { region: 'eu' })).toBeString();
  expectTypeOf<keyof Invocations<Shop>>().toEqualTypeOf<'checkout' | 'refund' | 'charge'>();
  expectTypeOf<keyof Invocations<typeof Shop>>().toEqualTypeOf<'nightly'>();
  // @ts-expect-error the method takes a different argument
  await checkout.start('x');
  // @ts-expect-error not an async method
  invoke(shop).describe;
  // @ts-expect-error a method of instances
  invoke(Shop).checkout;
  // @ts-expect-error neither an instance nor a class
  invoke(7);
}

export async function given(shop: Shop, app: App): Promise<void> {
  await launch({ name: 'shop', workflows: [Shop, shop] });
  await launch({ name: 'shop', workflows: { Shop, shop } });
  app.register(Shop, shop);
  expectTypeOf(
    schedule('s', '* * * * *', invoke(Shop).nightly, { context: { region: 'eu' } }),
  ).toEqualTypeOf<Schedule>();
  // @ts-expect-error a static method that needs a context
  schedule('s', '* * * * *', invoke(Shop).nightly);
  expectTypeOf(await debouncer(invoke(shop).checkout).debounce('k', '1s', { id: 'x' })).toEqualTypeOf<
    WorkflowHandle<number>
  >();
}

export class Wrong extends ConfiguredInstance {
  // @ts-expect-error a workflow is async
  @workflow()
  sync(): number {
    return 1;
  }

  // @ts-expect-error a step is async
  @step()
  now(): number {
    return 1;
  }

  // @ts-expect-error no such option
  @workflow({ retires: 3 })
  async typo(): Promise<void> {}

  // @ts-expect-error at least one role is required
  @requireRole()
  @workflow()
  async nobody(): Promise<void> {}
}

export class NotConfigured {
  // @ts-expect-error instances without a name cannot be found
  @workflow()
  async work(): Promise<void> {}

  @workflow()
  static async make(): Promise<void> {}
}

export class Nameless extends ConfiguredInstance {
  @workflow()
  async work(): Promise<void> {}
}
// @ts-expect-error an instance has a name
export const nameless = () => new Nameless();
