import { expect, it } from 'vitest';
import { event, run, sleep, topic, workflow } from '../../src/index.js';
import type { Timer } from '../../src/model/clock.js';
import { VirtualClock } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { gate, isSettled, tamper } from '../support/faults.js';

describeBackends('the timeout of a receive', (backend) => {
  const numbers = topic<number>('numbers');
  const one = workflow('one', (timeout?: number) => numbers.receive(timeout === undefined ? {} : { timeout }));
  const two = workflow('two', async (timeout: number) => [
    await numbers.receive({ timeout }),
    await numbers.receive({ timeout: 0 }),
  ]);

  it('is 60 seconds by default, and the receive then returns undefined', async () => {
    const t = await backend.testApp({ workflows: [one] });
    const result = (await one.start()).result();
    await t.clock.advance(59_999);
    expect(await isSettled(t.clock, result)).toBe(false);
    await t.clock.advance(1);
    expect(await result).toBeUndefined();
  });

  it('may be zero: the receive takes a message that is there, and does not wait', async () => {
    const open = gate();
    const looks = workflow('looks', async () => {
      const before = await numbers.receive({ timeout: 0 });
      await run('hold', () => open.promise);
      return [before, await numbers.receive({ timeout: 0 }), await numbers.receive({ timeout: 0 })];
    });
    await backend.testApp({ workflows: [looks] });
    const handle = await looks.start();
    await numbers.send(handle.id, 1);
    open.open();
    const [before, after, end] = (await handle.result()) as unknown[];
    // The message may arrive before or after the first receive. It is received once.
    expect([before, after, end].filter((value) => value !== undefined)).toEqual([1]);
    expect(end).toBeUndefined();
  });

  it('passes in time on the real clock', async () => {
    await backend.testApp({ workflows: [one], clock: 'real' });
    expect(await one(20)).toBeUndefined();
  });

  it('is an instant that a restart does not move', async () => {
    const t = await backend.testApp({ workflows: [one] });
    const { id } = await one.start(60_000);
    await t.clock.advance('30s');
    const again = await t.restart();
    const result = again.app.workflows.handle(id).result();
    await again.clock.advance(29_999);
    expect(await isSettled(again.clock, result)).toBe(false);
    await again.clock.advance(1);
    expect(await isSettled(again.clock, result)).toBe(true);
    expect(await result).toBeUndefined();
  });

  it('is over at the restart if it passed while no process ran, unless a message arrived', async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [one], database });
    const [silent, reached] = [await one.start(60_000), await one.with({ id: 'reached' }).start(60_000)];
    await t.clock.advance('1s');
    await t.crash();
    const columns = 'message_uuid, destination_uuid, topic, message, serialization';
    const text = `'7', 'portable_json'`;
    await tamper(database, `insert into notifications (${columns}) values ('m', 'reached', 'numbers', ${text})`);
    await t.clock.advance('2h');
    const again = await t.restart();
    const handle = (id: string) => again.app.workflows.handle(id);
    expect(await handle(silent.id).result()).toBeUndefined();
    expect(await handle(reached.id).result()).toBe(7);
  });

  it('never loses a message sent at that very instant: a receive gets it, or it stays unread', async () => {
    const t = await backend.testApp({ workflows: [two] });
    const handles = await Promise.all(Array.from({ length: 40 }, () => two.start(1_000)));
    await t.clock.advance(999);
    const outcomes = handles.map(({ id }, i) => numbers.send(id, i));
    await Promise.all([t.clock.advance(1), ...outcomes]);
    const got = (await Promise.all(handles.map((handle) => handle.result()))) as (number | undefined)[][];
    for (const [i, pair] of got.entries()) {
      const unread = (await t.app.workflows.messages(handles[i]?.id ?? '')).filter((row) => !row.consumed);
      expect(pair.filter((value) => value !== undefined)).toEqual(unread.length === 0 ? [i] : []);
    }
  });

  it('does not pass over a message that is there without a notification', async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [one], database });
    const handles = await Promise.all(Array.from({ length: 20 }, (_, i) => one.with({ id: `w${i}` }).start(1_000)));
    await t.clock.advance(999);
    if (backend.name === 'postgres') await tamper(database, 'alter table notifications disable trigger all');
    const values = handles.map(({ id }, i) => `('m${i}', '${id}', 'numbers', '${i}', 'portable_json')`);
    const columns = 'message_uuid, destination_uuid, topic, message, serialization';
    await tamper(database, `insert into notifications (${columns}) values ${values.join(', ')}`);
    await t.clock.advance(1);
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(handles.map((_, i) => i));
  });

  it('of one of several receives leaves the message to the others', async () => {
    const several = workflow('several', () =>
      Promise.all(['1s', '10s', '5s'].map((timeout) => numbers.receive({ timeout }))),
    );
    const t = await backend.testApp({ workflows: [several] });
    const handle = await several.start();
    await t.clock.advance('2s');
    await numbers.send(handle.id, 1);
    await t.clock.advance('4s');
    await numbers.send(handle.id, 2);
    // The third receive has timed out, so no receive waits for the second message.
    expect(await handle.result()).toEqual([undefined, 1, undefined]);
    expect(await t.app.workflows.messages(handle.id)).toMatchObject([{ consumed: true }, { consumed: false }]);
  });

  it('has the same winner in a replay when it races a sleep, whichever side wins', async () => {
    const hold = gate();
    const races = workflow('races', async (timeout: number) => {
      const first = await Promise.race([
        sleep('5s').then(() => 'slept'),
        numbers.receive({ timeout }).then((value) => `received ${value}`),
      ]);
      const second = await Promise.race([
        numbers.receive({ timeout: '1s' }).then((value) => `received ${value}`),
        sleep('2s').then(() => 'slept'),
      ]);
      await run('hold', () => hold.promise);
      return [first, second];
    });
    const t = await backend.testApp({ workflows: [races] });
    const [gets, sleeps, gives] = await Promise.all([10_000, 20_000, 3_000].map((ms) => races.start(ms)));
    await t.clock.advance('1s');
    await numbers.send(gets?.id ?? '', 1);
    await t.clock.advance('30s');
    const again = await t.restart();
    // Messages that arrive now do not change the recorded outcomes.
    for (const handle of [gets, sleeps, gives]) await numbers.send(handle?.id ?? '', 2);
    hold.open();
    const result = (id = '') => again.app.workflows.handle(id).result();
    expect(await result(gets?.id)).toEqual(['received 1', 'received undefined']);
    expect(await result(sleeps?.id)).toEqual(['slept', 'received undefined']);
    expect(await result(gives?.id)).toEqual(['received undefined', 'received undefined']);
  });

  it('leaves no timer behind if the message comes first, even while the timeout is being recorded', async () => {
    class CountingClock extends VirtualClock {
      readonly set = new Set<object>();
      override at(...[at, fire, kind]: Parameters<VirtualClock['at']>): Timer {
        if (kind === 'background' || kind === 'tick') return super.at(at, fire, kind);
        const timer = super.at(at, () => this.set.delete(timer) && fire());
        this.set.add(timer);
        const cancel = (): void => {
          this.set.delete(timer);
          timer.cancel();
        };
        return { cancel };
      }
    }
    const clock = new CountingClock();
    const t = await backend.testApp({ workflows: [one], clock });
    const before = clock.set.size;
    for (let round = 0; round < 20; round++) {
      const handles = await Promise.all(Array.from({ length: 10 }, () => one.start(3_600_000)));
      for (const { id } of handles) {
        for (let turn = 0; turn < round; turn++) await new Promise((resolve) => setImmediate(resolve));
        void numbers.send(id, round);
      }
      expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(Array(10).fill(round));
    }
    await t.clock.advance(0);
    expect(clock.set.size).toBe(before);
  });

  it('does not pass early if it is longer than a timer can count', async () => {
    const month = workflow('month', () => numbers.receive({ timeout: '40 days' }));
    const t = await backend.testApp({ workflows: [month] });
    const handle = await month.start();
    const result = handle.result();
    await t.clock.advance('39 days');
    expect(await isSettled(t.clock, result)).toBe(false);
    await numbers.send(handle.id, 1);
    expect(await result).toBe(1);
  });

  it('is also a fixed instant for a workflow that waits for an event', async () => {
    const progress = event<number>('progress');
    const wants = workflow('wants', () => progress.get('nobody', { timeout: '60s' }));
    const t = await backend.testApp({ workflows: [wants] });
    const { id } = await wants.start();
    await t.clock.advance('30s');
    const again = await t.restart();
    const result = again.app.workflows.handle(id).result();
    await again.clock.advance(29_999);
    expect(await isSettled(again.clock, result)).toBe(false);
    await again.clock.advance(1);
    expect(await result).toBeUndefined();
  });
});
