import { describe, expect, it } from 'vitest';
import type { Ending, Storage } from '../../storage/contract/storage.js';
import { VirtualClock } from '../../testing/virtual-clock.js';
import { CompletionWaiters } from './completion-waiters.js';

const logger = { debug() {}, info() {}, warn() {}, error() {} };

describe('waiting for workflows of other processes', () => {
  it('polls even if new waits begin all the time', async () => {
    const clock = new VirtualClock();
    let queries = 0;
    const endings = async (): Promise<Ending[]> => {
      queries++;
      return [];
    };
    const storage = { workflows: { endings } } as unknown as Storage;
    const waiters = new CompletionWaiters({ storage, clock, logger, runsHere: () => false });
    // Each round restarts the polling before the current delay of 20 ms is over.
    for (let n = 0; n < 50; n++) {
      waiters.wait('elsewhere').ending.catch(() => {});
      waiters.watchElsewhere('elsewhere');
      await clock.advance(10);
    }
    expect(queries).toBeGreaterThan(10);
    waiters.close();
  });
});
