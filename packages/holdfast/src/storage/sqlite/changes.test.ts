import { expect, it, onTestFinished } from 'vitest';
import { watchChanges } from './changes.js';

it('goes on looking when a look fails, and hears of what changed meanwhile', async () => {
  let counter: number | Error = new Error('disk I/O error');
  let looks = 0;
  let heard = 0;
  const look = (): number => {
    looks++;
    if (counter instanceof Error) throw counter;
    return counter;
  };
  const listening = watchChanges(look, { received: () => heard++, state: () => {} });
  onTestFinished(() => listening.stop());
  await expect.poll(() => looks).toBeGreaterThan(3);
  expect(heard).toBe(0);
  counter = 7;
  await expect.poll(() => heard).toBe(1);
  counter = new Error('disk I/O error');
  const before = looks;
  await expect.poll(() => looks).toBeGreaterThan(before + 2);
  counter = 8;
  await expect.poll(() => heard).toBe(2);
});
