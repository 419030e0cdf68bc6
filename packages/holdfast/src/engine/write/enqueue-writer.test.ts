import { expect, it } from 'vitest';
import type { EnqueuedWorkflow, Storage, WorkflowRecord } from '../../storage/contract/storage.js';
import { EnqueueWriter } from './enqueue-writer.js';

const logger = { debug() {}, info() {}, warn() {}, error() {} };
const parent = { workflowId: 'parent', owner: 'me', status: 'PENDING' } as WorkflowRecord;

/**
 * Enqueues a child of a parent with an unchanged owner. Each insert meets an obstacle that is gone at the next read.
 */
function enqueueChild(row: { dedupId: string | null }, refusals: number) {
  let inserts = 0;
  const queues = {
    enqueueMany: async () => new Set(inserts++ < refusals ? [] : ['child']),
    holders: async () => [],
    list: async () => [{ name: 'q' }],
  };
  const storage = { workflows: { get: async () => [parent] }, queues, classify: () => 'lost' };
  const writer = new EnqueueWriter({ ...storage, impatient: storage } as unknown as Storage, logger);
  const child = { workflowId: 'child', queueName: 'q', inputs: '[]', parentWorkflowId: 'parent', parentOwner: 'me' };
  return writer.enqueue({ ...child, ...row } as EnqueuedWorkflow);
}

it('keeps enqueueing a child whose deduplication ID is held at each insert and free at each read', async () => {
  expect(await enqueueChild({ dedupId: 'busy' }, 50)).toEqual({ is: 'created' });
});

it.each(['an ID', null])(
  'gives up enqueueing a child of a parent that lost results, with the deduplication ID %s',
  async (dedupId) => {
    const by = { owner: 'me', status: 'PENDING' };
    expect(await enqueueChild({ dedupId }, Number.POSITIVE_INFINITY)).toEqual({ is: 'superseded', by });
  },
);
