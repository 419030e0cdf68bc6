import { afterEach, expect, it } from 'vitest';
import { z } from 'zod';
import { ConfiguredInstance, invoke, workflow as method, requireRole } from '../../src/classes/index.js';
import {
  type Client,
  connect,
  context,
  debouncer,
  HoldfastError,
  queue,
  run,
  schedule,
  sleep,
  workflow,
} from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';

const who = () => {
  const { user, roles, assumedRole } = context();
  return [user, roles, assumedRole];
};

describeBackends('authentication', (backend) => {
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });

  it('a matching role becomes the assumed role: the first of the required ones', async () => {
    const open = workflow('open', async () => who());
    const closed = workflow('closed', async () => [...who(), await run('step', who)], {
      requireRole: ['ops', 'admin'],
    });
    const t = await backend.testApp({ workflows: [open, closed] });
    const ada = { user: 'ada', roles: ['guest', 'admin', 'ops'] };
    expect(await open.with(ada)()).toEqual(['ada', ada.roles, undefined]);
    expect(await closed.with({ ...ada, id: 'x' })()).toEqual(['ada', ada.roles, 'ops', ['ada', ada.roles, 'ops']]);
    expect(await t.app.workflows.get('x')).toMatchObject({ ...ada, assumedRole: 'ops' });
    expect(await closed.with({ user: 'bob', roles: ['admin'] })()).toMatchObject(['bob', ['admin'], 'admin', {}]);
  });

  it('a start without a required role is refused in every way to start, before anything is written', async () => {
    let bodies = 0;
    let checked = 0;
    const input = z.number().refine(() => ++checked > 0);
    const wf = workflow('closed', async (n: number) => ++bodies + n, { requireRole: ['admin', 'ops'], input });
    const q = queue('q');
    const t = await backend.testApp({ workflows: [wf], queues: [q] });
    const before = t.statements.length;
    const bob = { user: 'bob', roles: ['guest', 'Admin'] };
    const starts = [
      () => wf(1),
      () => wf.start(1),
      () => wf.with(bob)(1),
      () => wf.with({ ...bob, id: 'x' }).start(1),
      () => wf.with({ roles: [] }).start(1),
      () => wf.with({ ...bob, queue: q }).start(1),
      () => wf.with({ ...bob, delay: '1h' }).start(1),
      () => wf.with({ ...bob, queue: q }).startAll([[1], [2]]),
      () => wf.with({ queue: q }).startAll([[1], [2]], (_, i) => (i === 0 ? { roles: ['admin'] } : bob)),
      () => debouncer(wf, { start: bob }).debounce('k', '1s', 1),
    ];
    for (const start of starts) expect(await failure(start())).toMatchObject({ code: 'NOT_AUTHORIZED' });
    expect(t.statements.slice(before)).toEqual([]);
    // Only the input of the authorized item of the batch was validated.
    expect([bodies, checked]).toEqual([0, 1]);
    const error = await failure(wf.with(bob).start(1));
    expect(error).toBeInstanceOf(HoldfastError);
    expect(error.message).toBe(
      'Workflow "closed" requires the role "admin" or "ops", and user "bob" has only "guest" and "Admin". ' +
        'Start it for a user with that role: with({ user, roles }).',
    );
    expect((await failure(wf.start(1))).message).toContain('a start without a user has no roles');
    expect(await t.app.workflows.list()).toEqual([]);
  });

  it('children inherit user, roles and assumed role; a required role is checked and recorded', async () => {
    const open = workflow('open', async () => who());
    const closed = workflow('closed', async () => who(), { requireRole: ['admin'] });
    const parent = workflow(
      'parent',
      async () => {
        const refused = await closed().catch((error) => error.code);
        const own = await open.with({ user: 'eve', roles: ['x'] })();
        await sleep('1h');
        return [await open(), refused, own, await closed.with({ user: 'root', roles: ['admin'] })()];
      },
      { requireRole: ['clerk'] },
    );
    const t = await backend.testApp({ workflows: [open, closed, parent] });
    const { id } = await parent.with({ user: 'ada', roles: ['clerk', 'guest'] }).start();
    await t.clock.advance('1m');
    const again = await t.restart();
    const inherited = ['ada', ['clerk', 'guest'], 'clerk'];
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toEqual([
      inherited,
      'NOT_AUTHORIZED',
      ['eve', ['x'], undefined],
      ['root', ['admin'], 'admin'],
    ]);
    const [first] = await again.app.workflows.steps(id);
    expect(first).toMatchObject({ name: 'closed', error: { code: 'NOT_AUTHORIZED' }, childWorkflowId: undefined });
  });

  it('a child for another user does not get the roles of its parent', async () => {
    const closed = workflow('closed', async () => who(), { requireRole: ['admin'] });
    const open = workflow('open', async () => who());
    const parent = workflow('parent', async () => [
      await open.with({ user: 'bob' })(),
      await closed
        .with({ user: 'bob' })()
        .catch((error) => error.code),
    ]);
    await backend.testApp({ workflows: [closed, open, parent] });
    expect(await parent.with({ user: 'ada', roles: ['admin'] })()).toEqual([['bob', [], undefined], 'NOT_AUTHORIZED']);
  });

  it('recovery, resume and queues restore user, roles and assumed role', async () => {
    const q = queue('q');
    const wf = workflow(
      'wf',
      async () => {
        await sleep('1h');
        return who();
      },
      { requireRole: ['admin'] },
    );
    const t = await backend.testApp({ workflows: [wf], queues: [q] });
    const ada = { user: 'ada', roles: ['x', 'admin'] };
    const handles = [await wf.with(ada).start(), await wf.with(ada).start()];
    handles.push(await wf.with({ ...ada, queue: q }).start());
    await t.clock.advance('1m');
    await handles[1]?.cancel();
    const again = await t.restart();
    await again.app.workflows.resume(handles[1]?.id ?? '');
    const results = Promise.all(handles.map(({ id }) => again.app.workflows.handle(id).result()));
    const identity = ['ada', ['x', 'admin'], 'admin'];
    expect(await again.clock.runUntil(results)).toEqual([identity, identity, identity]);
    for (const info of await again.app.workflows.list()) expect(info).toMatchObject({ ...ada, assumedRole: 'admin' });
  });

  it('a start by name from a client is refused by the process that takes it, and its body never runs', async () => {
    let bodies = 0;
    const wf = workflow(
      'closed',
      async () => {
        bodies++;
        return who();
      },
      { requireRole: ['admin'] },
    );
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], database, clock: 'real' });
    const client = await connect({ database, name: 'test', logger: silent });
    clients.push(client);
    const refused = await client.start('closed', { user: 'bob', roles: ['guest'] });
    expect(await failure(refused.result())).toMatchObject({ code: 'NOT_AUTHORIZED' });
    expect(await t.app.workflows.get(refused.id)).toMatchObject({ status: 'ERROR', attempts: 1 });
    expect(bodies).toBe(0);
    const fine = await client.start('closed', { user: 'ada', roles: ['guest', 'admin'] });
    expect(await fine.result()).toEqual(['ada', ['guest', 'admin'], 'admin']);
  });

  it('a running workflow continues when its required role changes', async () => {
    const make = (role: string) =>
      workflow(
        'wf',
        async () => {
          await run('first', () => 1);
          await sleep('1h');
          return who();
        },
        { requireRole: [role] },
      );
    const before = make('clerk');
    const t = await backend.testApp({ workflows: [before], version: 'v' });
    const { id } = await before.with({ user: 'ada', roles: ['clerk'] }).start();
    await t.clock.advance('1m');
    const again = await t.restart({ workflows: [make('admin')] });
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toEqual(['ada', ['clerk'], 'clerk']);
  });

  it('invalid roles that another program has stored count as no roles', async () => {
    const wf = workflow('wf', async () => who());
    const closed = workflow('closed', async () => who(), { requireRole: ['admin'] });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf, closed], database });
    for (const [i, roles] of ['{"admin":1}', 'admin', '"admin"', '[7,null]', ''].entries()) {
      const open = await wf.with({ id: `open${i}`, delay: '1m' }).start();
      const shut = await closed.with({ id: `closed${i}`, delay: '1m', roles: ['admin'] }).start();
      await tamper(
        database,
        `update workflow_status set authenticated_roles = '${roles}', assumed_role = null where workflow_uuid in ('${open.id}', '${shut.id}')`,
      );
      expect(await t.clock.runUntil(open.result())).toEqual([undefined, [], undefined]);
      expect(await t.clock.runUntil(failure(shut.result()))).toMatchObject({ code: 'NOT_AUTHORIZED' });
      expect(await t.app.workflows.get(open.id)).toMatchObject({ roles: [] });
    }
  });

  it('a schedule runs without a user, and cannot run a workflow that requires a role', async () => {
    const wf = workflow('closed', async (_at: Date) => {}, { requireRole: ['admin'] });
    const given = { workflows: [wf], schedules: [schedule('s', '* * * * *', wf)] };
    expect(await failure(backend.testApp(given))).toMatchObject({ code: 'NOT_AUTHORIZED' });
  });

  it('methods require roles by option or by a decorator, above or below', async () => {
    class Vault extends ConfiguredInstance {
      @method({ requireRole: ['admin'] })
      async byOption() {
        return who();
      }

      @requireRole('ops', 'admin')
      @method()
      async above() {
        return who();
      }

      @method()
      @requireRole('ops', 'admin')
      async below() {
        return who();
      }

      @requireRole('admin')
      @method()
      static async ofClass() {
        return who();
      }
    }
    const vault = new Vault('v');
    await backend.testApp({ workflows: [Vault] });
    const { byOption, above, below } = invoke(vault);
    for (const each of [byOption, above, below, invoke(Vault).ofClass]) {
      expect(await failure(each.with({ user: 'bob', roles: ['guest'] })())).toMatchObject({ code: 'NOT_AUTHORIZED' });
      expect(await each.with({ user: 'ada', roles: ['admin'] })()).toEqual(['ada', ['admin'], 'admin']);
    }
    const refused = await failure(vault.below());
    expect(refused.message).toContain('"Vault/v.below" requires the role "ops" or "admin"');
  });
});

it.each([[], 'admin', [''], [7], null])('requireRole %j is refused', (roles) => {
  const define = () => workflow('wf', async () => {}, { requireRole: roles as never });
  expect(define).toThrow(/"requireRole" must be a list of at least one role/);
});
