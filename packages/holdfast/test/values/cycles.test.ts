import { expect, it } from 'vitest';
import {
  connect,
  debouncer,
  event,
  queue,
  run,
  schedule,
  stream,
  topic,
  transaction,
  workflow,
} from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure } from '../support/faults.js';
import { openUserData } from '../support/user-data.js';

interface Ring {
  readonly a: { readonly b: { back?: Ring }[] };
}

function ring(): Ring {
  const made: Ring = { a: { b: [{}] } };
  (made.a.b[0] as { back?: Ring }).back = made;
  return made;
}

function isRing(value: unknown): boolean {
  return (value as Ring).a.b[0]?.back === value;
}

// Covers every way in which a value enters Holdfast. The tests in codec/ cover the formats in detail.
describeBackends('a value that contains itself', (backend) => {
  const jobs = queue('jobs');

  it('comes back unchanged as argument, result, message, event, stream value or schedule context', async () => {
    const data = await openUserData(backend, plainest[backend.name]);
    const [said, shown, told] = [topic<Ring>('said'), event<Ring>('shown'), stream<Ring>('told')];
    const make = transaction(data.datasource, 'make', () => ring());
    const echo = workflow('echo', async (given: Ring) => (isRing(given) ? given : 'no ring'));
    const ticks = workflow('ticks', async (_: Date, context: unknown) => isRing(context));
    const all = workflow('all', async () => {
      const made = [await run('step', ring), await make(), await echo(ring()), await said.receive()];
      await shown.set(ring());
      await told.write(ring());
      await run('in a step', async () => [await shown.set(ring()), await told.write(ring())]);
      return made.map(isRing);
    });
    const yearly = schedule('yearly', '0 0 1 1 *', ticks, { context: ring() });
    const workflows = [echo, ticks, all];
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows, queues: [jobs], schedules: [yearly], database, clock: 'real' });
    const client = await connect({ database, name: 'test' });
    const handle = await all.start();
    await said.send(handle.id, ring(), { app: t.app });
    expect(await handle.result()).toEqual([true, true, true, true]);
    expect(isRing(await shown.get(handle.id, { app: t.app }))).toBe(true);
    for await (const value of told.read(handle.id, { app: t.app })) expect(isRing(value)).toBe(true);
    const started = [
      ...(await echo.startAll([[ring()], [ring()]])),
      await echo.with({ queue: jobs }).start(ring()),
      await debouncer(echo).debounce('key', 0, ring()),
      await client.start('echo', { queue: 'jobs' }, ring()),
    ];
    for (const each of started) expect(isRing(await each.result())).toBe(true);
    expect(await (await t.app.schedules.trigger('yearly')).result()).toBe(true);
    await client.close();
  });

  it('is refused in portable values and attributes, which have no cycles, with both ends named', async () => {
    const portable = { serialization: 'portable' } as const;
    const echo = workflow('echo', async (given: unknown) => given, portable);
    const makes = workflow('makes', async () => ring(), portable);
    const said = topic<unknown>('said', portable);
    const [shown, told] = [event<unknown>('shown', portable), stream<unknown>('told', portable)];
    const shows = workflow('shows', () => shown.set(ring()));
    const tells = workflow('tells', () => told.write(ring()));
    const t = await backend.testApp({ workflows: [echo, makes, shows, tells], queues: [jobs] });
    const attributes = ring() as never;
    const refused: [what: string, root: string, error: Error][] = [
      ['The input of workflow "echo"', 'args[0]', await failure(echo(ring()))],
      ['The input of workflow "echo"', 'args[0]', await failure(echo.startAll([[ring()]]))],
      ['The input of workflow "echo"', 'args[0]', await failure(echo.with({ queue: jobs }).start(ring()))],
      ['The input of workflow "echo"', 'args[0]', await failure(debouncer(echo).debounce('key', 0, ring()))],
      ['The result of workflow "makes"', 'value', await failure(makes())],
      ['A message of Topic "said"', 'value', await failure(said.send('anyone', ring(), { app: t.app }))],
      ['The value of Event "shown"', 'value', await failure(shows())],
      ['A value of Stream "told"', 'value', await failure(tells())],
      ['The attributes of workflow "echo"', 'value', await failure(echo.with({ attributes })(1))],
    ];
    for (const [what, root, error] of refused) {
      const message = `${what} cannot be stored: ${root}.a.b[0].back refers back to ${root}. JSON has no cycles. Store an ID instead.`;
      expect(error).toMatchObject({ code: 'UNSERIALIZABLE', message });
    }
  });
});
