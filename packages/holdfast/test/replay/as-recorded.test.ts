import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import { debouncer, event, run, sleep, stream, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate, tamper } from '../support/faults.js';
import { readAll } from '../support/messaging.js';

/** Visibly changes every value: texts become capitals, dates become texts, and undefined members disappear. */
const loud = {
  name: 'loud',
  stringify: (value: unknown) => JSON.stringify(value) ?? 'null',
  parse: (text: string): unknown =>
    JSON.parse(text, (_, value: unknown) => (typeof value === 'string' ? value.toUpperCase() : value)),
};

// P7. Replay is exact: each operation returns what its record decodes to, not the original value.
describeBackends('the value that the code gets', (backend) => {
  const progress = event<unknown>('progress');
  const lines = stream<unknown>('lines');
  const letters = topic<unknown>('letters');
  const value = () => ({ text: 'text', at: new Date(0), missing: undefined });

  const act = async (said: string) => {
    const how = said.toLowerCase();
    if (how === 'fail') throw Object.assign(new RangeError('it failed'), value());
    if (how === 'sleep') await sleep('10d');
    await progress.set(value());
    await lines.write(value());
    return value();
  };
  const other = workflow('other', act);

  const operations: Record<string, () => Promise<unknown>> = {
    'a step': () => run('step', value),
    'a step that fails': () => failure(run('step', () => Promise.reject(Object.assign(new RangeError('no'), value())))),
    'a child': () => other('return'),
    'a child that fails': () => failure(other('fail')),
    'a child that was cancelled': async () => {
      const handle = await other.start('sleep');
      await handle.cancel();
      return failure(handle.result());
    },
    'a child of which no result was stored': async () => (await other.with({ id: 'done' }).start('return')).result(),
    'a child of which no error was stored': async () => {
      const handle = await other.with({ id: 'failed' }).start('return');
      return handle.result().catch((error: unknown) => ['rejected', error]);
    },
    'a result that does not come in time': async () => {
      const handle = await other.with({ id: 'sleeping' }).start('sleep');
      return failure(handle.result({ timeout: 1 }));
    },
    'a status': async () => (await other.with({ id: 'returned' }).start('return')).status(),
    'the status of a failure': async () => (await other.with({ id: 'erred' }).start('fail')).status(),
    'a start that fails': () => failure(other.with({ id: 'wf-of-others' }).start('return')),
    'a message': async () => {
      await letters.send('w', value());
      return letters.receive();
    },
    'a message to nobody': () => failure(letters.send('nobody', 'x')),
    'an event': () => progress.get('returned'),
    'a stream': () => readAll(lines.read('returned')),
    'a stream of nobody': () => failure(readAll(lines.read('nobody'))),
    'a debounced call': async () => (await debouncer(other).debounce('k', 1, 'return')).id,
  };

  it.each(['loud', 'native'])('is the same in a replay, operation by operation, with the %s format', async (format) => {
    const seen: Record<string, unknown>[] = [];
    const reached = gate();
    const wf = workflow('wf', async () => {
      const own: Record<string, unknown> = {};
      for (const [name, operation] of Object.entries(operations)) own[name] = inspect(await operation(), { depth: 9 });
      seen.push(own);
      reached.open();
      await sleep('1d');
    });
    const taken = workflow('taken', async () => 1);
    const database = await backend.newDatabase();
    const serializer = format === 'loud' ? { serializer: loud } : {};
    const t = await backend.testApp({ workflows: [wf, other, taken], database, ...serializer });
    await taken.with({ id: 'wf-of-others' })();
    for (const id of ['done', 'failed', 'returned']) await other.with({ id })('return');
    await failure(other.with({ id: 'erred' })('fail'));
    // Other programs store an end without a value like this.
    await tamper(database, "update workflow_status set output = null where workflow_uuid = 'done'");
    await tamper(database, "update workflow_status set output = null, status = 'ERROR' where workflow_uuid = 'failed'");
    const handle = await wf.with({ id: 'w' }).start();
    await t.clock.runUntil(Promise.race([reached.promise, handle.result()]));
    await t.clock.advance('1m');
    const again = await t.restart();
    await again.clock.runUntil(again.app.workflows.handle(handle.id).result());
    expect(seen).toHaveLength(2);
    expect(seen[1]).toEqual(seen[0]);
    if (format === 'loud') expect(seen[0]?.['a status']).toMatch(/RETURNED/);
  });

  it('is the same in a replay when it comes from another app', async () => {
    const seen: unknown[] = [];
    const reached = gate();
    const elsewhere = workflow('elsewhere', act);
    const theirs = await backend.testApp({ workflows: [elsewhere], executorId: 'theirs' });
    for (const id of ['theirs', 'cancelled']) await elsewhere.with({ id })('return');
    const wf = workflow('wf', async () => {
      const handle = theirs.app.workflows.handle('theirs');
      const app = { app: theirs.app };
      const own = [await handle.result(), await handle.status(), await progress.get('theirs', app)];
      own.push(await readAll(lines.read('theirs', app)));
      own.push(await failure(theirs.app.workflows.handle('nobody').result()));
      own.push(await failure(theirs.app.workflows.handle('nobody').status()));
      seen.push(inspect(own, { depth: 9 }));
      reached.open();
      await sleep('1d');
    });
    const t = await backend.testApp({ workflows: [wf], serializer: loud });
    const handle = await wf.start();
    await t.clock.runUntil(Promise.race([reached.promise, handle.result()]));
    await t.clock.advance('1m');
    const again = await t.restart();
    await again.clock.runUntil(again.app.workflows.handle(handle.id).result());
    expect(seen).toHaveLength(2);
    expect(seen[1]).toEqual(seen[0]);
  });
});
