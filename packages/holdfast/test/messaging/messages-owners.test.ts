import { expect, it } from 'vitest';
import { context, event, run, stream, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { claimNothing } from '../support/claims.js';
import { failure, gate, isSettled, tamper } from '../support/faults.js';
import { withoutTakeoverNews } from '../support/not-listening.js';

describeBackends('messages, owners and crashes', (backend) => {
  withoutTakeoverNews();

  const numbers = topic<number>('numbers');

  it('only the owner receives a message that two executions wait for, and it is consumed once', async () => {
    const seen: string[] = [];
    const takes = workflow('takes', async () => {
      const who = context().executorId;
      try {
        const value = await numbers.receive({ timeout: '1h' });
        seen.push(`${who} got ${value}`);
        return value;
      } catch {
        seen.push(`${who} caught`);
        return 'caught';
      } finally {
        seen.push(`${who} finally`);
      }
    });
    const database = await backend.newDatabase();
    const common = { workflows: [takes], database, version: 'v' };
    const first = await backend.testApp({ ...common, executorId: 'first' });
    await takes.with({ id: 'x' }).start();
    await first.clock.advance(0);
    const second = await backend.testApp({ ...common, clock: first.clock, executorId: 'second' });
    claimNothing(first.app);
    const [recovered] = await second.app.recovery.recover(['first']);
    await first.clock.advance(0);
    await numbers.send('x', 1, { app: first.app });
    await numbers.send('x', 2, { app: first.app });
    expect(await first.clock.runUntil(recovered?.result() ?? Promise.reject())).toBe(1);
    await first.clock.advance('1s');
    expect(seen).toEqual(['second got 1', 'second finally']);
    expect(await second.app.workflows.messages('x')).toMatchObject([{ consumed: true }, { consumed: false }]);
  });

  it('a replay receives the same messages as before the crash, whatever has arrived since', async () => {
    const hold = gate();
    const takes = workflow('takes', async () => {
      const got = [await numbers.receive(), await numbers.receive()];
      await run('hold', () => hold.promise);
      return [...got, await numbers.receive()];
    });
    const t = await backend.testApp({ workflows: [takes] });
    const { id } = await takes.start();
    for (const n of [1, 2]) await numbers.send(id, n);
    await t.clock.advance(0);
    const again = await t.restart();
    await numbers.send(id, 3);
    hold.open();
    expect(await again.app.workflows.handle(id).result()).toEqual([1, 2, 3]);
    expect((await again.app.workflows.messages(id)).every((row) => row.consumed)).toBe(true);
  });

  it('a message that was sent before a crash is not sent again', async () => {
    const hold = gate();
    const takes = workflow('takes', async () => [
      await numbers.receive({ timeout: '1s' }),
      await numbers.receive({ timeout: '1s' }),
      await numbers.receive({ timeout: '1s' }),
    ]);
    const sends = workflow('sends', async (to: string) => {
      await numbers.send(to, 1);
      await numbers.sendAll([{ to, value: 2 }]);
      await run('hold', () => hold.promise);
    });
    const t = await backend.testApp({ workflows: [takes, sends] });
    const taking = await takes.start();
    const { id } = await sends.start(taking.id);
    await t.clock.advance(0);
    const again = await t.restart();
    hold.open();
    await again.app.workflows.handle(id).result();
    const result = again.app.workflows.handle(taking.id).result();
    expect(await again.clock.runUntil(result)).toEqual([1, 2, undefined]);
  });

  /** Workflows that wait for a message, an event or a stream value that never comes. */
  function waiting() {
    const never = event<number>('never');
    const lines = stream<number>('lines');
    const idle = workflow('idle', () => numbers.receive({ timeout: '1h' }));
    const receives = workflow('receives', () => numbers.receive({ timeout: '1h' }));
    const gets = workflow('gets', () => never.get('idle', { timeout: '1h' }));
    const reads = workflow('reads', async () => {
      for await (const line of lines.read('idle')) return line;
      return undefined;
    });
    return { idle, all: [receives, gets, reads] };
  }

  it('a cancellation ends a receive, a wait for an event and a stream reader at once', async () => {
    const { idle, all } = waiting();
    const t = await backend.testApp({ workflows: [idle, ...all] });
    await idle.with({ id: 'idle' }).start();
    const handles = await Promise.all(all.map((each) => each.start()));
    await t.clock.advance(0);
    const results = handles.map((handle) => failure(handle.result()));
    await t.app.workflows.cancel(handles.map((handle) => handle.id));
    for (const error of await Promise.all(results)) expect(error).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
  });

  it('a cancellation by another process ends these waits too, and the workflow code gets the error', async () => {
    const { idle, all } = waiting();
    const codes: string[] = [];
    const noted = all.map((each, i) =>
      workflow(`noted ${i}`, () => each().catch((error: { code: string }) => void codes.push(error.code))),
    );
    const database = await backend.newDatabase();
    const common = { workflows: [idle, ...all, ...noted], database, version: 'v' };
    const first = await backend.testApp({ ...common, executorId: 'first' });
    await idle.with({ id: 'idle' }).start();
    const handles = await Promise.all(noted.map((each) => each.start()));
    await first.clock.advance(0);
    const second = await backend.testApp({ ...common, clock: first.clock, executorId: 'second' });
    await second.app.workflows.cancel(handles.map((handle) => handle.id));
    await first.clock.advance('1s');
    expect(codes).toEqual(Array(3).fill('WORKFLOW_CANCELLED'));
  });

  it('a workflow that was cancelled and resumed receives the messages that were not consumed', async () => {
    const takes = workflow('takes', async () => [await numbers.receive(), await numbers.receive()]);
    const t = await backend.testApp({ workflows: [takes] });
    const { id } = await takes.start();
    await numbers.send(id, 1);
    await t.clock.advance(0);
    await t.app.workflows.cancel(id);
    await numbers.send(id, 2);
    const resumed = await t.app.workflows.resume(id);
    expect(await t.clock.runUntil(resumed.result())).toEqual([1, 2]);
  });

  it('an event that a fenced execution sets in a step changes nothing, and the call never returns there', async () => {
    const progress = event<string>('progress');
    const lines = stream<string>('lines');
    const hold = gate();
    const seen: string[] = [];
    const sets = workflow('sets', () =>
      run('set', async () => {
        const who = context().executorId;
        if (who === 'first') await hold.promise;
        await lines.write(who);
        await progress.set(who).finally(() => seen.push(who));
      }),
    );
    const database = await backend.newDatabase();
    const common = { workflows: [sets], database, version: 'v' };
    const first = await backend.testApp({ ...common, executorId: 'first' });
    await sets.with({ id: 'x' }).start();
    await first.clock.advance(0);
    const second = await backend.testApp({ ...common, clock: first.clock, executorId: 'second' });
    claimNothing(first.app);
    await (await second.app.recovery.recover(['first']))[0]?.result();
    hold.open();
    await first.clock.advance('1s');
    expect(seen).toEqual(['second']);
    expect(await second.app.workflows.events('x')).toEqual({ progress: 'second' });
    expect(await second.app.workflows.streams('x')).toEqual({ lines: ['second'] });
  });

  it('setting an event in a step fails if the workflow was cancelled, and the code can clean up', async () => {
    const progress = event<string>('progress');
    const hold = gate();
    const cleaned = gate<unknown>();
    const sets = workflow('sets', async () => {
      await run('set', async () => {
        await hold.promise;
        await progress.set('too late');
      }).catch((error) => cleaned.open(error.code));
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [sets], database });
    await sets.start();
    await t.clock.advance(0);
    await tamper(database, "update workflow_status set status = 'CANCELLED'");
    hold.open();
    expect(await cleaned.promise).toBe('WORKFLOW_CANCELLED');
    expect(await tamper(database, 'select 1 from workflow_events')).toEqual([]);
  });

  it('a receive that waits during a shutdown continues in the next app', async () => {
    const takes = workflow('takes', () => numbers.receive({ timeout: '1h' }));
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [takes], database });
    const handle = await takes.start();
    const local = failure(handle.result());
    await t.clock.advance(0);
    await t.app.shutdown();
    expect(await local).toMatchObject({ code: 'APP_CLOSED' });
    const next = await backend.testApp({ workflows: [takes], database, clock: t.clock, executorId: 'next' });
    const result = next.app.workflows.handle(handle.id).result();
    expect(await isSettled(next.clock, result)).toBe(false);
    await numbers.send(handle.id, 5);
    expect(await next.clock.runUntil(result)).toBe(5);
  });
});
