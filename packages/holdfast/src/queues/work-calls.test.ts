import { describe, expect, it } from 'vitest';
import type { Engine } from '../engine/engine.js';
import type { WorkAnswer, WorkCall } from '../engine/wait/work-signals.js';
import { VirtualClock } from '../testing/virtual-clock.js';
import { type CheckResult, WorkCalls } from './work-calls.js';

/** One process among others. The test supplies the result of each check of a queue. */
function setUp({ peers = ['p1', 'p2', 'p3'], waits = false } = {}) {
  const clock = new VirtualClock();
  const calls: WorkCall[] = [];
  const answers: WorkAnswer[] = [];
  const checks: string[] = [];
  const fleet = { peersOn: () => peers, versionsAlive: async () => new Set<string>() };
  const engine = {
    clock,
    owners: { incarnation: 'self' },
    writer: { appName: 'app', executorId: 'e' },
    version: 'v',
    news: { call: (call: WorkCall) => calls.push(call), answer: (answer: WorkAnswer) => answers.push(answer) },
  } as unknown as Engine;
  const work = new WorkCalls(engine, fleet, { look: (_, how) => checks.push(how), waits: async () => waits });
  const end = (verdict: CheckResult) => work.end(work.begin('q'), verdict);
  let token = 0;
  /** Returns a call whose hash gives this process the first place, or a place after those that check at once. */
  const called = (isFirst: boolean, wanted = 1): WorkCall => {
    for (;;) {
      token++;
      const call = { queueName: 'q', token, wanted, caller: '' };
      const before = checks.length;
      const other = new WorkCalls(engine, fleet, { look: () => checks.push('tried'), waits: async () => waits });
      other.called(call);
      const checkedAtOnce = checks.splice(before).length > 0;
      other.stop();
      if (checkedAtOnce === isFirst) return call;
    }
  };
  return { clock, calls, answers, checks, work, end, called };
}

const eventLoopTurn = () => new Promise((resolve) => setImmediate(resolve));

describe('work that is enqueued in a process that works on its queue', () => {
  it('is taken by a check there, and not announced to other processes', async () => {
    const { work, end, calls, answers, checks, clock } = setUp();
    work.own('q', 1);
    await eventLoopTurn();
    await end({ taken: 1, left: 'unfit' });
    await clock.advance('1s');
    expect([checks, calls, answers]).toEqual([['at once'], [], []]);
  });

  it.each(['full', 'unfit', 'failed'] as const)('is announced if the check does not take it (%s)', async (left) => {
    const { work, end, calls } = setUp();
    work.own('q', 1);
    await end({ taken: 0, left });
    expect(calls).toMatchObject([{ queueName: 'q', wanted: 1, caller: 'self' }]);
  });

  it('is announced if the check takes long, or if the process stops during the check', async () => {
    const { work, calls, answers, clock } = setUp();
    work.own('q', 1);
    const checking = work.begin('q');
    await clock.advance('19ms');
    expect(calls).toEqual([]);
    await clock.advance('1ms');
    expect(calls).toHaveLength(1);
    await work.end(checking, { taken: 1, left: 'unfit' });
    expect(answers).toMatchObject([{ token: calls[0]?.token, taken: 1 }]);
    work.own('q', 1);
    work.stop();
    expect(calls).toHaveLength(2);
  });

  it('is announced at once to n-1 other processes if it is n workflows', async () => {
    const { work, calls } = setUp();
    work.own('q', 1);
    work.own('q', 3);
    await eventLoopTurn();
    expect(calls).toMatchObject([{ wanted: 3, caller: 'self' }]);
  });

  it('is not left to a check that began before it was enqueued', async () => {
    const { work, checks } = setUp();
    work.own('q', 1);
    await work.end(work.begin('q'), { taken: 0, left: 'nothing' });
    work.own('q', 1);
    expect(checks).toHaveLength(2);
    expect(work.begin('q')).toHaveLength(1);
  });
});

describe('a call', () => {
  it('is answered with the number of workflows taken, or with the fact that nothing is left', async () => {
    const { work, end, called, answers } = setUp();
    const [first, second] = [called(true, 2), called(true)];
    work.called(first);
    await end({ taken: 1, left: 'full' });
    work.called(second);
    await end({ taken: 0, left: 'nothing' });
    const common = { queueName: 'q', group: 'app\nv' };
    expect(answers).toEqual([
      { ...common, token: first.token, taken: 1 },
      { ...common, token: second.token, taken: null },
    ]);
  });

  it('is not answered after a failed check, so that later places check the queue', async () => {
    const { work, end, called, answers, calls } = setUp();
    work.called(called(true));
    await end({ taken: 0, left: 'failed' });
    expect([answers, calls]).toEqual([[], []]);
  });

  it('stays open if another version finds no work, and is finished if another version takes the work', async () => {
    const { work, called, checks, clock } = setUp();
    const [open, finished] = [called(false), called(false)];
    work.called(open);
    work.answered({ queueName: 'q', token: open.token, group: 'app\nw', taken: null });
    await clock.advance('200ms');
    await eventLoopTurn();
    expect(checks).toEqual(['careful']);
    work.called(finished);
    work.answered({ queueName: 'q', token: finished.token, group: 'app\nw', taken: 1 });
    await clock.advance('200ms');
    await eventLoopTurn();
    expect(checks).toEqual(['careful']);
  });

  it('leads to one more careful check if the first finds no work, and is then passed on', async () => {
    const { work, end, called, checks, calls, clock } = setUp();
    work.called(called(true));
    await end({ taken: 0, left: 'unfit' });
    await clock.advance('30ms');
    await eventLoopTurn();
    expect(checks).toEqual(['at once', 'careful']);
    await end({ taken: 0, left: 'unfit' });
    expect(calls).toMatchObject([{ wanted: 2 }]);
    await clock.advance('1s');
    expect(checks).toHaveLength(2);
  });
});

it('keeps a limited number of finished calls, however many queues there are', async () => {
  const { work } = setUp();
  for (let i = 0; i < 5_000; i++) {
    const [queueName, token] = [`q${i}`, i];
    work.called({ queueName, token, wanted: 1, caller: '' });
    work.answered({ queueName, token, group: 'app\nv', taken: 1 });
  }
  expect(work.size).toBe(2_000);
});

describe('slots that became free in this process', () => {
  it.each([
    ['nothing', false, 0],
    ['barred', true, 0],
    ['unfit', false, 0],
    ['unfit', true, 1],
    ['full', true, 1],
  ] as const)('with %s left (work waits: %s) lead to %s calls', async (left, waits, expected) => {
    const { work, end, calls, checks } = setUp({ waits });
    work.freed('q', 2);
    await end({ taken: 1, left });
    expect([calls.length, checks]).toEqual([expected, ['refill']]);
  });
});
