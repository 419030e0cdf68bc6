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
import type { Superseded } from './confirm-writes.js';

/**
 * The result of enqueueing a workflow:
 *
 * - `created`: the workflow is new.
 * - `existing`: another workflow already has the ID.
 * - `held`: another workflow holds the deduplication ID.
 * - `queueless`: the queue does not exist.
 * - `left-out`: another workflow of the same batch could not be enqueued.
 * - `superseded`: the parent of the child has another owner, or lost earlier results.
 */
export type Enqueued =
  | { readonly is: 'created' }
  | { readonly is: 'existing'; readonly workflow: WorkflowRecord }
  | { readonly is: 'held'; readonly by: DedupHolder }
  | { readonly is: 'queueless' }
  | { readonly is: 'left-out' }
  | { readonly is: 'superseded'; readonly by: Superseded };

/** How often a refused batch is retried if no workflow holds its deduplication IDs when they are read. */
const maxRefusals = 10;
/** How often the enqueueing of a child is attempted if the reads show no reason for its failure. */
const maxChildAttempts = 5;
/**
 * The same limit for a child with a deduplication ID. Other workflows may hold the ID at each insert and free it
 * before each read, so many failures do not mean that the database lost results.
 */
const maxAttemptsForDedupId = 200;

/** Enqueues workflows by group commit. Only one statement runs at a time, so workflows are enqueued in call order. */
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
        write: async (rows, impatient) => explainEnqueued(storage, rows, await by(impatient).queues.enqueueMany(rows)),
        weigh: (row) => row.inputs.length + 400,
      },
      options,
    );
    this.batches = new Batcher(
      {
        name: 'batches of enqueued workflows',
        failsFast: (rows) => rows.every((row) => row.parentOwner === null),
        // The key is the first deduplication ID of the batch. While a lock on this ID delays the batch, later items
        // that want another ID of the batch may be written first.
        key: (rows) => {
          const row = rows.find(({ dedupId }) => dedupId !== null) ?? rows[0];
          return row ? lockKey(row) : '';
        },
        // The weight allows one batch per statement.
        write: async ([rows = []], impatient) => [
          await explainEnqueued(storage, rows, await by(impatient).queues.enqueueAll(rows)),
        ],
        weigh: () => Number.POSITIVE_INFINITY,
      },
      options,
    );
  }

  async enqueue(row: EnqueuedWorkflow): Promise<Enqueued> {
    for (let attempt = 1; ; attempt++) {
      const enqueued = await this.batcher.submit(row);
      // Undefined: the deduplication ID was held at the insert, and is free again.
      if (enqueued) return enqueued;
      // After many attempts, the cause is another one: the database has lost earlier results of the parent and refuses
      // the child.
      const { parentOwner: owner, dedupId } = row;
      const max = dedupId === null ? maxChildAttempts : maxAttemptsForDedupId;
      if (owner !== null && attempt === max) return { is: 'superseded', by: { owner, status: 'PENDING' } };
    }
  }

  /** Enqueues all rows or none: if any result is not `created` or `existing`, no workflow was enqueued. */
  async enqueueAll(rows: readonly EnqueuedWorkflow[]): Promise<Enqueued[]> {
    for (let refusals = 0; ; ) {
      const explained = await this.batches.submit(rows).catch((error) => {
        // Usually a deduplication ID is taken. The statement has enqueued no other row of the batch either.
        if (!isHoldfastError(error, 'STORAGE_REFUSED') || refusals++ === maxRefusals) throw error;
        return this.explainRefusal(rows, error);
      });
      // The obstacle may be gone when it is read. Then the batch is retried.
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

/**
 * Returns the result for each row after a statement that created only some. Undefined: no obstacle is left, so a
 * retry may succeed.
 */
export async function explainEnqueued(
  storage: Pick<Storage, 'workflows' | 'queues'>,
  rows: readonly EnqueuedWorkflow[],
  created: ReadonlySet<string>,
): Promise<(Enqueued | undefined)[]> {
  if (created.size === rows.length) return rows.map(() => ({ is: 'created' }));
  const others = rows.filter((row) => !created.has(row.workflowId));
  const ids = others.flatMap((row) => [row.workflowId, ...(row.parentWorkflowId ? [row.parentWorkflowId] : [])]);
  const found = new Map((await storage.workflows.get(ids)).map((each) => [each.workflowId, each]));
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
  { queues }: Pick<Storage, 'queues'>,
  rows: readonly EnqueuedWorkflow[],
): Promise<Map<string, DedupHolder>> {
  const keys = rows.flatMap(({ queueName, dedupId }) => (dedupId === null ? [] : [{ queueName, dedupId }]));
  if (keys.length === 0) return new Map();
  return new Map((await queues.holders(keys)).map((each) => [dedupKey(each), each]));
}

function dedupKey({ queueName, dedupId }: Pick<EnqueuedWorkflow, 'queueName' | 'dedupId'>): string {
  return JSON.stringify([queueName, dedupId]);
}

/**
 * Returns the object that another session may have locked: the parent, else the deduplication ID, else the queue. An
 * uncommitted start also holds its deduplication ID. While a workflow waits for its deduplication ID, other workflows
 * of its queue are enqueued before it.
 */
function lockKey(row: EnqueuedWorkflow): string {
  return row.parentWorkflowId ?? (row.dedupId === null ? row.queueName : dedupKey(row));
}

export function duplicateError(wanted: DedupKey & WorkflowKey, holder: DedupHolder): HoldfastError {
  const { queueName, dedupId } = wanted;
  const { workflowId } = holder;
  const [name, requested] = [describeKey(holder), describeKey(wanted)];
  const instead = sameKey(holder, wanted)
    ? `start with { onDuplicate: 'return-existing' } to get that workflow`
    : `give "${requested}" its own deduplication ID, because it is another workflow`;
  return new HoldfastError(
    'QUEUE_DUPLICATE',
    `Queue "${queueName}" already has a workflow with the deduplication ID "${dedupId}": "${workflowId}", of ` +
      `"${name}". Wait until it has ended, or ${instead}.`,
    { details: { queueName, dedupId, workflowId, name } },
  );
}
