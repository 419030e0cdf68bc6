import { expect } from 'vitest';
import type { TestApp } from '../../src/testing/index.js';

/**
 * Crashes an app, and lets time pass until another one has no doubt about it: what it has seen of the process may be
 * put in question once by a heartbeat that it had not seen before.
 */
export async function crashSeenBy(observer: TestApp, dying: TestApp): Promise<void> {
  const { executorId } = dying.app;
  await dying.crash();
  for (let look = 0; look < 2; look++) await observer.clock.advance('5s');
  await expect
    .poll(async () => {
      await observer.clock.advance('5s');
      const left = await observer.app.recovery.incomplete({ executorId });
      return left.filter(({ executor }) => executor !== 'dead');
    })
    .toEqual([]);
}
