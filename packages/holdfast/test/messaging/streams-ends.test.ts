import { expect, it } from 'vitest';
import { run, stream, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate } from '../support/faults.js';
import { readAll } from '../support/messaging.js';

/** How often the test races a reader against the end of its workflow. HOLDFAST_RACES=100000 runs all night. */
const races = Number(process.env.HOLDFAST_RACES ?? 1_000);

describeBackends('the end of a stream', (backend) => {
  const lines = stream<number>('lines');

  it('is its close: the reader ends while the workflow continues', async () => {
    const open = gate();
    const closes = workflow('closes', async () => {
      await lines.write(1);
      await lines.close();
      await run('hold', () => open.promise);
    });
    await backend.testApp({ workflows: [closes] });
    const handle = await closes.start();
    expect(await readAll(lines.read(handle.id))).toEqual([1]);
    open.open();
    await handle.result();
  });

  it('comes after the values of every successful step, whatever the timing of step and close', async () => {
    const races = workflow('races', async (turns: number) => {
      const ends = gate();
      const written = run('write', async () => {
        await lines.write(1);
        await ends.promise;
      }).then(
        () => 'written',
        (error) => error.code,
      );
      await run('meanwhile', () => {});
      ends.open();
      for (let i = 0; i < turns; i++) await null;
      await lines.close();
      return written;
    });
    await backend.testApp({ workflows: [races] });
    const outcomes = new Map<string, number[]>();
    for (let turns = 0; turns < 16; turns++) {
      const id = `after ${turns} turns`;
      const said = await races.with({ id })(turns);
      outcomes.set(`${id}: ${said}`, await readAll(lines.read(id)));
    }
    for (const [said, values] of outcomes) expect(values, said).toEqual(said.endsWith('written') ? [1] : []);
    expect([...outcomes.keys()].filter((said) => said.endsWith('STREAM_CLOSED'))).not.toEqual([]);
  });

  it('ends readers that start beyond the close and next() calls made ahead, while the workflow continues', async () => {
    const [close, end] = [gate(), gate()];
    const closes = workflow('closes', async () => {
      await lines.write(1);
      await run('hold', () => close.promise);
      await lines.close();
      await run('hold', () => end.promise);
    });
    const ahead = async (reader: AsyncIterableIterator<number>) =>
      (await Promise.all([reader.next(), reader.next(), reader.next(), reader.next()])).map(({ value }) => value);
    const reads = workflow('reads', (id: string) => ahead(lines.read(id)));
    const t = await backend.testApp({ workflows: [closes, reads] });
    const handle = await closes.start();
    const waiting = [ahead(lines.read(handle.id)), reads(handle.id)];
    const behind = [2, 3, 2 ** 31 - 1].map((from) => readAll(lines.read(handle.id, { from })));
    await t.clock.advance(0);
    close.open();
    const once = [1, undefined, undefined, undefined];
    expect(await Promise.all(waiting)).toEqual([once, once]);
    expect(await Promise.all(behind)).toEqual([[], [], []]);
    expect(await Promise.all([2, 3].map((from) => readAll(lines.read(handle.id, { from }))))).toEqual([[], []]);
    expect(await reads(handle.id)).toEqual(once);
    end.open();
    await handle.result();
  });

  it.each(['SUCCESS', 'ERROR', 'CANCELLED'])(
    'comes when its workflow ends (%s): waiting readers end at once and miss no value',
    async (status) => {
      const open = gate();
      const ends = workflow('ends', async () => {
        await lines.write(1);
        await run('hold', () => open.promise);
        await lines.write(2);
        if (status === 'ERROR') throw new Error('failed');
      });
      const reads = workflow('reads', async (id: string) => readAll(lines.read(id)));
      const t = await backend.testApp({ workflows: [ends, reads] });
      const handle = await ends.start();
      const reading = [readAll(lines.read(handle.id)), reads(handle.id)];
      await t.clock.advance(0);
      if (status === 'CANCELLED') await t.app.workflows.cancel(handle.id);
      else open.open();
      const expected = status === 'CANCELLED' ? [1] : [1, 2];
      expect(await Promise.all(reading)).toEqual([expected, expected]);
      expect(await handle.status()).toMatchObject({ status });
      expect(await readAll(lines.read(handle.id))).toEqual(expected);
    },
  );

  it('comes when its workflow ends without having written a value', async () => {
    const open = gate();
    const silent = workflow('silent', () => run('hold', () => open.promise));
    const t = await backend.testApp({ workflows: [silent] });
    const handle = await silent.start();
    const reading = readAll(lines.read(handle.id));
    await t.clock.advance(0);
    open.open();
    expect(await reading).toEqual([]);
  });

  it('is wherever the reader returns, even while it waits: no query for this reader follows', async () => {
    const open = gate();
    const waits = workflow('waits', async () => {
      await lines.write(1);
      await run('hold', () => open.promise);
      await lines.write(2);
    });
    const t = await backend.testApp({ workflows: [waits] });
    const handle = await waits.start();
    const reader = lines.read(handle.id);
    const nexts = [reader.next(), reader.next(), reader.next()];
    expect(await nexts[0]).toEqual({ done: false, value: 1 });
    await t.clock.advance(0);
    expect(await reader.return?.(9)).toEqual({ done: true, value: 9 });
    const end = { done: true, value: undefined };
    expect(await Promise.all([...nexts.slice(1), reader.next()])).toEqual([end, end, end]);
    const before = t.statements.length;
    await t.clock.advance('10m');
    expect(t.statements.slice(before).filter((name) => /stream/i.test(name))).toEqual([]);
    open.open();
    await handle.result();
  });

  it('comes after the values, in order, for next() calls that do not wait for each other', async () => {
    const writes = workflow('writes', async () => {
      for (const n of [1, 2, 3]) await lines.write(n);
    });
    await backend.testApp({ workflows: [writes] });
    const { id } = await writes.start();
    const reader = lines.read(id);
    const results = await Promise.all(Array.from({ length: 5 }, () => reader.next()));
    expect(results.map(({ value }) => value)).toEqual([1, 2, 3, undefined, undefined]);
    expect(results.map(({ done }) => done)).toEqual([false, false, false, true, true]);
  });

  it('is final: a later write fails with STREAM_CLOSED, in the workflow, in a step and in a replay', async () => {
    const hold = gate();
    const closes = workflow('closes', async () => {
      await lines.write(1);
      await lines.close();
      await lines.close();
      const first = await lines.write(2).catch((error) => error.code);
      await run('hold', () => hold.promise);
      const second = await lines.write(3).catch((error) => error.code);
      const inStep = await run('step', () => lines.write(4)).catch((error) => error.code);
      await stream<number>('others').write(5);
      return [first, second, inStep];
    });
    const t = await backend.testApp({ workflows: [closes] });
    const { id } = await closes.start();
    await t.clock.advance(0);
    const again = await t.restart();
    hold.open();
    expect(await again.app.workflows.handle(id).result()).toEqual(Array(3).fill('STREAM_CLOSED'));
    expect(await again.app.workflows.streams(id)).toEqual({ lines: [1], others: [5] });
  });

  it('causes no retry of a step that wrote before the close and succeeded after it', async () => {
    const [wrote, goOn] = [gate(), gate()];
    let calls = 0;
    const pays = workflow('pays', async () => {
      const body = async () => {
        calls++;
        await lines.write(1);
        wrote.open();
        await goOn.promise;
        return 'paid';
      };
      const late = run('pay', body, { retries: { max: 3, initial: 1 } }).catch((error) => error.code);
      await run('hold', () => wrote.promise);
      await lines.close();
      goOn.open();
      return late;
    });
    const t = await backend.testApp({ workflows: [pays] });
    expect([await t.clock.runUntil(pays()), calls]).toEqual(['STREAM_CLOSED', 1]);
  });

  it('is never followed by a value: a step that wrote before the close and ends after it fails', async () => {
    const [wrote, goOn] = [gate(), gate()];
    const closes = workflow('closes', async () => {
      const late = run('late', async () => {
        await lines.write(1);
        await stream<number>('others').write(2);
        wrote.open();
        await goOn.promise;
      }).catch((error) => error);
      await run('hold', () => wrote.promise);
      await lines.close();
      goOn.open();
      const { code, message } = await late;
      return { code, message };
    });
    const t = await backend.testApp({ workflows: [closes] });
    const handle = await closes.start();
    const message = expect.stringMatching(/"lines" of workflow ".*" was closed while a step .* Await the steps/);
    expect(await handle.result()).toEqual({ code: 'STREAM_CLOSED', message });
    expect(await readAll(lines.read(handle.id))).toEqual([]);
    expect(await t.app.workflows.streams(handle.id)).toEqual({ lines: [] });
  });

  it('never hides the last value from a reader, whatever the timing of reader and end', async () => {
    const ends = workflow('ends', async (closes: boolean) => {
      await lines.write(1);
      await lines.write(2);
      if (closes) await lines.close();
    });
    await backend.testApp({ workflows: [ends] });
    const wave = 50;
    for (let round = 0; round < races; round += wave) {
      const reads = Array.from({ length: wave }, async (_, i) => {
        const handle = await ends.start(i % 2 === 0);
        for (let turn = 0; turn < i % 5; turn++) await new Promise((resolve) => setImmediate(resolve));
        return readAll(lines.read(handle.id));
      });
      expect(await Promise.all(reads)).toEqual(Array(wave).fill([1, 2]));
    }
  });

  it('comes after all values, however often the workflow is killed while it writes', async () => {
    const total = 12;
    const writes = workflow('writes', async () => {
      for (let i = 0; i < total; i += 2) {
        await lines.write(i);
        await run('step', () => lines.write(i + 1));
      }
      await lines.close();
    });
    const start = { workflows: [writes], version: 'v' };
    let t = await backend.testApp(start);
    await writes.with({ id: 'w' }).start();
    for (let crash = 0; crash < 8; crash++) {
      for (let turn = 0; turn < 3 + crash; turn++) await new Promise((resolve) => setImmediate(resolve));
      t = await t.restart();
    }
    expect(await readAll(lines.read('w'))).toEqual(Array.from({ length: total }, (_, i) => i));
  });

  it('does not come when the app shuts down: the reader gets an error instead', async () => {
    const open = gate();
    const holds = workflow('holds', async () => {
      await lines.write(1);
      await run('hold', () => open.promise);
    });
    const t = await backend.testApp({ workflows: [holds] });
    const handle = await holds.start();
    const reading = failure(readAll(lines.read(handle.id)));
    await t.clock.advance(0);
    await t.app.shutdown();
    expect(await reading).toMatchObject({ code: 'APP_CLOSED' });
  });
});
