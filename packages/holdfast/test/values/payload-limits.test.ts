import { expect, it } from 'vitest';
import {
  connect,
  event,
  launch,
  queue,
  run,
  sleep,
  step,
  stream,
  topic,
  transaction,
  workflow,
} from '../../src/index.js';
import type { TestAppOptions } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, tamper } from '../support/faults.js';
import { readAll } from '../support/messaging.js';
import { counter, openUserData } from '../support/user-data.js';

const maxValueBytes = 10_000;
const large = 'ü'.repeat(5_000);
const small = 'ü'.repeat(4_900);

const tooLarge = (what: RegExp) => ({
  code: 'VALUE_TOO_LARGE',
  message: expect.stringMatching(/Store it elsewhere.*raise the limit "maxValueBytes"/),
  details: { what: expect.stringMatching(what), bytes: expect.any(Number), maxBytes: maxValueBytes },
});

// P8. Bad input is a typed error, before any side effect, and breaks no other workflow. Here: oversized values.
describeBackends('a value that is larger than the limit', (backend) => {
  const echo = workflow('echo', async (text: string) => text.length);
  const own = (options: TestAppOptions) => backend.testApp({ maxValueBytes, ...options });

  it('is refused as an input or attribute before anything is stored, however the workflow is started', async () => {
    const database = await backend.newDatabase();
    const lane = queue('lane');
    const t = await own({ workflows: [echo], queues: [lane], database });
    const client = await connect({ database, name: 'test', maxValueBytes });
    const starts = [
      () => echo(large),
      () => echo.start(large),
      () => echo.with({ queue: lane }).start(large),
      () => echo.with({ queue: lane }).startAll([['fits'], [large]]),
      () => client.start('echo', { queue: 'lane' }, large),
    ];
    for (const start of starts)
      expect(await failure(start())).toMatchObject(tooLarge(/^The input of workflow "echo"$/));
    const attributes = { note: large };
    expect(await failure(echo.with({ attributes }).start('fits'))).toMatchObject(tooLarge(/^The attributes of/));
    const roles = ['clerk', large];
    expect(await failure(echo.with({ roles }).start('fits'))).toMatchObject(tooLarge(/^The roles of the start of/));
    expect(await t.app.workflows.list()).toEqual([]);
    expect(await echo(small)).toBe(4_900);
    await client.close();
  });

  it('fails the step that returned it; the failure is recorded, so the step does not run again (P2)', async () => {
    const data = await openUserData(backend, plainest[backend.name]);
    let charged = 0;
    const pay = transaction(data.datasource, 'pay', async (tx) => {
      await data.add(tx, 'a', 1);
      return large;
    });
    const wf = workflow('wf', async () => {
      const errors = [
        await failure(run('charge', () => large.slice(charged++), { retries: 3 })),
        await failure(pay()),
        await failure(echo(large)),
      ];
      await sleep('1h');
      return errors.map(({ code }) => code);
    });
    const t = await own({ workflows: [wf, echo] });
    await wf.with({ id: 'w' }).start();
    await t.clock.advance('1m');
    const again = await t.restart();
    const codes = await again.clock.runUntil(again.app.workflows.handle('w').result());
    expect(codes).toEqual(['VALUE_TOO_LARGE', 'VALUE_TOO_LARGE', 'VALUE_TOO_LARGE']);
    expect(charged).toBe(1);
    expect(await counter(data.url, 'a')).toBe(0);
    const [charge, paid, started] = await again.app.workflows.steps('w');
    expect(charge?.error).toMatchObject(tooLarge(/^The result of step "charge"$/));
    expect(paid?.error).toMatchObject(tooLarge(/^The result of step "pay"$/));
    expect(started?.error).toMatchObject(tooLarge(/^The input of workflow "echo"$/));
    expect(await again.app.workflows.list({ name: 'echo' })).toEqual([]);
  });

  it('ends the workflow that returned it as ERROR', async () => {
    const wf = workflow('wf', async () => large);
    const t = await own({ workflows: [wf] });
    expect(await failure(wf.with({ id: 'w' })())).toMatchObject(tooLarge(/^The result of workflow "wf"$/));
    expect(await t.app.workflows.get('w')).toMatchObject({ status: 'ERROR', error: { code: 'VALUE_TOO_LARGE' } });
  });

  it('is refused as a message, an event or a stream value, in a workflow, in a step and outside', async () => {
    const [letters, progress, lines] = [topic<string>('letters'), event<string>('progress'), stream<string>('lines')];
    const say = async () => [
      await failure(letters.send('w', large)),
      await failure(progress.set(large)),
      await failure(lines.write(large)),
    ];
    const wf = workflow('wf', async () => {
      const errors = [...(await say()), ...(await run('in a step', say))];
      await letters.send('w', small);
      await progress.set(small);
      await lines.write(small);
      return [errors.map(({ code }) => code), await letters.receive()];
    });
    const t = await own({ workflows: [wf] });
    expect(await wf.with({ id: 'w' })()).toEqual([Array.from({ length: 6 }, () => 'VALUE_TOO_LARGE'), small]);
    expect(await failure(letters.send('w', large))).toMatchObject(tooLarge(/^A message of Topic "letters"$/));
    expect(await t.app.workflows.messages('w')).toHaveLength(1);
    expect(await t.app.workflows.events('w')).toEqual({ progress: small });
    expect(await readAll(lines.read('w'))).toEqual([small]);
  });

  it('exceeds 2 MiB by default, or the limit of the app or of the definition', async () => {
    const limit = 2 * 1024 * 1024;
    const overhead = '{"json":"","__dbos_serializer":"superjson"}'.length;
    const own = { maxValueBytes: 3 * limit };
    const longer = 'x'.repeat(limit - overhead + 1);
    const wide = workflow('wide', async (text: string) => [await run('r', () => text, own), await broad(text)], own);
    const broad = step('broad', (text: string) => text, own);
    const [letters, progress, lines] = [topic('letters', own), event('progress', own), stream('lines', own)];
    const talk = workflow('talk', async () => {
      await Promise.all([letters.send('t', longer), progress.set(longer), lines.write(longer)]);
      return 'said';
    });
    const narrow = workflow('narrow', async (text: string) => text, { maxValueBytes: 1_000 });
    await backend.testApp({ workflows: [echo, wide, talk, narrow] });
    expect(await echo(longer.slice(3))).toBe(longer.length - 3);
    expect(await failure(echo(longer))).toMatchObject({ details: { bytes: limit + 3, maxBytes: limit } });
    expect(await wide(longer)).toEqual([longer, longer]);
    expect(await talk.with({ id: 't' })()).toBe('said');
    expect(await failure(narrow(small))).toMatchObject({ code: 'VALUE_TOO_LARGE', details: { maxBytes: 1_000 } });
  });

  it('can still be read: from another app, from DBOS or SQL, or from before the limit', async () => {
    const letters = topic<string>('letters');
    const other = workflow('other', async () => large);
    const progress = event<string>('progress');
    const shows = workflow('shows', async () => progress.set(large));
    const theirs = await backend.testApp({ workflows: [other, shows], executorId: 'theirs' });
    await other.with({ id: 'o' })();
    await shows.with({ id: 's' })();
    const wf = workflow('wf', async () => {
      const elsewhere = theirs.app.workflows.handle('o');
      const values = [await letters.receive(), await elsewhere.result(), await progress.get('s', { app: theirs.app })];
      return [...values.map((value) => value === large), (await elsewhere.status()).output === large];
    });
    const database = await backend.newDatabase();
    await own({ workflows: [wf], database });
    const handle = await wf.with({ id: 'w' }).start();
    const columns = '(message_uuid, destination_uuid, topic, message, created_at_epoch_ms)';
    await tamper(
      database,
      `insert into notifications ${columns} values ('m', 'w', 'letters', '{"json":"${large}","__dbos_serializer":"superjson"}', 1)`,
    );
    expect(await handle.result()).toEqual([true, true, true, true]);
  });

  it.each([0, 999, 1.5, Number.NaN, '2 MB', null])('needs a valid limit: %j is refused', async (value) => {
    const limit = { maxValueBytes: value as never };
    const database = await backend.newDatabase();
    const refused = { code: 'INVALID_OPTION', message: expect.stringContaining('a whole number of bytes') };
    expect(await failure(launch({ name: 'x', database, ...limit }))).toMatchObject(refused);
    expect(await failure(connect({ database, ...limit }))).toMatchObject(refused);
    const definitions = [
      () => workflow('x', async () => 1, limit),
      () => step('x', () => 1, limit),
      () => topic('x', limit),
      () => event('x', limit),
      () => stream('x', limit),
    ];
    for (const define of definitions) expect(define).toThrow(expect.objectContaining(refused));
  });
});

