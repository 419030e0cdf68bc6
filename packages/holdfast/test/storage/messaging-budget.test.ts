import { expect, it } from 'vitest';
import { event, run, stream, topic, workflow } from '../../src/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { gate } from '../support/faults.js';
import { openWire } from './wire.js';

/**
 * The exact cost of messaging in statements, counted on the wire on Postgres. The clock stands still, so background
 * services send nothing. Announcements are sent separately and not counted.
 */
describeBackends('the statement budget of messaging', (backend) => {
  const numbers = topic<number>('numbers');
  const progress = event<number>('progress');
  const lines = stream<number>('lines');
  const around = (...between: string[]) => ['workflows.insert', ...between, 'workflows.finish'];

  const programs: Record<string, [() => Promise<unknown>, string[]]> = {
    'a send in a workflow is one statement': [() => numbers.send('other', 1), ['steps.record-effects']],
    'several messages sent together are one statement': [
      () => numbers.sendAll([1, 2, 3].map((value) => ({ to: 'other', value }))),
      ['steps.record-effects'],
    ],
    'sends at the same time share one statement': [
      () => Promise.all([1, 2, 3].map((n) => numbers.send('other', n))),
      ['steps.record-effects'],
    ],
    'setting an event is one statement': [() => progress.set(1), ['steps.record-effects']],
    'setting an event in a step is one statement besides the one of the step': [
      () => run('step', () => progress.set(1)),
      ['events.set', 'steps.record'],
    ],
    'a write to a stream is one statement': [() => lines.write(1), ['steps.record-effects']],
    'a step that writes to streams costs one statement like any other step': [
      () => run('step', () => Promise.all([1, 2, 3].map((n) => lines.write(n)))),
      ['steps.record-effects'],
    ],
    'getting an event that is set is one query and one write': [
      () => progress.get('other'),
      ['events.read', 'steps.record'],
    ],
    'reading a value of a stream in a workflow is one query and one write': [
      () => lines.read('other').next(),
      ['streams.read', 'steps.record'],
    ],
    'receiving nothing, without waiting, is one query and one write': [
      () => topic('empty').receive({ timeout: 0 }),
      ['messages.waiting', 'steps.record'],
    ],
  };

  it.each(Object.entries(programs))('%s', async (_, [program, expected]) => {
    const meter = await launchMetered(backend, program);
    await meter.prepare();
    expect(await meter.measure(() => meter.wf())).toEqual(around(...expected));
  });

  it.each([1, 10])('receiving %i waiting messages at the same time is one query and one write', async (count) => {
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

  it('a receive that waits writes its deadline, queries again when notified, and writes its result', async () => {
    const meter = await launchMetered(backend, () => numbers.receive());
    const handle = await meter.wf.start();
    await meter.t.clock.advance(0);
    const made = await meter.measure(async () => {
      await numbers.send(handle.id, 1);
      await handle.result();
    });
    // A notification of Postgres may arrive during the query: then the receive queries once more.
    const rest = ['steps.record-effects', 'workflows.finish'];
    expect(made.filter((name) => name !== 'messages.waiting')).toEqual(['messages.send', ...rest]);
    expect(made.filter((name) => name === 'messages.waiting').length).toBeLessThanOrEqual(2);
  });

  it('concurrent sends from outside share one statement, and a single send is one statement', async () => {
    const meter = await launchMetered(backend, async () => {});
    await meter.prepare();
    expect(await meter.measure(() => numbers.send('other', 1))).toEqual(['messages.send']);
    const many = () => Promise.all(Array.from({ length: 90 }, (_, i) => numbers.send('other', i)));
    expect(await meter.measure(many)).toEqual(['messages.send']);
    const all = () => numbers.sendAll([1, 2].map((value) => ({ to: 'other', value })));
    expect(await meter.measure(all)).toEqual(['messages.sendAll', 'messages.known']);
  });

  it('an inbox is checked before each hundred messages to it, but not before the first', async () => {
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

  it('a thousand waiting gets are read in two statements, and once more after notifications arrive', async () => {
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
  // Sets an event and writes to a stream first, so that there is something to get and read.
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
    /** Returns the statements that this work sends to the database until the app is idle again. */
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
