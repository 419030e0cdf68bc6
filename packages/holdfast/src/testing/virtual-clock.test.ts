import { expect, it } from 'vitest';
import { VirtualClock } from './virtual-clock.js';

it('stops only at whole milliseconds, even if alarms are between them', async () => {
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
