import { expect, it, onTestFinished } from 'vitest';
import { watchChanges } from './changes.js';

it('continues to poll when a poll fails, and then reports the changes made in the meantime', async () => {
  let counter: number | Error = new Error('disk I/O error');
  let polls = 0;
  let reports = 0;
  const readCounter = (): number => {
    polls++;
    if (counter instanceof Error) throw counter;
    return counter;
  };
  const listening = watchChanges(readCounter, { received: () => reports++, state: () => {} });
  onTestFinished(() => listening.stop());
  await expect.poll(() => polls).toBeGreaterThan(3);
  expect(reports).toBe(0);
  counter = 7;
  await expect.poll(() => reports).toBe(1);
  counter = new Error('disk I/O error');
  const pollsBefore = polls;
  await expect.poll(() => polls).toBeGreaterThan(pollsBefore + 2);
  counter = 8;
  await expect.poll(() => reports).toBe(2);
});
