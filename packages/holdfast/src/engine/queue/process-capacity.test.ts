import { expect, it } from 'vitest';
import { VirtualClock } from '../../testing/virtual-clock.js';
import { type Occupant, ProcessCapacity } from './process-capacity.js';

const eventLoopTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function newCapacity(limit: number) {
  const clock = new VirtualClock();
  const capacity = new ProcessCapacity(clock, limit);
  const occupants: Occupant[] = [];
  return {
    clock,
    capacity,
    /** Adds executions that have something to do, and executions that only wait. */
    fill: (busy: number, waiting = 0) => {
      for (let i = 0; i < busy + waiting; i++) occupants.push({ idleUntil: () => (i < busy ? undefined : 1) });
      for (const each of occupants) capacity.enter(each);
    },
    settle: (count: number) => {
      for (const each of occupants.slice(0, count)) capacity.settle(each);
    },
    end: (count: number) => {
      for (const each of occupants.splice(0, count)) capacity.leave(each);
    },
  };
}

it('counts busy executions and reserved capacity, but not executions that wait', () => {
  const { capacity, fill } = newCapacity(10);
  fill(4, 100);
  const release = capacity.reserve(5);
  expect(capacity.free()).toBe(1);
  release();
  expect(capacity.free()).toBe(6);
});

it('admits extra work after some time without capacity, less and less often, until capacity is free', async () => {
  const { capacity, clock, fill, end } = newCapacity(10);
  fill(10);
  const admitted: number[] = [];
  for (let second = 0; second < 200; second++) {
    await clock.advance('1s');
    const free = capacity.free();
    if (free > 0) admitted.push(second);
    fill(free);
  }
  // Extra work is admitted after 1, 2, 4, ... seconds without capacity. Each period starts with the first check that
  // finds no capacity.
  expect(admitted.length).toBeLessThan(10);
  expect(admitted.length).toBeGreaterThan(5);
  end(10 + 50 * admitted.length - 9);
  expect(capacity.free()).toBe(1);
  fill(1);
  expect(capacity.free()).toBe(0);
  await clock.advance('1s');
  expect(capacity.free()).toBe(50);
});

it('frees capacity as soon as code ends, while outcomes are being written, but not beyond the limit', async () => {
  const { capacity, fill, settle, end } = newCapacity(3);
  fill(3);
  let woken = 0;
  capacity.waitForCapacity(() => woken++, 2);
  settle(2);
  await eventLoopTurn();
  expect([capacity.free(), woken]).toEqual([2, 1]);
  fill(2);
  // Three executions may settle. The other two count until their outcomes are written.
  settle(5);
  expect(capacity.free()).toBe(1);
  end(3);
  expect(capacity.free()).toBe(1);
  end(2);
  expect(capacity.free()).toBe(3);
});

it('wakes waiters in order, and not more than there is capacity for', async () => {
  const { capacity, fill, end } = newCapacity(3);
  fill(3);
  const woken: string[] = [];
  for (const name of ['a', 'b', 'c']) capacity.waitForCapacity(() => woken.push(name), 1);
  end(2);
  await eventLoopTurn();
  expect(woken).toEqual(['a', 'b']);
});

it('wakes a waiter before all its ends have come if there is capacity, and reports if any have come', async () => {
  const { capacity, clock, fill, end } = newCapacity(100);
  fill(10);
  const woken: boolean[] = [];
  capacity.waitForCapacity((haveEnded) => woken.push(haveEnded), 5);
  await clock.advance('100ms');
  expect(woken).toEqual([false]);
  capacity.waitForCapacity((haveEnded) => woken.push(haveEnded), 5);
  end(4);
  await eventLoopTurn();
  expect(woken).toEqual([false]);
  await clock.advance('100ms');
  capacity.waitForCapacity((haveEnded) => woken.push(haveEnded), 5);
  end(5);
  await eventLoopTurn();
  expect(woken).toEqual([false, true, true]);
});

it('wakes a waiter that found no capacity because of a claim that returned less work', async () => {
  const { capacity } = newCapacity(10);
  const release = capacity.reserve(10);
  const woken: string[] = [];
  capacity.waitForCapacity(() => woken.push('a'), 1);
  release();
  await eventLoopTurn();
  expect(woken).toEqual(['a']);
});

it('divides the first page between peers, and asks for the next page when half of a page has ended', () => {
  const { capacity, fill } = newCapacity(1_000);
  expect([capacity.firstPage(200, 0), capacity.endsBeforeNext(200, 0)]).toEqual([200, 0]);
  fill(200);
  expect(capacity.endsBeforeNext(200, 0)).toBeLessThanOrEqual(0);
  expect([capacity.firstPage(200, 3), capacity.endsBeforeNext(200, 3)]).toEqual([50, 100]);
  expect(capacity.firstPage(200, 99)).toBe(10);
  fill(700);
  expect(capacity.endsBeforeNext(1_000, 0)).toBeGreaterThan(0);
});
