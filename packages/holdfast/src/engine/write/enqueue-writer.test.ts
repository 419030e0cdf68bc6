import { expect, it } from 'vitest';
import type { EnqueuedWorkflow, Storage, WorkflowRecord } from '../../storage/contract/storage.js';
import { EnqueueWriter } from './enqueue-writer.js';

const logger = { debug() {}, info() {}, warn() {}, error() {} };
const parent = { workflowId: 'parent', owner: 'me', status: 'PENDING' } as WorkflowRecord;

/** A parent that is still its owner's, and inserts that find something in the way which is gone at each look. */
function enqueuing(row: { dedupId: string | null }, refusals: number) {
  let inserts = 0;
  const workflows = {
    enqueueMany: async () => new Set(inserts++ < refusals ? [] : ['child']),
    get: async () => [parent],
    holders: async () => [],
  };
  const storage = { workflows, queues: { list: async () => [{ name: 'q' }] }, classify: () => 'lost' };
  const enqueues = new EnqueueWriter({ ...storage, impatient: storage } as unknown as Storage, logger);
  const child = { workflowId: 'child', queueName: 'q', inputs: '[]', parentWorkflowId: 'parent', parentOwner: 'me' };
  return enqueues.enqueue({ ...child, ...row } as EnqueuedWorkflow);
}

it('a child is not given up because others hold its deduplication ID at each insert, and at no look', async () => {
  expect(await enqueuing({ dedupId: 'busy' }, 50)).toEqual({ is: 'created' });
});

it.each(['an ID', null])(
  'a parent that has lost results is given up in the end, with the deduplication ID %s',
  async (dedupId) => {
    const by = { owner: 'me', status: 'PENDING' };
    expect(await enqueuing({ dedupId }, Number.POSITIVE_INFINITY)).toEqual({ is: 'superseded', by });
  },
);
