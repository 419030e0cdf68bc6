import { expect, it, onTestFinished } from 'vitest';
import { connect, event, run, type Serializer, stream, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, gate, isSettled, tamper } from '../support/faults.js';
import { readAll } from '../support/messaging.js';

describeBackends('events', (backend) => {
  const progress = event<number>('progress');

  it('show the last value that was set, even after the workflow ended', async () => {
    const counts = workflow('counts', async () => {
      for (const n of [1, 2, 3]) await progress.set(n);
    });
    await backend.testApp({ workflows: [counts] });
    const handle = await counts.start();
    await handle.result();
    expect(await progress.get(handle.id)).toBe(3);
  });

  it('wake every waiting caller at once', async () => {
    const open = gate();
    const sets = workflow('sets', async () => {
      await run('hold', () => open.promise);
      await progress.set(7);
    });
    const wants = workflow('wants', (id: string) => progress.get(id));
    const t = await backend.testApp({ workflows: [sets, wants] });
    const { id } = await sets.start();
    const waiting = [progress.get(id), progress.get(id), wants(id), wants(id)];
    await t.clock.advance(0);
    open.open();
    expect(await Promise.all(waiting)).toEqual([7, 7, 7, 7]);
  });

  it('can be requested before their workflow exists', async () => {
    const sets = workflow('sets', () => progress.set(1));
    const t = await backend.testApp({ workflows: [sets] });
    const wanted = progress.get('later');
    await t.clock.advance('10s');
    await sets.with({ id: 'later' }).start();
    expect(await wanted).toBe(1);
  });

  it('are undefined at once if their workflow ended without setting them, even for waiting callers', async () => {
    const open = gate();
    const ends = workflow('ends', async (how: string) => {
      await run('hold', () => open.promise);
      if (how === 'ERROR') throw new Error('failed');
    });
    const wants = workflow('wants', (id: string) => progress.get(id, { timeout: '1h' }));
    const t = await backend.testApp({ workflows: [ends, wants] });
    const handles = await Promise.all(['SUCCESS', 'ERROR'].map((how) => ends.start(how)));
    const waiting = handles.flatMap(({ id }) => [progress.get(id, { timeout: '1h' }), wants(id)]);
    await t.clock.advance(0);
    open.open();
    expect(await Promise.all(waiting)).toEqual(Array(4).fill(undefined));
    for (const { id } of handles) expect(await progress.get(id, { timeout: '1h' })).toBeUndefined();
  });

  it('keep callers waiting while the workflow is cancelled, because it may be resumed', async () => {
    const sets = workflow('sets', async () => {
      await run('hold', () => open.promise);
      await progress.set(1);
    });
    const open = gate();
    const t = await backend.testApp({ workflows: [sets] });
    const { id } = await sets.start();
    const wanted = progress.get(id, { timeout: '1h' });
    await t.clock.advance(0);
    await t.app.workflows.cancel(id);
    expect(await isSettled(t.clock, wanted)).toBe(false);
    open.open();
    await t.app.workflows.resume(id);
    expect(await t.clock.runUntil(wanted)).toBe(1);
  });

  it('reach every caller that still waits; a caller that times out wakes no other caller', async () => {
    const open = gate();
    const sets = workflow('sets', async () => {
      await run('hold', () => open.promise);
      await progress.set(5);
    });
    const wants = workflow('wants', (id: string, timeout: number) => progress.get(id, { timeout }));
    const t = await backend.testApp({ workflows: [sets, wants] });
    const { id } = await sets.start();
    const seconds = Array.from({ length: 20 }, (_, i) => (i * 7) % 20);
    const outside = seconds.map((s) => progress.get(id, { timeout: s * 1_000 }));
    const inside = await Promise.all(seconds.map((s) => wants.start(id, s * 1_000)));
    const results = inside.map((handle) => handle.result());
    await t.clock.advance('10s');
    for (const [i, promise] of [...outside, ...results].entries()) {
      expect(await isSettled(t.clock, promise)).toBe((seconds[i % 20] ?? 0) <= 10);
    }
    open.open();
    const expected = seconds.map((s) => (s <= 10 ? undefined : 5));
    expect(await Promise.all(outside)).toEqual(expected);
    expect(await Promise.all(results)).toEqual(expected);
  });

  it('are recorded when a workflow gets them: a replay gets the same value', async () => {
    const [first, second] = [gate(), gate()];
    const sets = workflow('sets', async () => {
      await progress.set(1);
      await run('hold', () => first.promise);
      await progress.set(2);
    });
    const wants = workflow('wants', async (id: string) => {
      const [value, none] = [await progress.get(id), await progress.get('nobody', { timeout: 0 })];
      await run('hold', () => second.promise);
      return [value, none, await progress.get(id)];
    });
    const t = await backend.testApp({ workflows: [sets, wants] });
    const setting = await sets.start();
    const { id } = await wants.start(setting.id);
    await t.clock.advance(0);
    first.open();
    await setting.result();
    const again = await t.restart();
    await sets.with({ id: 'nobody' })();
    second.open();
    expect(await again.app.workflows.handle(id).result()).toEqual([1, undefined, 2]);
  });

  it('keep a history of every value, by step', async () => {
    let attempts = 0;
    const sets = workflow('sets', async () => {
      await progress.set(1);
      await run(
        'step',
        async () => {
          await progress.set(10 + attempts);
          if (attempts++ === 0) throw new Error('again');
        },
        { retries: { max: 1, initial: 1 } },
      );
      await progress.set(3);
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [sets], database });
    await t.clock.runUntil(sets.with({ id: 'x' })());
    const sql = 'select function_id, key, value from workflow_events_history order by function_id';
    const rows = await tamper(database, sql);
    expect(rows.map((row) => [Number(row.function_id), row.key])).toEqual([0, 1, 2].map((n) => [n, 'progress']));
    expect(rows.map((row) => JSON.parse(String(row.value)).json)).toEqual([1, 11, 3]);
    expect(await tamper(database, 'select 1 from workflow_events')).toHaveLength(1);
  });

  it('are visible while the step that sets them still runs, and stay if the step fails', async () => {
    const open = gate();
    const sets = workflow('sets', () =>
      run('step', async () => {
        await progress.set(1);
        await open.promise;
        throw new Error('failed');
      }),
    );
    await backend.testApp({ workflows: [sets] });
    const handle = await sets.start();
    expect(await progress.get(handle.id)).toBe(1);
    open.open();
    await failure(handle.result());
    expect(await progress.get(handle.id)).toBe(1);
  });

  it('are not set again by a replay if they were set before the crash', async () => {
    const hold = gate();
    const sets = workflow('sets', async () => {
      await progress.set(1);
      await run('hold', () => hold.promise);
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [sets], database });
    const { id } = await sets.start();
    await t.clock.advance(0);
    await t.crash();
    await tamper(database, "update workflow_events set value = '9', serialization = 'portable_json'");
    const again = await t.restart();
    hold.open();
    await again.app.workflows.handle(id).result();
    expect(await progress.get(id)).toBe(9);
  });

  it('keep the value of the later call when set twice without waiting, however slow the serializer is', async () => {
    const laterIsText = gate();
    const serializer: Serializer = {
      name: 'slow',
      stringify: async (value) => {
        if (value === 1) await laterIsText.promise;
        if (value === 2) laterIsText.open();
        return JSON.stringify({ value });
      },
      parse: (text) => (JSON.parse(text) as { value: unknown }).value,
    };
    const sets = workflow('sets', async () => {
      await Promise.all([progress.set(1), progress.set(2)]);
    });
    await backend.testApp({ workflows: [sets], serializer });
    const handle = await sets.start();
    await handle.result();
    expect(await progress.get(handle.id)).toBe(2);
  });

  it('have the value of the last unawaited call in a step before the step ends', async () => {
    const sets = workflow('sets', async () => {
      const seen: (number | undefined)[] = [];
      for (let round = 0; round < 10; round++) {
        await run('step', () => {
          for (let n = 0; n < 10; n++) void progress.set(10 * round + n);
        });
        seen.push(await progress.get('x'));
      }
      await run('fails', () => {
        for (let n = 200; n < 210; n++) void progress.set(n);
        throw new Error('failed');
      }).catch(() => {});
      await progress.set(300);
      return seen;
    });
    const t = await backend.testApp({ workflows: [sets] });
    expect(await sets.with({ id: 'x' })()).toEqual(Array.from({ length: 10 }, (_, round) => 10 * round + 9));
    await t.clock.advance(0);
    expect(await progress.get('x')).toBe(300);
  });

  it('cannot be set by a step or an attempt that has already ended', async () => {
    const late = gate<unknown[]>();
    const sets = workflow('sets', async () => {
      const codes: unknown[] = [];
      const open = gate();
      const setLater = async () => {
        await open.promise;
        codes.push(await progress.set(1).catch((error) => error.code));
        if (codes.length === 2) late.open(codes);
      };
      let attempts = 0;
      const attempt = () => {
        void setLater();
        if (attempts++ === 0) throw new Error('again');
      };
      await run('step', attempt, { retries: { max: 1, initial: 1 } });
      await progress.set(2);
      open.open();
      return run('wait', () => late.promise);
    });
    const t = await backend.testApp({ workflows: [sets] });
    const handle = await sets.start();
    expect(await t.clock.runUntil(handle.result())).toEqual(['UNSUPPORTED_CALL', 'UNSUPPORTED_CALL']);
    expect(await progress.get(handle.id)).toBe(2);
  });

  it('stay separate when the IDs and keys of two workflows join to the same text', async () => {
    const [c, bc] = [event<string>('c'), event<string>('b::c')];
    const one = workflow('one', () => c.set('of a::b'));
    const two = workflow('two', () => bc.set('of a'));
    const t = await backend.testApp({ workflows: [one, two] });
    const wanted = [c.get('a::b'), bc.get('a')];
    await t.clock.advance(0);
    await one.with({ id: 'a::b' })();
    await two.with({ id: 'a' })();
    expect(await Promise.all(wanted)).toEqual(['of a::b', 'of a']);
    expect(await Promise.all([c.get('a::b'), bc.get('a')])).toEqual(['of a::b', 'of a']);
  });

  it('of another app are read in the format of that app, and recorded in the format of the reader', async () => {
    const lines = stream<object>('lines');
    const shown = event<object>('shown');
    const shows = workflow('shows', async () => {
      await shown.set({ a: 1 });
      await lines.write({ b: 2 });
    });
    const serializer: Serializer = {
      name: 'secret',
      stringify: (value) => `~${JSON.stringify(value ?? null)}`,
      parse: (text) => JSON.parse(text.slice(1)),
    };
    const { app } = await backend.testApp({ name: 'other', workflows: [shows], serializer });
    await shows.with({ id: 'w', app })();
    const hold = gate();
    const wants = workflow('wants', async () => {
      const got = [await shown.get('w', { app }), ...(await readAll(lines.read('w', { app })))];
      await run('hold', () => hold.promise);
      return got;
    });
    const t = await backend.testApp({ name: 'own', workflows: [wants] });
    await wants.with({ id: 'own' }).start();
    await t.clock.advance(0);
    const again = await t.restart();
    hold.open();
    expect(await again.app.workflows.handle('own').result()).toEqual([{ a: 1 }, { b: 2 }]);
  });

  it('fail with APP_CLOSED, also in a replay, if the client closes while a workflow waits through it', async () => {
    const database = await backend.newDatabase();
    const [written, hold] = [gate(), gate()];
    const lines = stream<number>('lines');
    const holds = workflow('holds', () => run('hold', () => hold.promise));
    const other = await backend.testApp({ name: 'other', database, workflows: [holds] });
    await holds.with({ id: 'w', app: other.app }).start();
    let app = await connect({ database, logger: silent });
    const wants = workflow('wants', async () => {
      const waits = [progress.get('w', { app, timeout: '1d' }), lines.read('w', { app }).next()];
      const codes = await Promise.all(waits.map((wait) => wait.catch((error) => error.code)));
      await run(`after ${codes}`, () => written.open());
      await run('hold', () => hold.promise);
      return codes;
    });
    const t = await backend.testApp({ name: 'own', workflows: [wants] });
    await wants.with({ id: 'own' }).start();
    await t.clock.advance(0);
    await app.close();
    await written.promise;
    await t.clock.advance(0);
    app = await connect({ database, logger: silent });
    onTestFinished(() => app.close());
    const again = await t.restart();
    hold.open();
    expect(await again.app.workflows.handle('own').result()).toEqual(['APP_CLOSED', 'APP_CLOSED']);
  });

  it('carry undefined and null, which both count as set', async () => {
    const anything = event<unknown>('anything');
    const sets = workflow('sets', async (value: unknown) => anything.set(value));
    const t = await backend.testApp({ workflows: [sets] });
    for (const value of [undefined, null]) {
      const handle = await sets.start(value);
      await handle.result();
      expect(await anything.get(handle.id)).toBe(value);
      expect(await t.app.workflows.events(handle.id)).toEqual({ anything: value });
    }
  });

  it('can be set only by a workflow; a value that cannot be stored is refused and changes nothing', async () => {
    const anything = event<unknown>('anything');
    const sets = workflow('sets', async () => {
      await anything.set(1);
      const inWorkflow = await anything.set(() => {}).catch((error) => error.code);
      const inStep = await run('step', () => anything.set(() => {})).catch((error) => error.code);
      return [inWorkflow, inStep];
    });
    await backend.testApp({ workflows: [sets] });
    await expect(async () => anything.set(1)).rejects.toMatchObject({ code: 'NOT_IN_WORKFLOW' });
    const handle = await sets.start();
    expect(await handle.result()).toEqual(['UNSERIALIZABLE', 'UNSERIALIZABLE']);
    expect(await anything.get(handle.id)).toBe(1);
  });
});
