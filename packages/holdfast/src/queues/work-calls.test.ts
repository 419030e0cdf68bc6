import { describe, expect, it } from 'vitest';
import type { Engine } from '../engine/engine.js';
import type { WorkAnswer, WorkCall } from '../engine/wait/work-signals.js';
import { VirtualClock } from '../testing/virtual-clock.js';
import { type Verdict, WorkCalls } from './work-calls.js';

/** One process among others, whose looks are answered by the test. */
function rig({ peers = ['p1', 'p2', 'p3'], waits = false } = {}) {
  const clock = new VirtualClock();
  const calls: WorkCall[] = [];
  const answers: WorkAnswer[] = [];
  const looks: string[] = [];
  const engine = {
    clock,
    owners: { incarnation: 'self' },
    writer: { appName: 'app', executorId: 'e' },
    version: 'v',
    peersOn: () => peers,
    news: { call: (call: WorkCall) => calls.push(call), answer: (answer: WorkAnswer) => answers.push(answer) },
  } as unknown as Engine;
  const work = new WorkCalls(engine, { look: (_, how) => looks.push(how), waits: async () => waits });
  const end = (verdict: Verdict) => work.end(work.begin('q'), verdict);
  /** A call in which this process has the first place, or one after those that look at once. */
  let token = 0;
  const called = (isFirst: boolean, wanted = 1): WorkCall => {
    for (;;) {
      token++;
      const call = { queueName: 'q', token, wanted, caller: '' };
      const before = looks.length;
      const other = new WorkCalls(engine, { look: () => looks.push('tried'), waits: async () => waits });
      other.called(call);
      const looked = looks.splice(before).length > 0;
      other.stop();
      if (looked === isFirst) return call;
    }
  };
  return { clock, calls, answers, looks, work, end, called };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('work that comes up in a process which works on its queue', () => {
  it('is looked for there, and announced to nobody if it was taken', async () => {
    const { work, end, calls, answers, looks, clock } = rig();
    work.own('q', 1);
    await turn();
    await end({ taken: 1, left: 'unfit' });
    await clock.advance('1s');
    expect([looks, calls, answers]).toEqual([['at once'], [], []]);
  });

  it.each(['full', 'unfit', 'failed'] as const)('is announced if it was not taken (%s)', async (left) => {
    const { work, end, calls } = rig();
    work.own('q', 1);
    await end({ taken: 0, left });
    expect(calls).toMatchObject([{ queueName: 'q', wanted: 1, caller: 'self' }]);
  });

  it('is announced if the look takes long, or the process stops meanwhile', async () => {
    const { work, calls, answers, clock } = rig();
    work.own('q', 1);
    const looking = work.begin('q');
    await clock.advance('19ms');
    expect(calls).toEqual([]);
    await clock.advance('1ms');
    expect(calls).toHaveLength(1);
    await work.end(looking, { taken: 1, left: 'unfit' });
    expect(answers).toMatchObject([{ token: calls[0]?.token, taken: 1 }]);
    work.own('q', 1);
    work.stop();
    expect(calls).toHaveLength(2);
  });

  it('is announced at once if it is more than one workflow: for as many others, less one', async () => {
    const { work, calls } = rig();
    work.own('q', 1);
    work.own('q', 3);
    await turn();
    expect(calls).toMatchObject([{ wanted: 3, caller: 'self' }]);
  });

  it('is looked for by a look that begins after it has come up', async () => {
    const { work, looks } = rig();
    work.own('q', 1);
    await work.end(work.begin('q'), { taken: 0, left: 'nothing' });
    work.own('q', 1);
    expect(looks).toHaveLength(2);
    expect(work.begin('q')).toHaveLength(1);
  });
});

describe('a call', () => {
  it('is answered with what was taken, or with nothing left', async () => {
    const { work, end, called, answers } = rig();
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

  it('is not answered after a failure: those who come later look', async () => {
    const { work, end, called, answers, calls } = rig();
    work.called(called(true));
    await end({ taken: 0, left: 'failed' });
    expect([answers, calls]).toEqual([[], []]);
  });

  it('that another version finds nothing for is not over; one whose work another version took is', async () => {
    const { work, called, looks, clock } = rig();
    const [open, over] = [called(false), called(false)];
    work.called(open);
    work.answered({ queueName: 'q', token: open.token, group: 'app\nw', taken: null });
    await clock.advance('200ms');
    await turn();
    expect(looks).toEqual(['careful']);
    work.called(over);
    work.answered({ queueName: 'q', token: over.token, group: 'app\nw', taken: 1 });
    await clock.advance('200ms');
    await turn();
    expect(looks).toEqual(['careful']);
  });

  it('for which nothing was found is looked for carefully once more, and then left to the others', async () => {
    const { work, end, called, looks, calls, clock } = rig();
    work.called(called(true));
    await end({ taken: 0, left: 'unfit' });
    await clock.advance('30ms');
    await turn();
    expect(looks).toEqual(['at once', 'careful']);
    await end({ taken: 0, left: 'unfit' });
    expect(calls).toMatchObject([{ wanted: 2 }]);
    await clock.advance('1s');
    expect(looks).toHaveLength(2);
  });
});

it('calls that are over are not remembered for ever, on however many queues', async () => {
  const { work } = rig();
  for (let i = 0; i < 5_000; i++) {
    const [queueName, token] = [`q${i}`, i];
    work.called({ queueName, token, wanted: 1, caller: '' });
    work.answered({ queueName, token, group: 'app\nv', taken: 1 });
  }
  expect(work.size).toBe(2_000);
});

describe('slots that became free', () => {
  it.each([
    ['nothing', false, 0],
    ['barred', true, 0],
    ['unfit', false, 0],
    ['unfit', true, 1],
    ['full', true, 1],
  ] as const)('with %s left (work waits: %s) lead to %s calls', async (left, waits, expected) => {
    const { work, end, calls, looks } = rig({ waits });
    work.freed('q', 2);
    await end({ taken: 1, left });
    expect([calls.length, looks]).toEqual([expected, ['refill']]);
  });
});
