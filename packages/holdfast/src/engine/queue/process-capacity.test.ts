import { expect, it } from 'vitest';
import { VirtualClock } from '../../testing/virtual-clock.js';
import { type Occupant, ProcessCapacity } from './process-capacity.js';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function newRoom(limit: number) {
  const clock = new VirtualClock();
  const room = new ProcessCapacity(clock);
  room.limit = limit;
  const occupants: Occupant[] = [];
  return {
    clock,
    room,
    /** As many as have something to do; the others wait. */
    fill: (busy: number, waiting = 0) => {
      for (let i = 0; i < busy + waiting; i++) occupants.push({ idleUntil: () => (i < busy ? undefined : 1) });
      for (const each of occupants) room.enter(each);
    },
    settle: (count: number) => {
      for (const each of occupants.slice(0, count)) room.settle(each);
    },
    end: (count: number) => {
      for (const each of occupants.splice(0, count)) room.leave(each);
    },
  };
}

it('counts what is busy and what is about to be claimed, and not what waits', () => {
  const { room, fill } = newRoom(10);
  fill(4, 100);
  const release = room.reserve(5);
  expect(room.free()).toBe(1);
  release();
  expect(room.free()).toBe(6);
});

it('lets a few more in when it has been full for long, ever more rarely, and forgets that when it is not full any more', async () => {
  const { room, clock, fill, end } = newRoom(10);
  fill(10);
  const passed: number[] = [];
  for (let second = 0; second < 200; second++) {
    await clock.advance('1s');
    const free = room.free();
    if (free > 0) passed.push(second);
    fill(free);
  }
  // After 1, 2, 4, ... seconds without room, of which each look that finds none begins the next.
  expect(passed.length).toBeLessThan(10);
  expect(passed.length).toBeGreaterThan(5);
  end(10 + 50 * passed.length - 9);
  expect(room.free()).toBe(1);
  fill(1);
  expect(room.free()).toBe(0);
  await clock.advance('1s');
  expect(room.free()).toBe(50);
});

it('has room for the next as soon as code has ended, while outcomes are being written, but for no more than may run', async () => {
  const { room, fill, settle, end } = newRoom(3);
  fill(3);
  let woken = 0;
  room.waitForCapacity(() => woken++, 2);
  settle(2);
  await turn();
  expect([room.free(), woken]).toEqual([2, 1]);
  fill(2);
  // Three may settle. The other two count until their outcomes are written.
  settle(5);
  expect(room.free()).toBe(1);
  end(3);
  expect(room.free()).toBe(1);
  end(2);
  expect(room.free()).toBe(3);
});

it('wakes those who seek room in their order, and no more of them than there is room for', async () => {
  const { room, fill, end } = newRoom(3);
  fill(3);
  const woken: string[] = [];
  for (const name of ['a', 'b', 'c']) room.waitForCapacity(() => woken.push(name), 1);
  end(2);
  await turn();
  expect(woken).toEqual(['a', 'b']);
});

it('wakes who waits for more ends than there were after a moment, if there is room, and says whether any came', async () => {
  const { room, clock, fill, end } = newRoom(100);
  fill(10);
  const woken: boolean[] = [];
  room.waitForCapacity((haveEnded) => woken.push(haveEnded), 5);
  await clock.advance('100ms');
  expect(woken).toEqual([false]);
  room.waitForCapacity((haveEnded) => woken.push(haveEnded), 5);
  end(4);
  await turn();
  expect(woken).toEqual([false]);
  await clock.advance('100ms');
  room.waitForCapacity((haveEnded) => woken.push(haveEnded), 5);
  end(5);
  await turn();
  expect(woken).toEqual([false, true, true]);
});

it('wakes who found no room because of a claim that then took less', async () => {
  const { room } = newRoom(10);
  const release = room.reserve(10);
  const woken: string[] = [];
  room.waitForCapacity(() => woken.push('a'), 1);
  release();
  await turn();
  expect(woken).toEqual(['a']);
});

it('gives the first page to all who share, and the next when half of one has ended', () => {
  const { room, fill } = newRoom(1_000);
  expect([room.firstPage(200, 0), room.endsBeforeNext(200, 0)]).toEqual([200, 0]);
  fill(200);
  expect(room.endsBeforeNext(200, 0)).toBeLessThanOrEqual(0);
  expect([room.firstPage(200, 3), room.endsBeforeNext(200, 3)]).toEqual([50, 100]);
  expect(room.firstPage(200, 99)).toBe(10);
  fill(700);
  expect(room.endsBeforeNext(1_000, 0)).toBeGreaterThan(0);
});
