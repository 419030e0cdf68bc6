import type { Engine } from '../engine/engine.js';
import type { LimitSettings } from '../model/queues.js';
import type { PartitionUsage, RateWindow } from '../storage/contract/queues.js';
import { freeHere, freeInFleet, nextStart, type Share } from './plan.js';

/** How many partitions one statement reads. */
const pageSize = 200;

interface SharesParams {
  readonly queueName: string;
  readonly perPartition: LimitSettings;
  /** How many workflows the queue may start. */
  readonly slots: number;
  /** The partition that was served last. */
  readonly after: string;
  readonly rate: RateWindow | null;
  readonly suspects: boolean;
  isStopped(): boolean;
}

interface Shares {
  readonly shares: readonly Share[];
  /** The earliest instant at which a partition whose rate limit is used up may start its next workflow. */
  readonly blockedUntil: number | undefined;
  /** True if the partitions can use fewer slots than there are. */
  readonly exhausted: boolean;
}

/**
 * Finds the partitions that share the free slots. Reads partitions in the order of their keys until enough of them can
 * start work. Begins after the partition that was served last, and continues from the first key.
 */
export async function sharesOfPartitions(engine: Engine, params: SharesParams): Promise<Shares> {
  const { queueName, perPartition, slots } = params;
  const found: PartitionUsage[] = [];
  const free = (each: PartitionUsage): number =>
    Math.min(
      each.waiting,
      freeInFleet(perPartition, each),
      freeHere(perPartition, engine.slotsInUse.ofPartition(queueName, each.partition)),
    );
  let { after } = params;
  let wrapped = after === '';
  for (;;) {
    const page = await readPartitions(engine, params, after);
    found.push(...page);
    const last = page.at(-1);
    if (params.isStopped() || found.filter((each) => free(each) > 0).length >= slots) break;
    if (page.length === pageSize && last) after = last.partition;
    else if (!wrapped) [after, wrapped] = ['', true];
    else break;
  }
  const distinct = [...new Map(found.map((each) => [each.partition, each])).values()];
  const shares = distinct.map((each) => ({ partition: each.partition, most: free(each) }));
  const starts = distinct.flatMap((each) => nextStart(perPartition, each) ?? []);
  const blockedUntil = starts.length > 0 ? Math.min(...starts) : undefined;
  const offered = shares.reduce((sum, share) => sum + Math.max(0, share.most), 0);
  return { shares, blockedUntil, exhausted: offered < slots };
}

function readPartitions(engine: Engine, { queueName, slots, rate, suspects }: SharesParams, after: string) {
  const { storage, writer, version, registry } = engine;
  return storage.queues.partitions({
    ...{ writer, version, runnable: registry.runnable(), queueName, after, limit: pageSize },
    ...{ waitingUpTo: slots, rate, suspects },
  });
}
