import { expect } from 'vitest';
import type { TestApp } from '../../src/testing/index.js';

/**
 * Crashes an app, and advances the clock until the observer is certain of the death. A heartbeat that the observer
 * has not seen yet can make it doubt its verdict once.
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
