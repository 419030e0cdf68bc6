import { beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import { queue, type Schedule, type ScheduleOptions, schedule, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, tamper, thrown } from '../support/faults.js';

const wf = workflow('wf', async (at: Date, given?: unknown) => [at, given]);
const picky = workflow('picky', async (text: string) => text, { input: z.string() });

/** Calls schedule() without type checks, as a JavaScript program can. */
const define = (name: unknown, cron: unknown, given: unknown, options?: unknown): Schedule =>
  schedule(name as string, cron as string, given as string, options as ScheduleOptions);

const badNames = ['', '  ', 'x'.repeat(256), 'a"b', "a'b", 'a`b', 'a\0b', 'a\nb', 'half \ud800', 7, undefined, null];
const badCrons = ['', 'hourly', '* * * *', '* * * * * * *', '60 * * * *', '0 0 30 2 *', '*/0 * * * *', 'a\0', 5, null];
const badZones = ['Mars/Olympus', '', 'UTC+25', 'America/New York', 1, null];

it.each(badNames)('schedule() refuses the name %j', (name) => {
  expect(thrown(() => define(name, '* * * * *', wf))).toMatchObject({ code: 'INVALID_NAME' });
});

it.each(badCrons)('schedule() refuses the cron %j', (cron) => {
  expect(thrown(() => define('s', cron, wf))).toMatchObject({ code: 'INVALID_CRON' });
});

it.each(badZones)('schedule() refuses the time zone %j', (timezone) => {
  expect(thrown(() => define('s', '* * * * *', wf, { timezone }))).toMatchObject({ code: 'INVALID_TIMEZONE' });
});

it.each([
  [{ catchup: 'all' }, 'INVALID_OPTION', 'Did you mean "catchUp"?'],
  [{ catchUp: 'none' }, 'INVALID_OPTION', 'one of skip, one, all'],
  [{ catchUpLimit: 0 }, 'INVALID_OPTION', 'from 1 to 10000'],
  [{ catchUpLimit: 10_001 }, 'INVALID_OPTION', 'from 1 to 10000'],
  [{ catchUpLimit: 1.5 }, 'INVALID_OPTION', 'from 1 to 10000'],
  [{ catchUpLimit: '5' }, 'INVALID_OPTION', 'from 1 to 10000'],
  [{ queue: 7 }, 'INVALID_OPTION', '"queue" must be a Queue from queue()'],
  [{ queue: '' }, 'INVALID_NAME', 'must not be empty'],
  [null, 'INVALID_OPTION', 'takes its options as an object'],
])('schedule() refuses the options %j', (options, code, message) => {
  expect(thrown(() => define('s', '* * * * *', wf, options))).toMatchObject({
    code,
    message: expect.stringContaining(message),
  });
});

it.each([undefined, {}, async () => {}, 7])('schedule() refuses %s instead of a workflow', (given) => {
  expect(thrown(() => define('s', '* * * * *', given))).toMatchObject({ code: 'INVALID_OPTION' });
});

it('schedule() returns a value that cannot be changed', () => {
  const defined = schedule('s', '* * * * *', wf);
  expect(Object.isFrozen(defined)).toBe(true);
  expect(() => Object.assign(defined, { cron: 'x' })).toThrow(TypeError);
});

describeBackends('bad schedules', (backend) => {
  let t: TestApp;
  let database: string;
  beforeEach(async () => {
    database = await backend.newDatabase();
    const queues = [queue('parts', { partition: {} }), queue('plain')];
    const schedules = [schedule('there', '@daily', wf)];
    t = await backend.testApp({ database, workflows: [wf, picky], queues, schedules });
  });

  const written = async (): Promise<unknown> => [
    await tamper(database, 'select * from workflow_schedules order by schedule_name'),
    await tamper(database, 'select * from workflow_status'),
  ];

  /** Expects the call to fail with this code and message, and to write nothing. */
  async function refused(call: () => Promise<unknown>, code: string, message = ''): Promise<void> {
    const before = await written();
    expect(await failure(call())).toMatchObject({ code, message: expect.stringContaining(message) });
    expect(await written()).toEqual(before);
  }

  const forged = (more: object): Schedule => ({ ...schedule('s', '@daily', wf), ...more });

  it('are refused by create and apply, and no schedule of the same call is stored', async () => {
    const cases: [Schedule, string, string?][] = [
      [schedule('s', '@daily', 'wff'), 'WORKFLOW_NOT_REGISTERED', 'Did you mean "wf"?'],
      [schedule('s', '@daily', wf, { queue: 'plane' }), 'UNKNOWN_QUEUE', 'Did you mean "plain"?'],
      [schedule('s', '@daily', wf, { queue: 'parts' }), 'INVALID_OPTION', 'no partition key'],
      [schedule('s', '@daily', wf, { context: () => {} }), 'UNSERIALIZABLE', 'context'],
      [schedule('s', '@daily', wf, { context: 'a\0b' }), 'UNSERIALIZABLE'],
      [schedule('s', '@daily', 'picky'), 'INVALID_INPUT'],
      [forged({ cron: 'never' }), 'INVALID_CRON'],
      [forged({ timezone: 'Mars/Olympus' }), 'INVALID_TIMEZONE'],
      [forged({ name: 'a"b' }), 'INVALID_NAME'],
      [forged({ workflowName: 'DBOS.x' }), 'INVALID_NAME'],
      [forged({ catchUp: 'maybe' }), 'INVALID_OPTION'],
      ['s' as unknown as Schedule, 'INVALID_OPTION', 'the result of schedule()'],
      [undefined as unknown as Schedule, 'INVALID_OPTION', 'the result of schedule()'],
    ];
    for (const [given, code, message] of cases) {
      await refused(() => t.app.schedules.create(given), code, message);
      await refused(() => t.app.schedules.apply([schedule('fine', '@daily', wf), given]), code, message);
    }
    const twice = [schedule('s', '@daily', wf), schedule('s', '@hourly', wf)];
    await refused(() => t.app.schedules.apply(twice), 'INVALID_OPTION', 'the only schedule of that name');
    await refused(() => t.app.schedules.apply({} as Schedule[]), 'INVALID_OPTION', 'a list');
  });

  it('are refused by launch', async () => {
    const twice = [schedule('s', '@daily', wf), schedule('s', '@hourly', wf)];
    const launchWith = (schedules: unknown) => () =>
      t.restart({ workflows: [wf, picky], schedules: schedules as Schedule[] });
    await refused(launchWith(twice), 'INVALID_OPTION', 'schedules[1]');
    await refused(launchWith('s'), 'INVALID_OPTION', 'a list');
    await refused(launchWith([{}]), 'INVALID_OPTION', 'schedules[0]');
    await refused(launchWith([schedule('s', '@daily', 'wff')]), 'WORKFLOW_NOT_REGISTERED', 'Did you mean "wf"?');
    await refused(launchWith([schedule('s', '@daily', wf, { queue: 'plane' })]), 'UNKNOWN_QUEUE');
    await refused(launchWith([schedule('s', '@daily', wf, { queue: 'parts' })]), 'INVALID_OPTION');
    await refused(launchWith([schedule('s', '@daily', wf, { context: Symbol('no') })]), 'UNSERIALIZABLE');
    await refused(launchWith([schedule('s', '@daily', 'picky')]), 'INVALID_INPUT');
    // No failed launch left the workflow attached to an app that does not run.
    const again = await t.restart();
    expect(await wf.with({ app: again.app })(new Date(0))).toEqual([new Date(0), undefined]);
  });

  it('are refused by update', async () => {
    const update = (changes: object) => () => t.app.schedules.update('there', changes);
    await refused(update({ cron: 'never' }), 'INVALID_CRON');
    await refused(update({ timezone: 'Mars/Olympus' }), 'INVALID_TIMEZONE');
    await refused(update({ cron: '@hourly', workflow: 'wff' }), 'WORKFLOW_NOT_REGISTERED');
    await refused(update({ cron: '@hourly', workflow: picky }), 'INVALID_INPUT');
    await refused(update({ cron: '@hourly', workflow: 7 }), 'INVALID_OPTION');
    await refused(update({ cron: '@hourly', queue: 'plane' }), 'UNKNOWN_QUEUE');
    await refused(update({ cron: '@hourly', queue: 'parts' }), 'INVALID_OPTION');
    await refused(update({ cron: '@hourly', context: () => {} }), 'UNSERIALIZABLE');
    await refused(update({ cron: '@hourly', catchUp: 'maybe' }), 'INVALID_OPTION');
    await refused(update({ cron: '@hourly', catchUpLimit: -1 }), 'INVALID_OPTION');
    await refused(update({ name: 'x' }), 'INVALID_OPTION');
    await refused(() => t.app.schedules.update('there', null as never), 'INVALID_OPTION');
  });

  it('are refused by each operation if the name is invalid', async () => {
    const { get, update, pause, resume, trigger, backfill } = t.app.schedules;
    for (const name of badNames as string[]) {
      const calls: (() => Promise<unknown>)[] = [
        () => get(name),
        () => update(name, { cron: '@hourly' }),
        () => pause(name),
        () => resume(name),
        () => t.app.schedules.delete(name),
        () => trigger(name),
        () => backfill(name, { from: 0, to: 1 }),
      ];
      for (const call of calls) expect(await failure(call())).toMatchObject({ code: 'INVALID_NAME' });
    }
  });

  it('are refused by backfill if the range is invalid or too long', async () => {
    const backfill = (from: unknown, to: unknown) => () =>
      t.app.schedules.backfill('there', { from: from as Date, to: to as Date });
    const bad = [
      'yesterday',
      '',
      '2029-02-30',
      '2029-01-01T00:00:00',
      Number.NaN,
      -1,
      9e15,
      new Date('x'),
      undefined,
      null,
    ];
    for (const each of bad) {
      await refused(backfill(each, '2030-01-01'), 'INVALID_OPTION', '"from" must be');
      await refused(backfill('2029-01-01', each), 'INVALID_OPTION', '"to" must be');
    }
    const reversed = '"to" must be an instant that is not before "from", but it is "2029-01-01".';
    await refused(backfill('2029-02-01', '2029-01-01'), 'INVALID_OPTION', reversed);
    await refused(() => t.app.schedules.backfill('there', {} as never), 'INVALID_OPTION');
    await refused(
      () => t.app.schedules.backfill('there', { from: 0, to: 1, dryRun: true } as never),
      'INVALID_OPTION',
      'no option "dryRun"',
    );
    await t.app.schedules.update('there', { cron: '* * * * *' });
    const tooLong =
      '"to" must be early enough for a range of at most 10000 ticks (split a longer range into parts), but it is ' +
      '2029-12-31T00:00:00.000Z.';
    await refused(backfill('2029-01-01', '2029-12-31'), 'INVALID_OPTION', tooLong);
  });
});
