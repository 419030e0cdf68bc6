import { expect, it } from 'vitest';
import { event, run, stream, topic, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { gate } from '../support/faults.js';
import { openWire } from './wire.js';

/**
 * What talking costs, exactly, in statements; on Postgres as counted on the wire. The clock stands still, so that nothing
 * is sent by any background service. News goes out beside it, and is counted apart.
 */
describeBackends('statement budget of talking', (backend) => {
  const numbers = topic<number>('numbers');
  const progress = event<number>('progress');
  const lines = stream<number>('lines');
  const around = (...between: string[]) => ['workflows.insert', ...between, 'workflows.finish'];

  const programs: Record<string, [() => Promise<unknown>, string[]]> = {
    'a send in a workflow is one statement': [() => numbers.send('other', 1), ['steps.record-effects']],
    'several sent together are one statement': [
      () => numbers.sendAll([1, 2, 3].map((value) => ({ to: 'other', value }))),
      ['steps.record-effects'],
    ],
    'sends at the same time share one statement': [
      () => Promise.all([1, 2, 3].map((n) => numbers.send('other', n))),
      ['steps.record-effects'],
    ],
    'setting an event is one statement': [() => progress.set(1), ['steps.record-effects']],
    'setting an event in a step is one statement beside the step’s': [
      () => run('step', () => progress.set(1)),
      ['events.set', 'steps.record'],
    ],
    'a write to a stream is one statement': [() => lines.write(1), ['steps.record-effects']],
    'a step that writes to streams costs what a step costs': [
      () => run('step', () => Promise.all([1, 2, 3].map((n) => lines.write(n)))),
      ['steps.record-effects'],
    ],
    'getting an event that is set is one look and one write': [
      () => progress.get('other'),
      ['events.read', 'steps.record'],
    ],
    'reading a value of a stream in a workflow is one look and one write': [
      () => lines.read('other').next(),
      ['streams.read', 'steps.record'],
    ],
    'receiving nothing, without waiting, is one look and one write': [
      () => topic('empty').receive({ timeout: 0 }),
      ['messages.waiting', 'steps.record'],
    ],
  };

  it.each(Object.entries(programs))('%s', async (_, [program, expected]) => {
    const meter = await launchMetered(backend, program);
    await meter.prepare();
    expect(await meter.measure(() => meter.wf())).toEqual(around(...expected));
  });

  it.each([1, 10])('receiving %i that wait, at the same time, is one look and one write', async (count) => {
    const hold = gate();
    const meter = await launchMetered(backend, async () => {
      await run('hold', () => hold.promise);
      await Promise.all(Array.from({ length: count }, () => numbers.receive()));
    });
    const handle = await meter.wf.start();
    for (let i = 0; i < count; i++) await numbers.send(handle.id, i);
    await meter.t.clock.advance(0);
    const made = await meter.measure(async () => {
      hold.open();
      await handle.result();
    });
    expect(made).toEqual(['steps.record', 'messages.waiting', 'steps.record-effects', 'workflows.finish']);
  });

  it('a receive that has to wait writes its deadline, looks again when there is news, and is written', async () => {
    const meter = await launchMetered(backend, () => numbers.receive());
    const handle = await meter.wf.start();
    await meter.t.clock.advance(0);
    const made = await meter.measure(async () => {
      await numbers.send(handle.id, 1);
      await handle.result();
    });
    // The news of Postgres itself may come while it still looks: then it looks once more.
    const rest = ['steps.record-effects', 'workflows.finish'];
    expect(made.filter((name) => name !== 'messages.waiting')).toEqual(['messages.send', ...rest]);
    expect(made.filter((name) => name === 'messages.waiting').length).toBeLessThanOrEqual(2);
  });

  it('sends from outside at the same time share one statement, and a send one', async () => {
    const meter = await launchMetered(backend, async () => {});
    await meter.prepare();
    expect(await meter.measure(() => numbers.send('other', 1))).toEqual(['messages.send']);
    const many = () => Promise.all(Array.from({ length: 90 }, (_, i) => numbers.send('other', i)));
    expect(await meter.measure(many)).toEqual(['messages.send']);
    const all = () => numbers.sendAll([1, 2].map((value) => ({ to: 'other', value })));
    expect(await meter.measure(all)).toEqual(['messages.sendAll', 'messages.known']);
  });

  it('an inbox is looked into before each hundred messages to it, and not before the first', async () => {
    const meter = await launchMetered(backend, async () => {});
    await meter.prepare();
    const some = async (count: number): Promise<string[]> => [
      ...(await meter.measure(() => numbers.sendAll(Array.from({ length: count }, () => ({ to: 'other', value: 1 }))))),
    ];
    const sending = ['messages.sendAll', 'messages.known'];
    expect(await some(100)).toEqual(sending);
    expect(await some(2)).toEqual(['messages.inboxState', ...sending]);
    expect(await some(98)).toEqual(sending);
    expect(await some(1_000)).toEqual(['messages.inboxState', ...sending]);
    expect(await meter.measure(() => numbers.send('measured-not', 1).catch(() => {}))).not.toContain(
      'messages.inboxState',
    );
  });

  it('a thousand who wait are asked for in two statements, and once more each when they are heard', async () => {
    const meter = await launchMetered(backend, async () => {});
    const made = await meter.measure(async () => {
      const waiting = Array.from({ length: 1_000 }, (_, i) => progress.get(`nobody ${i}`, { timeout: '1h' }));
      await meter.t.clock.advance(0);
      void Promise.allSettled(waiting);
    });
    expect(new Set(made)).toEqual(new Set(['events.read']));
    expect(made.length).toBeGreaterThanOrEqual(2);
    expect(made.length).toBeLessThanOrEqual(backend.name === 'sqlite' ? 2 : 6);
  });
});

async function launchMetered(backend: Backend, program: () => Promise<unknown>) {
  const url = await backend.newDatabase();
  const wire = backend.name === 'postgres' ? await openWire(url) : undefined;
  const hold = gate();
  const wf = workflow('measured', async () => {
    await program();
  });
  // Talks to itself first, so that there is something to get, read and receive.
  const other = workflow('other', async () => {
    await event<number>('progress').set(1);
    await stream<number>('lines').write(1);
    await run('hold', () => hold.promise);
  });
  const t = await backend.testApp({ database: wire?.url ?? url, workflows: [wf, other] });
  return {
    t,
    wf: Object.assign(() => wf.with({ id: 'measured' })(), { start: () => wf.with({ id: 'measured' }).start() }),
    prepare: async () => {
      await other.with({ id: 'other' }).start();
      await t.clock.advance(0);
    },
    /** What this work sends to the database until the app is at rest again. */
    measure: async (work: () => Promise<unknown>): Promise<string[]> => {
      wire?.reset();
      const before = t.statements.length;
      await work();
      await t.clock.advance(0);
      const probed = t.statements.slice(before).filter((name) => name !== 'signals.announce');
      if (wire) {
        const sent = wire.statements.filter((text) => !/^(set |(un)?listen |signals\.announce)/.test(text));
        expect([...sent].sort()).toEqual([...probed].sort());
      }
      return probed;
    },
  };
}
