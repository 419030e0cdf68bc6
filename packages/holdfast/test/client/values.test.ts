import { expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { ConfiguredInstance, invoke, workflow as method } from '../../src/classes/index.js';
import { type Client, connect, context, queue, workflow } from '../../src/index.js';
import type { TestAppOptions } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure } from '../support/faults.js';

class Shop extends ConfiguredInstance {
  @method()
  async checkout(cents: number): Promise<string> {
    return `${this.configName} ${cents}`;
  }
}

describeBackends('a client that starts a workflow by its value', (backend) => {
  async function withApp(options: TestAppOptions): Promise<Client> {
    const database = await backend.newDatabase();
    await backend.testApp({ queues: [queue('q')], ...options, database });
    const client = await connect({ database, name: 'test', logger: silent });
    onTestFinished(() => client.close());
    return client;
  }

  it('starts it as if it were given by name, with or without options', async () => {
    const double = workflow('double', async (n: number) => n * 2);
    const seven = workflow('seven', async () => 7);
    const client = await withApp({ workflows: [double, seven] });
    const handles = [
      await client.start(double, { queue: 'q', id: 'mine' }, 1),
      await client.start(double, undefined, 2),
      await client.start<typeof double>('double', undefined, 3),
      await client.start(seven),
      await client.start<number>('seven'),
      ...(await client.startAll(double, { queue: 'q' }, [[4], [5]])),
    ];
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual([2, 4, 6, 7, 7, 8, 10]);
    expect(handles[0]?.id).toBe('mine');
  });

  it('applies its schema, roles, timeout and format', async () => {
    const options = {
      input: z.object({ cents: z.coerce.number() }),
      requireRole: ['clerk'],
      timeout: '1h',
      serialization: 'portable',
    } as const;
    const pay = workflow('pay', async ({ cents }) => [cents, context().assumedRole], options);
    const client = await withApp({ workflows: [pay] });
    const clerk = { user: 'ada', roles: ['clerk'] };
    const handle = await client.start(pay, clerk, { cents: '25' });
    expect(await handle.result()).toEqual([25, 'clerk']);
    expect(await handle.status()).toMatchObject({ timeoutMs: 3_600_000 });
    expect(await failure(client.start(pay, clerk, { cents: 'many' }))).toMatchObject({ code: 'INVALID_INPUT' });
    expect(await failure(client.start(pay, {}, { cents: '25' }))).toMatchObject({ code: 'NOT_AUTHORIZED' });
    expect(await client.workflows.list()).toHaveLength(1);
  });

  it('starts a method of an instance', async () => {
    const shop = new Shop(`eu-${backend.name}`);
    const client = await withApp({ workflows: [Shop] });
    const handle = await client.start(invoke(shop).checkout, {}, 20);
    expect(await handle.result()).toBe(`eu-${backend.name} 20`);
  });

  it('refuses a value that is neither a workflow nor a name, before anything is stored', async () => {
    const client = await withApp({});
    for (const wrong of [() => {}, undefined, 7, {}]) {
      const start = client.start as (workflow: unknown) => Promise<unknown>;
      expect(await failure(start(wrong))).toMatchObject({ code: expect.stringMatching(/^INVALID_/) });
    }
    const order = { id: 'order-7', cents: 5 } as never;
    expect(await failure(client.start('checkout', order))).toMatchObject({ code: 'INVALID_OPTION' });
    expect(await client.workflows.list()).toEqual([]);
  });
});
