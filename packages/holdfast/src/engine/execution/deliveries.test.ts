import { describe, expect, it } from 'vitest';
import type { StepRecord } from '../../storage/contract/storage.js';
import { Deliveries, Macrotasks } from './deliveries.js';

const record = (stepNumber: number, completionSeq: number | null, more: Partial<StepRecord> = {}) =>
  ({ stepNumber, completionSeq, name: `step ${stepNumber}`, output: null, completedAt: null, ...more }) as StepRecord;

/** Deliveries that note the order in which results arrive. */
function rig(history: readonly StepRecord[] = []) {
  const arrived: string[] = [];
  const heldUp: (number | undefined)[] = [];
  const deliveries: Deliveries = new Deliveries(new Macrotasks(), history, () => heldUp.push(deliveries.blockedBy));
  const delivery = (name: string) => ({ deliver: () => void arrived.push(name), cancelled: () => {} });
  return { deliveries, arrived, heldUp, delivery };
}

const macrotask = () => new Promise((resolve) => setImmediate(resolve));
async function macrotasks(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await macrotask();
}

describe('live results', () => {
  it('arrive in the order of their places, not in the order of their commits', async () => {
    const { deliveries, arrived, delivery } = rig();
    const [first, second] = [deliveries.takeSeq(), deliveries.takeSeq()];
    deliveries.commit(second, delivery('second'));
    await macrotasks(2);
    expect(arrived).toEqual([]);
    deliveries.commit(first, delivery('first'));
    await macrotasks(3);
    expect(arrived).toEqual(['first', 'second']);
  });

  it('arrive one per macrotask', async () => {
    const { deliveries, arrived, delivery } = rig();
    for (const name of ['a', 'b', 'c']) deliveries.commit(deliveries.takeSeq(), delivery(name));
    await macrotask();
    expect(arrived).toEqual(['a']);
    await macrotask();
    expect(arrived).toEqual(['a', 'b']);
  });

  it('do not wait for a place that was skipped', async () => {
    const { deliveries, arrived, delivery } = rig();
    const skipped = deliveries.takeSeq();
    deliveries.commit(deliveries.takeSeq(), delivery('next'));
    deliveries.skip(skipped);
    await macrotasks(3);
    expect(arrived).toEqual(['next']);
    expect(deliveries.lastSeq).toBe(1);
  });

  it('no longer arrive after a stop', async () => {
    const { deliveries, arrived, delivery } = rig();
    deliveries.commit(deliveries.takeSeq(), delivery('late'));
    deliveries.stop();
    await macrotasks(2);
    expect(arrived).toEqual([]);
  });
});

describe('results of a replay', () => {
  it('arrive in the stored order of completion, whatever the order of the requests', async () => {
    const { deliveries, arrived, delivery } = rig([record(0, 1), record(1, 0)]);
    deliveries.replay(0, delivery('step 0'));
    deliveries.replay(1, delivery('step 1'));
    await macrotasks(3);
    expect(arrived).toEqual(['step 1', 'step 0']);
  });

  it('come before every live result', async () => {
    const { deliveries, arrived, delivery } = rig([record(0, 0), record(1, 1)]);
    deliveries.replay(0, delivery('stored 0'));
    const seq = deliveries.takeSeq();
    expect(seq).toBe(2);
    deliveries.commit(seq, delivery('live'));
    await macrotasks(3);
    expect(arrived).toEqual(['stored 0']);
    deliveries.replay(1, delivery('stored 1'));
    await macrotasks(3);
    expect(arrived).toEqual(['stored 0', 'stored 1', 'live']);
  });

  it('report the stored step that blocks the others because the code has not requested it', async () => {
    const { deliveries, heldUp, delivery } = rig([record(0, 0), record(1, 1)]);
    deliveries.replay(1, delivery('stored 1'));
    await macrotask();
    expect(heldUp).toEqual([0]);
    expect(deliveries.replaying).toBe(true);
  });

  it('of DBOS, which stores no order, arrive by their time of completion', async () => {
    const { deliveries, arrived, delivery } = rig([
      record(0, null, { completedAt: 20 }),
      record(1, null, { completedAt: 10 }),
    ]);
    deliveries.replay(0, delivery('step 0'));
    deliveries.replay(1, delivery('step 1'));
    await macrotasks(3);
    expect(arrived).toEqual(['step 1', 'step 0']);
  });
});

it('a sleep that DBOS began is placed before the first later result', () => {
  const sleep = record(0, null, { name: 'DBOS.sleep', output: '15' });
  const { deliveries } = rig([sleep, record(1, null, { completedAt: 10 }), record(2, null, { completedAt: 20 })]);
  expect(deliveries.placeDbosSleep(sleep)).toBe(true);
  const unfinished = rig([sleep, record(1, null, { completedAt: 10 })]);
  expect(unfinished.deliveries.placeDbosSleep(sleep)).toBe(false);
});
