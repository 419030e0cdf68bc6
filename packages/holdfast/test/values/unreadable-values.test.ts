import { expect, it } from 'vitest';
import { event, queue, run, schedule, sleep, stream, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate, tamper } from '../support/faults.js';
import { unreadable, unreadableKinds } from '../support/unreadable.js';

// P8. Bad input is a typed error, before any side effect. A value that cannot be read is never committed.
describeBackends('a value that cannot be read back', (backend) => {
  const progress = event<unknown>('progress');
  const lines = stream<unknown>('lines');
  const letters = topic<unknown>('letters');
  const refusal = { code: 'UNSERIALIZABLE', message: /cannot be stored: reading back its text threw/ };

  it.each(unreadableKinds)('ends the workflow that returns it with a readable ERROR: %s', async (kind) => {
    const wf = workflow('wf', async () => unreadable(kind).value());
    const t = await backend.testApp({ workflows: [wf], ...unreadable(kind).launch });
    const live = await failure(wf.with({ id: 'w' })());
    expect(live).toMatchObject(refusal);
    expect(live.message).toMatch(/^The result of workflow "wf"/);
    expect(await t.app.workflows.get('w')).toMatchObject({ status: 'ERROR', error: refusal });
    const again = await t.restart();
    const { message } = await failure(again.app.workflows.handle('w').result());
    expect(message).toBe(live.message);
  });

  /** Each call fails in the workflow, which catches the error, and fails again in a replay. */
  const says: Record<string, (value: unknown) => Promise<unknown>> = {
    'the result of a step': (value) => run('step', () => value),
    'an event': (value) => progress.set(value),
    'an event set in a step': (value) => run('step', () => progress.set(value)),
    'a value of a stream': (value) => lines.write(value),
    'a value of a stream written in a step': (value) => run('step', () => lines.write(value)),
    'a message': (value) => letters.send('w', value),
    'a message sent in a step': (value) => run('step', () => letters.send('w', value)),
  };

  it.each(Object.keys(says))('is refused as %s, and a replay gives the same message', async (what) => {
    for (const kind of unreadableKinds) {
      const seen: string[] = [];
      let steps = 0;
      const wf = workflow('wf', async () => {
        await run('before', () => void steps++);
        const error = await failure((says[what] as (value: unknown) => Promise<unknown>)(unreadable(kind).value()));
        seen.push(`${error.code} ${error.message}`);
        await sleep('1h');
        return seen.length;
      });
      const database = await backend.newDatabase();
      const t = await backend.testApp({ workflows: [wf], database, ...unreadable(kind).launch });
      await wf.with({ id: 'w' }).start();
      await t.clock.advance('1m');
      const again = await t.restart();
      expect(await again.clock.runUntil(again.app.workflows.handle('w').result())).toBe(2);
      expect(seen[0]).toMatch(/^UNSERIALIZABLE .*cannot be stored: reading back/);
      expect(seen[1]).toBe(seen[0]);
      expect(steps).toBe(1);
      for (const table of ['workflow_events', 'streams', 'notifications']) {
        expect(await tamper(database, `select * from ${table}`)).toEqual([]);
      }
    }
  });

  it.each(unreadableKinds)('is refused as input of every kind before anything is stored: %s', async (kind) => {
    const { launch, value } = unreadable(kind);
    const wf = workflow('wf', async (_: unknown) => 1);
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [wf], queues: [queue('q')], database, ...launch });
    const refused = [
      wf.start(value()),
      wf.with({ queue: 'q' }).start(value()),
      wf.with({ queue: 'q' }).startAll([[1], [value()]]),
      letters.send('nobody', value()),
      t.app.schedules.create(schedule('tick', '* * * * *', wf, { context: value() })),
    ];
    for (const each of refused) expect(await failure(each)).toMatchObject(refusal);
    expect(await t.app.workflows.list()).toEqual([]);
    expect(await t.app.schedules.list()).toEqual([]);
  });
});

describeBackends("a child's result that the parent's process cannot read", (backend) => {
  it.each(['its text', 'its format'])('is recorded as a failure in the parent: %s', async (what) => {
    const seen: unknown[] = [];
    let charged = 0;
    const started = gate();
    const child = workflow('child', async () => 'fine');
    const parent = workflow('parent', async () => {
      const handle = await child.with({ id: 'c' }).start();
      started.open();
      await sleep('1m');
      const error = await failure(handle.result());
      seen.push([error.name, error.code, error.message]);
      await run('charge', () => void charged++);
      await sleep('1h');
      return seen.length;
    });
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [child, parent], database });
    const { id } = await parent.start();
    await started.promise;
    await t.app.workflows.handle('c').result();
    const broken = what === 'its text' ? "output = 'cut off'" : "serialization = 'py_pickle'";
    await tamper(database, `update workflow_status set ${broken} where workflow_uuid = 'c'`);
    await t.clock.advance('2m');
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe(2);
    expect(seen[0]).toMatchObject([
      'HoldfastError',
      what === 'its text' ? 'UNREADABLE_VALUE' : 'UNKNOWN_SERIALIZER',
      /./,
    ]);
    expect(seen[1]).toEqual(seen[0]);
    expect(charged).toBe(1);
  });
});
