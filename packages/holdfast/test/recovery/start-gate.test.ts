import { expect, it } from 'vitest';
import { run, step, transaction, workflow } from '../../src/index.js';
import type { TestApp, TestAppOptions } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, gate, isSettled, tamper } from '../support/faults.js';
import { pass } from '../support/fleet.js';
import { counter, openUserData } from '../support/user-data.js';

describeBackends('a process whose heartbeats are not confirmed', (backend) => {
  it('starts no step until they are confirmed again, and then continues', async () => {
    const { t, begun, unheard, heardAgain, hold, wf } = await scene(backend);
    const handle = await wf.start();
    await t.signals.wait('first');
    await unheard();
    hold.open();
    await pass(t.clock, 60_000);
    expect([begun, await isSettled(t.clock, handle.result())]).toEqual([['first'], false]);
    await heardAgain();
    await pass(t.clock, 5_000);
    expect(await handle.result()).toBe('done');
    expect(begun).toEqual(['first', 'second']);
  });

  it('starts steps for two thirds of its time to live after the last confirmed heartbeat', async () => {
    const { t, begun, hold, wf, silence } = await scene(backend);
    const handle = await wf.start();
    await t.signals.wait('first');
    await silence();
    await pass(t.clock, 14_000);
    hold.open();
    expect(await handle.result()).toBe('done');
    expect(begun).toEqual(['first', 'second']);
  });

  it('starts no retry of a step', async () => {
    const attempts: number[] = [];
    const fail = async () => {
      attempts.push(attempts.length);
      throw new Error('again');
    };
    const flaky = step('flaky', fail, { retries: { max: 100, initial: '10s', factor: 1, jitter: 0 } });
    const wf = workflow('retries', () => flaky());
    const { t, unheard, heardAgain } = await scene(backend, { workflows: [wf] });
    await wf.start();
    await t.clock.advance(0);
    await unheard();
    const before = attempts.length;
    await pass(t.clock, 60_000);
    expect(attempts.length).toBe(before);
    await heardAgain();
    await pass(t.clock, 5_000);
    expect(attempts.length).toBe(before + 1);
  });

  it('lets a workflow be cancelled while it waits for the start gate', async () => {
    const { t, begun, seen, unheard, hold, wf } = await scene(backend);
    const handle = await wf.start();
    await t.signals.wait('first');
    await unheard();
    hold.open();
    await t.clock.advance(0);
    expect([begun, seen]).toEqual([['first'], []]);
    await handle.cancel();
    await t.clock.advance(0);
    expect([begun, seen]).toEqual([['first'], [expect.stringMatching(/cancelled/)]]);
    expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
  });

  it('hands over a workflow that waits for the start gate, and the workflow code does not notice', async () => {
    const { t, database, begun, seen, unheard, heardAgain, hold, wf } = await scene(backend);
    const { id } = await wf.start();
    await t.signals.wait('first');
    await unheard();
    hold.open();
    await t.clock.advance(0);
    expect(begun).toEqual(['first']);
    await t.app.shutdown();
    await heardAgain();
    const again = await backend.testApp({ database, workflows: [wf], clock: t.clock });
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe('done');
    expect([begun, seen]).toEqual([['first', 'second'], []]);
  });

  it('never starts a step that waited for the start gate if the workflow was lost meanwhile', async () => {
    const begun: string[] = [];
    const [held, turn] = [gate(), gate()];
    const second = async () => {
      await turn.promise;
      await run('second', () => void begun.push('second'));
    };
    const both = workflow('both', () => Promise.all([run('held', () => held.promise), second()]));
    const { t, database, unheard, heardAgain } = await scene(backend, { workflows: [both] });
    await both.start();
    await t.clock.advance(0);
    await unheard();
    turn.open();
    await t.clock.advance(0);
    await tamper(database, "update workflow_status set owner_xid = 'another.1'");
    held.open();
    await t.clock.advance(0);
    await heardAgain();
    await pass(t.clock, 6_000);
    expect(begun).toEqual([]);
  });

  it('starts nothing of a workflow that another took over, even if no write of its own has shown it', async () => {
    const { t, database, begun, seen, unheard, heardAgain, hold, wf } = await scene(backend);
    const [lost, kept] = [await wf.start(), await wf.start()];
    await t.clock.advance(0);
    await unheard();
    hold.open();
    await t.clock.advance(0);
    const taken = `where workflow_uuid = '${lost.id}'`;
    await tamper(database, `update workflow_status set owner_xid = 'another.1', executor_id = 'another' ${taken}`);
    await heardAgain();
    await pass(t.clock, 6_000);
    expect(await kept.result()).toBe('done');
    expect([begun, seen]).toEqual([['first', 'first', 'second'], []]);
    // Callers that wait here for the lost workflow get the result of its new owner.
    await tamper(
      database,
      `update workflow_status set status = 'SUCCESS', output = '{"json":"by another","__dbos_serializer":"superjson"}' ${taken}`,
    );
    expect(await t.clock.runUntil(lost.result())).toBe('by another');
  });

  it('shows the error to a workflow that was cancelled meanwhile', async () => {
    const { t, database, begun, seen, unheard, heardAgain, hold, wf } = await scene(backend);
    await wf.start();
    await t.signals.wait('first');
    await unheard();
    hold.open();
    await t.clock.advance(0);
    await tamper(database, "update workflow_status set status = 'CANCELLED'");
    await heardAgain();
    await pass(t.clock, 6_000);
    expect([begun, seen]).toEqual([['first'], [expect.stringMatching(/cancelled/)]]);
  });

  it('starts no transaction', async () => {
    const data = await openUserData(backend, plainest[backend.name]);
    let calls = 0;
    const count = transaction(data.datasource, 'count', async (tx) => {
      calls++;
      await data.add(tx, 'a', 1);
    });
    const hold = gate();
    const wf = workflow('counting', async () => {
      await run('wait', () => hold.promise);
      await count();
      return 'counted';
    });
    const { t, unheard, heardAgain } = await scene(backend, { workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance(0);
    await unheard();
    hold.open();
    await pass(t.clock, 10_000);
    expect(calls).toBe(0);
    await heardAgain();
    await pass(t.clock, 5_000);
    expect(await handle.result()).toBe('counted');
    expect([calls, await counter(data.url, 'a')]).toEqual([1, 1]);
  });

  it('replays recorded steps', async () => {
    const { t, begun, unheard, heardAgain, hold, wf } = await scene(backend);
    const { id } = await wf.start();
    await t.signals.wait('first');
    await t.crash();
    const again = await t.restart();
    await again.clock.advance(0);
    await unheard(again);
    hold.open();
    await pass(again.clock, 5_000);
    expect(begun).toEqual(['first']);
    await heardAgain();
    await pass(again.clock, 5_000);
    expect(await again.app.workflows.handle(id).result()).toBe('done');
    expect(begun).toEqual(['first', 'second']);
  });
});

/** A workflow that waits between two steps, and functions that keep the app's heartbeats from the table. */
async function scene(backend: Backend, options: TestAppOptions = {}) {
  const database = options.database ?? (await backend.newDatabase());
  const begun: string[] = [];
  const seen: string[] = [];
  const hold = gate();
  const wf = workflow('held', async () => {
    try {
      await run('first', () => void begun.push('first'));
      t.signals.emit('first');
      await hold.promise;
      await run('second', () => void begun.push('second'));
      return 'done';
    } catch (error) {
      seen.push(String(error));
      throw error;
    }
  });
  const t: TestApp = await backend.testApp({ workflows: [wf], ...options, database });
  const silence = () => tamper(database, 'alter table executors rename to executors_away');
  return {
    t,
    database,
    wf,
    begun,
    seen,
    hold,
    silence,
    unheard: async (app = t) => {
      await silence();
      await pass(app.clock, 21_000);
    },
    heardAgain: () => tamper(database, 'alter table executors_away rename to executors'),
  };
}
