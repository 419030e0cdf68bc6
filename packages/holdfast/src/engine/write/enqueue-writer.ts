import { HoldfastError, isHoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { internalQueue } from '../../model/queues.js';
import { describeKey, sameKey, type WorkflowKey } from '../../model/workflow-key.js';
import type {
  DedupHolder,
  DedupKey,
  EnqueuedWorkflow,
  Storage,
  WorkflowRecord,
} from '../../storage/contract/storage.js';
import { Batcher } from './batcher.js';
import type { Superseded } from './checkpoints.js';

/**
 * How an enqueueing turned out: new; or the workflow that has the ID; or the one that holds the deduplication ID; or there
 * is no such queue; or others of its batch could not be enqueued; or the parent that wanted the child is no longer the
 * caller's.
 */
export type Enqueued =
  | { readonly is: 'created' }
  | { readonly is: 'existing'; readonly workflow: WorkflowRecord }
  | { readonly is: 'held'; readonly by: DedupHolder }
  | { readonly is: 'queueless' }
  | { readonly is: 'left-out' }
  | { readonly is: 'superseded'; readonly by: Superseded };

/** How often a batch is tried again that was refused although nobody holds its deduplication IDs (any more). */
const maxRefusals = 10;
/** And so many enqueueings of a child that nothing seems to stand in the way of. */
const maxTries = 5;
/** Others may hold a deduplication ID at each insert, and have given it back at each look. That is no loss. */
const maxTriesForId = 200;

/** Enqueueing, by group commit. One statement at a time: what is called first in a process is first in the queue. */
export class EnqueueWriter {
  private readonly batcher: Batcher<EnqueuedWorkflow, Enqueued | undefined>;
  private readonly batches: Batcher<readonly EnqueuedWorkflow[], (Enqueued | undefined)[]>;

  constructor(
    private readonly storage: Storage,
    logger: Logger,
  ) {
    const options = { logger, classify: (error: unknown) => storage.classify(error) };
    const by = (impatient?: boolean) => (impatient ? storage.impatient : storage);
    this.batcher = new Batcher(
      {
        name: 'enqueued workflows',
        failsFast: (row) => row.parentOwner === null,
        key: lockKey,
        write: async (rows, impatient) =>
          explainEnqueued(storage, rows, await by(impatient).workflows.enqueueMany(rows)),
        weigh: (row) => row.inputs.length + 400,
      },
      options,
    );
    this.batches = new Batcher(
      {
        name: 'batches of enqueued workflows',
        failsFast: (rows) => rows.every((row) => row.parentOwner === null),
        // Of several deduplication IDs the first: others that want one of the rest may pass while somebody holds it up.
        key: (rows) => {
          const row = rows.find(({ dedupId }) => dedupId !== null) ?? rows[0];
          return row ? lockKey(row) : '';
        },
        // One at a time: each is its own statement.
        write: async ([rows = []], impatient) => [
          await explainEnqueued(storage, rows, await by(impatient).workflows.enqueueAll(rows)),
        ],
        weigh: () => Number.POSITIVE_INFINITY,
      },
      options,
    );
  }

  async enqueue(row: EnqueuedWorkflow): Promise<Enqueued> {
    for (let tries = 1; ; tries++) {
      const enqueued = await this.batcher.submit(row);
      // Undefined: the deduplication ID was held, and is free again.
      if (enqueued) return enqueued;
      // Or what its parent has done before is not on record any more.
      const { parentOwner: owner, dedupId } = row;
      const most = dedupId === null ? maxTries : maxTriesForId;
      if (owner !== null && tries === most) return { is: 'superseded', by: { owner, status: 'PENDING' } };
    }
  }

  /** All or none: unless each row is `created` or `existing`, nothing was enqueued. */
  async enqueueAll(rows: readonly EnqueuedWorkflow[]): Promise<Enqueued[]> {
    for (let refusals = 0; ; ) {
      const explained = await this.batches.submit(rows).catch((error) => {
        // A deduplication ID is taken, as a rule; the others of the batch are as they were.
        if (!isHoldfastError(error, 'STORAGE_REFUSED') || refusals++ === maxRefusals) throw error;
        return this.explainRefusal(rows, error);
      });
      // What stood in the way may be gone by the time one looks for it.
      if (explained.every((each) => each?.is === 'created' || each?.is === 'existing')) return explained as Enqueued[];
      const obstacles = explained.filter((each) => each !== undefined && each.is !== 'created');
      if (obstacles.length > 0) return explained.map((each) => each ?? { is: 'left-out' });
    }
  }

  private async explainRefusal(rows: readonly EnqueuedWorkflow[], refusal: Error): Promise<(Enqueued | undefined)[]> {
    const keys = rows.filter(({ dedupId }) => dedupId !== null).map(dedupKey);
    if (keys.length === 0 || new Set(keys).size < keys.length) throw refusal;
    const explained = await explainEnqueued(this.storage, rows, new Set());
    return explained.some((each) => each?.is === 'held') ? explained : rows.map(() => undefined);
  }

  get isIdle(): boolean {
    return this.batcher.isIdle && this.batches.isIdle;
  }

  async idle(): Promise<void> {
    await Promise.all([this.batcher.idle(), this.batches.idle()]);
  }

  close(error?: Error): void {
    this.batcher.close(error);
    this.batches.close(error);
  }
}

/** What became of rows of which only some are new: of each of the others why it is not, or undefined if it could be now. */
export async function explainEnqueued(
  storage: Pick<Storage, 'workflows' | 'queues'>,
  rows: readonly EnqueuedWorkflow[],
  created: ReadonlySet<string>,
): Promise<(Enqueued | undefined)[]> {
  if (created.size === rows.length) return rows.map(() => ({ is: 'created' }));
  const others = rows.filter((row) => !created.has(row.workflowId));
  const asked = others.flatMap((row) => [row.workflowId, ...(row.parentWorkflowId ? [row.parentWorkflowId] : [])]);
  const found = new Map((await storage.workflows.get(asked)).map((each) => [each.workflowId, each]));
  const held = await holders(
    storage,
    others.filter((row) => !found.has(row.workflowId)),
  );
  const queues = new Set((await storage.queues.list()).map((queue) => queue.name));
  return rows.map((row) => {
    if (created.has(row.workflowId)) return { is: 'created' };
    const existing = found.get(row.workflowId);
    if (existing) return { is: 'existing', workflow: existing };
    const parent = row.parentWorkflowId === null ? undefined : found.get(row.parentWorkflowId);
    if (row.parentOwner !== null && (parent?.owner !== row.parentOwner || parent.status !== 'PENDING')) {
      return { is: 'superseded', by: { owner: parent?.owner ?? null, status: parent?.status } };
    }
    const by = held.get(dedupKey(row));
    if (by) return { is: 'held', by };
    return row.queueName === internalQueue || queues.has(row.queueName) ? undefined : { is: 'queueless' };
  });
}

async function holders(
  { workflows }: Pick<Storage, 'workflows'>,
  rows: readonly EnqueuedWorkflow[],
): Promise<Map<string, DedupHolder>> {
  const keys = rows.flatMap(({ queueName, dedupId }) => (dedupId === null ? [] : [{ queueName, dedupId }]));
  if (keys.length === 0) return new Map();
  return new Map((await workflows.holders(keys)).map((each) => [dedupKey(each), each]));
}

function dedupKey({ queueName, dedupId }: Pick<EnqueuedWorkflow, 'queueName' | 'dedupId'>): string {
  return JSON.stringify([queueName, dedupId]);
}

/**
 * What somebody may have locked: the parent, or the deduplication ID, which a start that is not committed yet holds too, or
 * else the queue. One that waits for its deduplication ID is passed by others of its queue.
 */
function lockKey(row: EnqueuedWorkflow): string {
  return row.parentWorkflowId ?? (row.dedupId === null ? row.queueName : dedupKey(row));
}

export function duplicateError(wanted: DedupKey & WorkflowKey, holder: DedupHolder): HoldfastError {
  const { queueName, dedupId } = wanted;
  const { workflowId } = holder;
  const [name, requested] = [describeKey(holder), describeKey(wanted)];
  const instead = sameKey(holder, wanted)
    ? `start with { onDuplicate: 'return-existing' } to get that one`
    : `give "${requested}", which is another workflow, a deduplication ID of its own`;
  return new HoldfastError(
    'QUEUE_DUPLICATE',
    `Queue "${queueName}" already has a workflow with the deduplication ID "${dedupId}": "${workflowId}", of "${name}". ` +
      `Wait until it has ended, or ${instead}.`,
    { details: { queueName, dedupId, workflowId, name } },
  );
}
