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

  it.each(['missing', 'CANCELLED'])(
    'settles no wait by a query that began before it: the workflow is %s in its answer, and was resumed since',
    async (before) => {
      const clock = new VirtualClock();
      const answers: ((endings: Ending[]) => void)[] = [];
      const endings = (): Promise<Ending[]> => new Promise((resolve) => answers.push(resolve));
      const storage = { workflows: { endings } } as unknown as Storage;
      const waiters = new CompletionWaiters({ storage, clock, logger, runsHere: () => false });
      const none = { output: null, error: null, serialization: null, statusReason: null };
      const earlier = waiters.wait('elsewhere').ending.catch(({ code }) => ({ status: code }));
      await clock.advance(0);
      const later = waiters.wait('elsewhere').ending;
      answers[0]?.(before === 'missing' ? [] : [{ workflowId: 'elsewhere', status: 'CANCELLED', ...none }]);
      expect(await earlier).toMatchObject({ status: before === 'missing' ? 'WORKFLOW_NOT_FOUND' : 'CANCELLED' });
      await clock.advance(0);
      answers[1]?.([{ workflowId: 'elsewhere', status: 'SUCCESS', ...none }]);
      expect(await later).toMatchObject({ status: 'SUCCESS' });
      waiters.close();
    },
  );
});
