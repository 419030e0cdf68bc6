import { expect, it } from 'vitest';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { go, launchWaiters, untilOnQueue } from '../support/slots.js';
import { openWire } from './wire.js';

/** A connection that breaks while a workflow gives its slot back, or while the workflow returns to its queue. */
describeBackends(
  'a connection that breaks',
  (backend) => {
    const attempts =
      "select recovery_attempts::int as n from workflow_status where name = 'waiter' order by created_at";

    it.each(['cut-before', 'cut-after'] as const)(
      'while a workflow gives its slot back frees the slot once (%s)',
      async (kind) => {
        const database = await backend.newDatabase();
        const wire = await openWire(database);
        const { t, begun, start } = await launchWaiters(backend, { concurrency: 1 }, { database: wire.url });
        const happened = wire.inject({ statement: 'workflows.markSuspended', kind });
        const handles = [await start('a'), await start('b')];
        await happened;
        await untilOnQueue(t, { suspended: 2, running: 0, waiting: 0 });
        for (const { id } of handles) await go.send(id, 'on');
        await t.clock.runUntil(Promise.all(handles.map((handle) => handle.result())));
        expect(begun.slice(0, 2)).toEqual(['a first', 'b first']);
        expect([...begun.slice(2)].sort()).toEqual(['a second', 'b second']);
        expect(await tamper(database, attempts)).toEqual([{ n: 1 }, { n: 1 }]);
      },
    );

    it.each(['cut-before', 'cut-after'] as const)(
      'while a workflow returns to its queue lets the workflow continue once (%s)',
      async (kind) => {
        const database = await backend.newDatabase();
        const wire = await openWire(database);
        const { t, begun, start } = await launchWaiters(backend, { concurrency: 1 }, { database: wire.url });
        const handle = await start('a');
        await untilOnQueue(t, { suspended: 1 });
        const happened = wire.inject({ statement: 'workflows.release', kind });
        await go.send(handle.id, 'on');
        await happened;
        expect(await t.clock.runUntil(handle.result())).toBe('on');
        expect(begun).toEqual(['a first', 'a second']);
        expect(await tamper(database, attempts)).toEqual([{ n: 1 }]);
      },
    );
  },
  ['postgres'],
);