// An outcome is always recorded (P2). An error that is too large is therefore cut.
describeBackends('an error that is larger than the limit', (backend) => {
  const bytes = (row: Record<string, unknown> | undefined) => Buffer.byteLength(String(row?.error));
  const huge = 'x'.repeat(50_000);
  const errors: Record<string, () => unknown> = {
    'by its message': () => Object.assign(new RangeError(`no: ${huge}`), { code: 'E_CARD' }),
    'by a property': () => Object.assign(new RangeError('no'), { code: 'E_CARD', body: huge }),
    'by what it keeps': () => Object.assign(new RangeError('no'), { code: 'E_CARD', response: { data: [huge] } }),
    'by its cause': () => Object.assign(new RangeError('no', { cause: new Error(huge) }), { code: 'E_CARD' }),
    'by the number of its errors': () =>
      Object.assign(
        new AggregateError(
          Array.from({ length: 900 }, () => new Error('x')),
          'no',
        ),
        { code: 'E_CARD' },
      ),
  };

  it.each(Object.keys(errors))('is cut, and looks the same in the first run and in a replay: %s', async (kind) => {
    const database = await backend.newDatabase();
    const seen: unknown[] = [];
    let charged = 0;
    const wf = workflow('wf', async () => {
      const fail = () => {
        charged++;
        throw errors[kind]?.();
      };
      const { name, message, code } = await failure(run('charge', fail));
      seen.push([name, message, code]);
      await sleep('1h');
      throw errors[kind]?.();
    });
    const t = await backend.testApp({ workflows: [wf], maxValueBytes, database, errors: { keep: 'all' } });
    await wf.with({ id: 'w' }).start();
    await t.clock.advance('1m');
    const again = await t.restart();
    const error = await again.clock.runUntil(failure(again.app.workflows.handle('w').result()));
    expect(error).toMatchObject({ code: 'E_CARD', message: expect.stringMatching(/^no/) });
    expect(charged).toBe(1);
    expect(seen[1]).toEqual(seen[0]);
    const [step] = await tamper(database, "select error from operation_outputs where function_name = 'charge'");
    const [row] = await tamper(database, 'select error from workflow_status');
    for (const each of [step, row]) expect(bytes(each)).toBeLessThanOrEqual(maxValueBytes);
  });
});
