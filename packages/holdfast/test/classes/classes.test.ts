// biome-ignore-all lint/complexity/noThisInStatic: these tests check `this` in static methods.
import { afterEach, expect, it } from 'vitest';
import { ConfiguredInstance, className, invoke, step, workflow } from '../../src/classes/index.js';
import { type Client, connect, context, debouncer, queue, run, schedule, sleep } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';

/** Creates a class with two workflow methods, a step, and a static workflow that uses its class. */
function newShop() {
  const charges: string[] = [];
  class Shop extends ConfiguredInstance {
    static rate = 2;

    constructor(
      name: string,
      readonly currency: string,
    ) {
      super(name);
    }

    @workflow()
    async checkout(amount: number): Promise<string> {
      const paid = await this.charge(amount);
      return `${paid} in ${this.configName}`;
    }

    @workflow()
    async both(amount: number, other: Shop['configName']): Promise<string[]> {
      const partner = shops.get(other) as Shop;
      return [await this.checkout(amount), await partner.checkout(amount)];
    }

    @workflow()
    static async convert(amount: number): Promise<number> {
      return run('multiply', () => amount * this.rate);
    }

    @step({ retries: 3 })
    async charge(amount: number): Promise<string> {
      charges.push(`${this.configName}: ${amount}`);
      return `${amount} ${this.currency}`;
    }
  }
  const shops = new Map(['eu', 'us'].map((name) => [name, new Shop(name, name === 'eu' ? 'EUR' : 'USD')]));
  return { Shop, charges, eu: shops.get('eu') as Shop, us: shops.get('us') as Shop };
}

