import { describe, expect, it } from 'vitest';
import type { Ending, Storage } from '../../storage/contract/storage.js';
import { VirtualClock } from '../../testing/virtual-clock.js';
import { CompletionWaiters } from './completion-waiters.js';

const logger = { debug() {}, info() {}, warn() {}, error() {} };

describe('waiting for workflows of other processes', () => {
  it('looks for them although new waiters arrive all the time', async () => {
    const clock = new VirtualClock();
    let looks = 0;
    const endings = async (): Promise<Ending[]> => {
      looks++;
      return [];
    };
    const storage = { workflows: { endings } } as unknown as Storage;
    const outcomes = new CompletionWaiters(storage, clock, logger, () => false);
    // Each ends its wait for the poll of 20 ms before that is over.
    for (let n = 0; n < 50; n++) {
      outcomes.wait('elsewhere').ending.catch(() => {});
      outcomes.watchElsewhere('elsewhere');
      await clock.advance(10);
    }
    expect(looks).toBeGreaterThan(10);
    outcomes.close();
  });
});
