import { expect, it } from 'vitest';
import { VirtualClock } from './virtual-clock.js';

it('stands at whole milliseconds only, whatever instants it is asked to stop at', async () => {
  const clock = new VirtualClock(1000);
  const rung: number[] = [];
  const done = new Promise<void>((resolve) => {
    clock.at(1001.25, () => void rung.push(clock.now()), 'background');
    clock.at(1002.5, () => {
      rung.push(clock.now());
      resolve();
    });
  });
  await clock.runUntil(done);
  await clock.advance(0);
  expect(rung.every(Number.isInteger)).toBe(true);
  expect(clock.now()).toBe(1003);
});
