import type { Engine } from '../engine/engine.js';
import type { LimitSettings } from '../model/queues.js';
import type { PartitionUsage, RateWindow } from '../storage/contract/queues.js';
import { freeHere, freeInFleet, nextStart, type Share } from './plan.js';

/** How many partitions are looked at by one statement. */
const pageSize = 200;

interface Wanted {
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
  /** When a partition may start the next workflow that its rate limit holds back now. */
  readonly blockedUntil: number | undefined;
  /** Less is offered than there are slots. */
  readonly exhausted: boolean;
}

/** Goes round the partitions from behind the one that was served last, until there is enough to share out. */
export async function sharesOfPartitions(engine: Engine, wanted: Wanted): Promise<Shares> {
  const { queueName, perPartition, slots } = wanted;
  const found: PartitionUsage[] = [];
  const free = (each: PartitionUsage): number =>
    Math.min(
      each.waiting,
      freeInFleet(perPartition, each),
      freeHere(perPartition, engine.queueLoad.ofPartition(queueName, each.partition)),
    );
  let { after } = wanted;
  let wrapped = after === '';
  for (;;) {
    const page = await lookAtPartitions(engine, wanted, after);
    found.push(...page);
    const last = page.at(-1);
    if (wanted.isStopped() || found.filter((each) => free(each) > 0).length >= slots) break;
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

function lookAtPartitions(engine: Engine, { queueName, slots, rate, suspects }: Wanted, after: string) {
  const { storage, writer, version, registry } = engine;
  return storage.queues.partitions({
    ...{ writer, version, runnable: registry.runnable(), queueName, after, limit: pageSize },
    ...{ waitingUpTo: slots, rate, suspects },
  });
}
