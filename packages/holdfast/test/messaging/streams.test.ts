import { expect, it } from 'vitest';
import { run, type Serializer, stream, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate } from '../support/faults.js';
import { readAll } from '../support/messaging.js';

// The end of a stream is tested in streams-ends.test.ts.
describeBackends('streams', (backend) => {
  const lines = stream<number>('lines');
  const writes = workflow('writes', async (count: number) => {
    for (let i = 0; i < count; i++) await lines.write(i);
    await lines.close();
  });
  const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

  it('give every value in order, live or afterwards, to any number of readers', async () => {
    await backend.testApp({ workflows: [writes] });
    const handle = await writes.start(250);
    const live = [readAll(lines.read(handle.id)), readAll(lines.read(handle.id))];
    await handle.result();
    const after = [readAll(lines.read(handle.id)), readAll(lines.read(handle.id))];
    for (const read of await Promise.all([...live, ...after])) expect(read).toEqual(upTo(250));
  });

  it('can be read from any position', async () => {
    await backend.testApp({ workflows: [writes] });
    const handle = await writes.start(10);
    await handle.result();
    expect(await readAll(lines.read(handle.id, { from: 7 }))).toEqual([7, 8, 9]);
    expect(await readAll(lines.read(handle.id, { from: 10 }))).toEqual([]);
    expect(await readAll(lines.read(handle.id, { from: 2 ** 31 - 1 }))).toEqual([]);
  });

  it('show each value as soon as it is written', async () => {
    const gates = [gate(), gate()];
    const paced = workflow('paced', async () => {
      await lines.write(0);
      await run('first', () => gates[0]?.promise);
      await lines.write(1);
      await run('second', () => gates[1]?.promise);
    });
    const t = await backend.testApp({ workflows: [paced] });
    const { id } = await paced.start();
    const reader = lines.read(id);
    expect(await reader.next()).toEqual({ done: false, value: 0 });
    const next = reader.next();
    await t.clock.advance(0);
    gates[0]?.open();
    expect(await next).toEqual({ done: false, value: 1 });
    gates[1]?.open();
    expect(await reader.next()).toEqual({ done: true, value: undefined });
  });

  it('can be abandoned by a reader at any time', async () => {
    await backend.testApp({ workflows: [writes] });
    const handle = await writes.start(5);
    for await (const line of lines.read(handle.id)) if (line === 2) break;
    await handle.result();
    expect(await readAll(lines.read(handle.id))).toEqual(upTo(5));
  });

  it('keep the order of write and close calls, even of calls that are not awaited', async () => {
    const hasty = workflow('hasty', async () => {
      const all = upTo(20).map((i) => lines.write(i));
      await Promise.all([...all, lines.close()]);
    });
    await backend.testApp({ workflows: [hasty] });
    const handle = await hasty.start();
    await handle.result();
    expect(await readAll(lines.read(handle.id))).toEqual(upTo(20));
  });

  it('keep the order of calls when the serializer takes longer for one value than for the next', async () => {
    const serializer: Serializer = {
      name: 'slow',
      stringify: async (value) => {
        await new Promise((resolve) => setTimeout(resolve, typeof value === 'number' ? (9 - value) % 4 : 0));
        return JSON.stringify({ value });
      },
      parse: (text) => (JSON.parse(text) as { value: unknown }).value,
    };
    const hasty = workflow('hasty', async () => {
      await run('step', () => void upTo(5).map((i) => lines.write(i)));
      await Promise.all([...[5, 6, 7, 8, 9].map((i) => lines.write(i)), lines.close()]);
    });
    await backend.testApp({ workflows: [hasty], serializer });
    const handle = await hasty.start();
    await handle.result();
    expect(await readAll(lines.read(handle.id))).toEqual(upTo(10));
  });

  it('contain what a step wrote, awaited or not, once the step succeeded and not before', async () => {
    const open = gate();
    const inStep = workflow('in-step', async () => {
      await lines.write(0);
      await run('step', async () => {
        await lines.write(1);
        void lines.write(2);
        await open.promise;
        void lines.write(3);
      });
      await lines.write(4);
    });
    const t = await backend.testApp({ workflows: [inStep] });
    const handle = await inStep.start();
    await t.clock.advance(0);
    expect(await t.app.workflows.streams(handle.id)).toEqual({ lines: [0] });
    open.open();
    await handle.result();
    expect(await t.app.workflows.streams(handle.id)).toEqual({ lines: upTo(5) });
  });

  it('contain nothing from a failed attempt or a failed step', async () => {
    let attempts = 0;
    const retried = workflow('retried', async () => {
      await run(
        'retried',
        async () => {
          await lines.write(attempts);
          if (attempts++ < 2) throw new Error('again');
        },
        { retries: { max: 5, initial: 1 } },
      );
      await run('fails', async () => {
        await lines.write(99);
        throw new Error('for good');
      }).catch(() => {});
      await run('unstorable', async () => {
        await lines.write(98);
        return () => {};
      }).catch(() => {});
    });
    const t = await backend.testApp({ workflows: [retried] });
    const handle = await retried.start();
    await t.clock.runUntil(handle.result());
    expect(await t.app.workflows.streams(handle.id)).toEqual({ lines: [2] });
  });

  it('refuse a value that a step writes after it has ended', async () => {
    const late = gate<unknown>();
    const writesLate = workflow('late', async () => {
      await run('step', () => {
        setTimeout(() => lines.write(1).catch(late.open), 0);
      });
      await run('wait', () => late.promise);
    });
    const t = await backend.testApp({ workflows: [writesLate] });
    const handle = await writesLate.start();
    expect(await late.promise).toMatchObject({ code: 'UNSUPPORTED_CALL' });
    await handle.result();
    expect(await t.app.workflows.streams(handle.id)).toEqual({});
  });

  it('refuse a value that cannot be stored and accept the next one; a step may catch the error', async () => {
    const anything = stream<unknown>('anything');
    const bad = workflow('bad', async () => {
      const inWorkflow = await anything.write(() => {}).catch((error) => error.code);
      const inStep = await run('step', async () => {
        void anything.write(Symbol('nobody waits for this one'));
        const code = await anything.write(() => {}).catch((error) => error.code);
        await anything.write('good');
        return code;
      });
      return [inWorkflow, inStep];
    });
    const t = await backend.testApp({ workflows: [bad] });
    const handle = await bad.start();
    expect(await handle.result()).toEqual(['UNSERIALIZABLE', 'UNSERIALIZABLE']);
    expect(await t.app.workflows.streams(handle.id)).toEqual({ anything: ['good'] });
  });

  it('refuse the one text that marks the end of a stream', async () => {
    const texts = stream<string>('texts');
    const bad = workflow('bad', () => texts.write('__DBOS_STREAM_CLOSED__'), { serialization: 'portable' });
    await backend.testApp({ workflows: [bad] });
    expect(await failure(bad())).toMatchObject({ code: 'UNSERIALIZABLE' });
  });

  it('are recorded when a workflow reads them: a replay reads the same values without a query', async () => {
    const [first, second] = [gate(), gate()];
    const slow = workflow('slow', async () => {
      await lines.write(0);
      await run('hold', () => first.promise);
      await lines.write(1);
    });
    const reads = workflow('reads', async (id: string) => {
      const got: number[] = [];
      for await (const line of lines.read(id)) {
        got.push(line);
        if (line === 0) await run('hold', () => second.promise);
      }
      return got;
    });
    const t = await backend.testApp({ workflows: [slow, reads] });
    const writing = await slow.start();
    const reading = await reads.start(writing.id);
    await t.clock.advance(0);
    const again = await t.restart();
    first.open();
    second.open();
    expect(await again.app.workflows.handle(reading.id).result()).toEqual([0, 1]);
    const steps = await again.app.workflows.steps(reading.id);
    expect(steps.filter((step) => step.name === 'DBOS.readStream')).toHaveLength(3);
  });

  it('cannot be read from a workflow that does not exist, neither in a workflow nor outside', async () => {
    const reads = workflow('reads', async () => readAll(lines.read('nobody')));
    await backend.testApp({ workflows: [reads] });
    expect(await failure(readAll(lines.read('nobody')))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    expect(await failure(reads())).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
  });

  it('can be written and closed only by their workflow, and closed only outside its steps', async () => {
    const closesInStep = workflow('closes', () => run('step', () => lines.close()));
    await backend.testApp({ workflows: [closesInStep] });
    await expect(async () => lines.write(1)).rejects.toMatchObject({ code: 'NOT_IN_WORKFLOW' });
    await expect(async () => lines.close()).rejects.toMatchObject({ code: 'NOT_IN_WORKFLOW' });
    expect(await failure(closesInStep())).toMatchObject({ code: 'UNSUPPORTED_CALL' });
  });
});