describeBackends('classes', (backend) => {
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });

  it('run a method of an instance to its end, with `this` in workflow and step', async () => {
    const { Shop, eu, us, charges } = newShop();
    const t = await backend.testApp({ workflows: [Shop] });
    expect(await eu.checkout(7)).toBe('7 EUR in eu');
    expect(await us.checkout(8)).toBe('8 USD in us');
    expect(charges).toEqual(['eu: 7', 'us: 8']);
    const found = (await t.app.workflows.list()).find(({ configName }) => configName === 'eu');
    expect(await t.app.workflows.steps(found?.workflowId ?? '')).toMatchObject([{ name: 'charge', output: '7 EUR' }]);
  });

  it('run a static method with the class as `this`', async () => {
    const { Shop } = newShop();
    const t = await backend.testApp({ workflows: [Shop] });
    expect(await Shop.convert(21)).toBe(42);
    expect(await t.app.workflows.list()).toMatchObject([
      { name: 'convert', className: 'Shop', configName: undefined, status: 'SUCCESS' },
    ]);
  });

  it('store class and instance, which status, lists and context() show', async () => {
    class Greeter extends ConfiguredInstance {
      @workflow({ name: 'say hello' })
      async greet() {
        const { workflowName, className, configName } = context();
        return [workflowName, className, configName];
      }
    }
    const greeter = new Greeter('polite');
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [greeter], database });
    expect(await greeter.greet()).toEqual(['say hello', 'Greeter', 'polite']);
    expect(await t.app.workflows.list({ name: 'say hello' })).toMatchObject([
      { name: 'say hello', className: 'Greeter', configName: 'polite' },
    ]);
    expect(await tamper(database, 'select name, class_name, config_name from workflow_status')).toEqual([
      { name: 'say hello', class_name: 'Greeter', config_name: 'polite' },
    ]);
  });

  it('start methods in the background with invoke(), with options and idempotency keys', async () => {
    const { Shop, eu, us, charges } = newShop();
    const t = await backend.testApp({ workflows: [Shop] });
    const handle = await invoke(eu)
      .checkout.with({ id: 'order-7', attributes: { vip: true } })
      .start(7);
    expect(await handle.result()).toBe('7 EUR in eu');
    expect(await invoke(eu).checkout.with({ id: 'order-7' })(7)).toBe('7 EUR in eu');
    expect(charges).toEqual(['eu: 7']);
    expect(await t.app.workflows.get('order-7')).toMatchObject({ configName: 'eu', attributes: { vip: true } });
    expect(await invoke(Shop).convert.with({ id: 'c' })(2)).toBe(4);
    const conflict = await failure(invoke(us).checkout.with({ id: 'order-7' }).start(7));
    expect(conflict).toMatchObject({ code: 'WORKFLOW_CONFLICT' });
    expect(conflict.message).toContain('belongs to "Shop/eu.checkout", so "Shop/us.checkout" cannot use it');
  });

  it('call methods of the same and of another instance as children', async () => {
    const { Shop, eu } = newShop();
    const t = await backend.testApp({ workflows: [Shop] });
    expect(await invoke(eu).both.with({ id: 'p' })(5, 'us')).toEqual(['5 EUR in eu', '5 USD in us']);
    const children = await t.app.workflows.list({ parentWorkflowId: 'p' });
    expect(children.map((each) => each.configName)).toEqual(['eu', 'us']);
  });

  it('put methods on queues, one by one and in batches', async () => {
    const { Shop, eu, us } = newShop();
    const orders = queue('orders', { concurrency: 2 });
    const t = await backend.testApp({ workflows: [Shop], queues: [orders] });
    const one = await invoke(eu).checkout.with({ queue: orders }).start(1);
    const more = await invoke(us)
      .checkout.with({ queue: orders })
      .startAll([[2], [3]]);
    const still = await invoke(Shop).convert.with({ queue: orders }).start(4);
    const results = Promise.all([one, ...more, still].map((handle) => handle.result()));
    expect(await t.clock.runUntil(results)).toEqual(['1 EUR in eu', '2 USD in us', '3 USD in us', 8]);
  });

  it('debounce methods separately for each instance', async () => {
    const { Shop, eu, us, charges } = newShop();
    const t = await backend.testApp({ workflows: [Shop] });
    const [calm, other] = [debouncer(invoke(eu).checkout), debouncer(invoke(us).checkout)];
    const handles = [await calm.debounce('k', '1s', 1), await other.debounce('k', '1s', 2)];
    handles.push(await calm.debounce('k', '1s', 3));
    expect(handles[0]?.id).toBe(handles[2]?.id);
    await t.clock.runUntil(Promise.all(handles.map((handle) => handle.result())));
    expect(charges.sort()).toEqual(['eu: 3', 'us: 2']);
  });

  it('schedule static methods, but not methods of an instance', async () => {
    const ticks: string[] = [];
    class Reports extends ConfiguredInstance {
      @workflow()
      static async nightly(at: Date): Promise<void> {
        await run('report', () => ticks.push(`${at.toISOString()} ${this.name}`));
      }

      @workflow()
      async mine(_at: Date): Promise<void> {}
    }
    expect(() => schedule('s', '* * * * *', invoke(new Reports('a')).mine)).toThrow(/a function or a static method/);
    const every = schedule('every minute', '* * * * *', invoke(Reports).nightly);
    const t = await backend.testApp({ workflows: [Reports], schedules: [every] });
    expect(await t.app.schedules.get('every minute')).toMatchObject({ workflowName: 'nightly', className: 'Reports' });
    const start = t.clock.now();
    await t.clock.advance('3m');
    const minutes = [1, 2, 3].map((n) => new Date((Math.floor(start / 60_000) + n) * 60_000).toISOString());
    expect(ticks).toEqual(minutes.map((minute) => `${minute} Reports`));
    const [run1] = await t.app.workflows.list({ schedule: 'every minute' });
    expect(run1).toMatchObject({ className: 'Reports', configName: undefined });
  });

  it('can be started by a client that knows only names', async () => {
    const { Shop } = newShop();
    const database = await backend.newDatabase();
    await backend.testApp({ workflows: [Shop], database, clock: 'real' });
    const client = await connect({ database, name: 'test', logger: silent });
    clients.push(client);
    const key = { name: 'checkout', className: 'Shop', configName: 'us' };
    expect(await (await client.start(key, {}, 9)).result()).toBe('9 USD in us');
    expect(await (await client.start({ name: 'convert', className: 'Shop' }, {}, 9)).result()).toBe(18);
    const [handle] = await client.startAll(key, {}, [[1]]);
    expect(await handle?.result()).toBe('1 USD in us');
    const odd = await failure(client.start({ name: 'checkout', configName: 'us' }, {}, 9));
    expect(odd).toMatchObject({ code: 'INVALID_OPTION' });
  });

  it('can be stored under a name given by @className', async () => {
    @className('Shop v1')
    class Minified extends ConfiguredInstance {
      @workflow()
      async checkout() {
        return context().className;
      }

      @workflow()
      static async sweep() {
        return context().className;
      }
    }
    const shop = new Minified('eu');
    await backend.testApp({ workflows: [Minified] });
    expect(await shop.checkout()).toBe('Shop v1');
    expect(await Minified.sweep()).toBe('Shop v1');
  });

  it('accept the workflow options of functions, such as a timeout', async () => {
    class Slow extends ConfiguredInstance {
      @workflow({ timeout: '1m' })
      async nap() {
        await sleep('1h');
      }
    }
    const slow = new Slow('a');
    const t = await backend.testApp({ workflows: [Slow] });
    const handle = await invoke(slow).nap.start();
    await t.clock.advance('2m');
    expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
  });

  it('run a step inline inside another step, and as a plain call outside of workflows', async () => {
    const calls: string[] = [];
    class Tools {
      constructor(readonly name: string) {}

      @step()
      async outer() {
        return `outer of ${await this.inner()}`;
      }

      @step()
      async inner() {
        calls.push(this.name);
        return this.name;
      }

      @step({ name: 'counted' })
      static async count() {
        return calls.length;
      }
    }
    const tools = new Tools('t');
    class User extends ConfiguredInstance {
      @workflow()
      async use() {
        return [await tools.outer(), await Tools.count()];
      }
    }
    const user = new User('u');
    const t = await backend.testApp({ workflows: [user] });
    expect(await tools.outer()).toBe('outer of t');
    expect(await invoke(user).use.with({ id: 'x' })()).toEqual(['outer of t', 2]);
    expect((await t.app.workflows.steps('x')).map((each) => each.name)).toEqual(['outer', 'counted']);
  });
});
