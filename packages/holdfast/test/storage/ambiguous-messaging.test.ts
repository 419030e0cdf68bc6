import { expect, it } from 'vitest';
import { event, run, stream, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { readAll } from '../support/messaging.js';
import { type Fault, openWire } from './wire.js';

/** Each write of the run below, by its statement. `nth` counts the statements with the same name. */
const writes: Record<string, Pick<Fault, 'statement' | 'nth'>> = {
  'a send': { statement: 'steps.record-effects', nth: 1 },
  'a send of several messages': { statement: 'steps.record-effects', nth: 2 },
  'the setting of an event': { statement: 'steps.record-effects', nth: 3 },
  'a write to a stream': { statement: 'steps.record-effects', nth: 4 },
  'a step that writes to a stream': { statement: 'steps.record-effects', nth: 5 },
  'the setting of an event in a step': { statement: 'events.set' },
  'the close of a stream': { statement: 'steps.record-effects', nth: 6 },
  'a receive': { statement: 'steps.record-effects', nth: 7 },
  'a send to a missing workflow': { statement: 'steps.record-effects', nth: 10 },
  'a query for messages': { statement: 'messages.waiting', nth: 2 },
  'a send from outside': { statement: 'messages.send' },
  'a send of several messages from outside': { statement: 'messages.sendAll' },
};

describeBackends(
  'a connection that breaks while workflows exchange messages',
  (backend) => {
    const numbers = topic<number>('numbers');
    const progress = event<number>('progress');
    const lines = stream<number>('lines');
    const talks = workflow('talks', async (self: string) => {
      await numbers.send(self, 1);
      await numbers.sendAll([2, 3].map((value) => ({ to: self, value })));
      await progress.set(1);
      await lines.write(0);
      await run('step', async () => {
        await lines.write(1);
        await lines.write(2);
        await progress.set(2);
      });
      await lines.close();
      const got = [await numbers.receive(), await numbers.receive(), await numbers.receive()];
      const absent = await numbers.send('nobody', 4).catch((error) => error.code);
      return [...got, absent, await numbers.receive(), await numbers.receive(), await numbers.receive()];
    });

    it.each(
      Object.entries(writes).flatMap(([what, write]) =>
        (['cut-before', 'cut-after'] as const).map((kind) => [what, kind, write] as const),
      ),
    )('%s is made once, and the workflow continues (%s)', async (_, kind, write) => {
      const database = await backend.newDatabase();
      const wire = await openWire(database);
      await backend.testApp({ database: wire.url, workflows: [talks] });
      const happened = wire.inject({ ...write, kind });
      const handle = await talks.with({ id: 'w' }).start('w');
      const own = [1, 2, 3];
      const sending = numbers
        .send('w', 5)
        .then(() => numbers.sendAll([6, 7].map((value) => ({ to: 'w', value }))))
        .then(() => 'sent');
      // Messages from outside may arrive before or between the workflow's own messages, each once and in order.
      const result = (await handle.result()) as unknown[];
      expect(await sending).toBe('sent');
      await happened;
      const received = result.filter((value) => typeof value === 'number');
      expect(result[3]).toBe('WORKFLOW_NOT_FOUND');
      expect(received.filter((value) => own.includes(value as number))).toEqual(own);
      expect(received.filter((value) => !own.includes(value as number))).toEqual([5, 6, 7]);
      expect(await readAll(lines.read('w'))).toEqual([0, 1, 2]);
      expect(await progress.get('w')).toBe(2);
      const rows = await tamper(database, 'select consumed from notifications');
      expect(rows).toEqual(Array(6).fill({ consumed: true }));
      expect(await tamper(database, 'select 1 from streams')).toHaveLength(4);
    });

    it.each(['cut-before', 'cut-after'] as const)('records the start of a wait once (%s)', async (kind) => {
      const waits = workflow('waits', () => numbers.receive());
      const database = await backend.newDatabase();
      const wire = await openWire(database);
      const t = await backend.testApp({ database: wire.url, workflows: [waits] });
      const happened = wire.inject({ statement: 'steps.record', kind });
      const handle = await waits.start();
      await happened;
      await t.clock.advance(0);
      await numbers.send(handle.id, 1);
      expect(await handle.result()).toBe(1);
      const steps = await tamper(database, 'select function_name from operation_outputs order by function_id');
      expect(steps.map((step) => step.function_name)).toEqual(['DBOS.recv', 'DBOS.sleep']);
    });
  },
  ['postgres'],
);
