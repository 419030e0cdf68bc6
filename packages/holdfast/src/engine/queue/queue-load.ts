import type { Clock } from '../../model/clock.js';
import { noPartition } from '../../model/queues.js';
import { type Occupant, ProcessCapacity } from './process-capacity.js';

/** With more executions than this that have something to do, a process takes on no more of what has no limit of its own. */
export const maxBusy = 1_000;

/** A suspect that has done something for so long has not ended its process by it, and others may wait for that one. */
const suspectedMs = 30_000;

/** What is counted: an execution (execution.ts), or what is left of it at rest (suspended.ts). */
interface Counted extends Occupant {
  readonly claim: { readonly queueName: string | null; readonly partition: string | null };
  readonly isSuspect: boolean;
  readonly isSuspended?: true;
}

/** What this process runs of each queue, and of each partition: what limits per process are measured by. */
export class QueueLoad {
  private readonly queues = new Map<string, LoadCounts>();
  /** Since when a suspect runs here. */
  private readonly suspectSince = new WeakMap<Counted, number>();
  /** Called when an execution of a queue has ended here. */
  onFreed: ((queueName: string, wasSuspect: boolean) => void) | undefined;
  /** For more of any queue. */
  readonly capacity: ProcessCapacity;

  constructor(private readonly clock: Pick<Clock, 'now' | 'at'>) {
    this.capacity = new ProcessCapacity(clock);
  }

  enter(execution: Counted): void {
    const { queueName, partition } = execution.claim;
    if (queueName === null) return;
    const load = this.queues.get(queueName) ?? { executions: new Set(), partitions: new Map() };
    this.queues.set(queueName, load);
    load.executions.add(execution);
    this.capacity.enter(execution);
    if (execution.isSuspect) this.suspectSince.set(execution, this.clock.now());
    if (partition !== null) load.partitions.set(partition, (load.partitions.get(partition) ?? 0) + 1);
  }

  leave(execution: Counted): void {
    const { queueName, partition } = execution.claim;
    const load = queueName === null ? undefined : this.queues.get(queueName);
    if (queueName === null || !load?.executions.delete(execution)) return;
    if (partition !== null) {
      const left = (load.partitions.get(partition) ?? 1) - 1;
      if (left > 0) load.partitions.set(partition, left);
      else load.partitions.delete(partition);
    }
    if (load.executions.size === 0) this.queues.delete(queueName);
    this.capacity.leave(execution);
    this.onFreed?.(queueName, execution.isSuspect);
  }

  /** The same work in another form: nothing becomes free. */
  replace(former: Counted, latter: Counted): void {
    const executions = this.queues.get(former.claim.queueName ?? '')?.executions;
    if (!executions?.delete(former)) return;
    executions.add(latter);
    this.capacity.rest(former);
    if (!latter.isSuspended) this.capacity.enter(latter);
    if (latter.isSuspect) this.suspectSince.set(latter, this.suspectSince.get(former) ?? this.clock.now());
  }

  of(queueName: string): number {
    return this.queues.get(queueName)?.executions.size ?? 0;
  }

  /** Of a partition; those without a key are those of a queue that had no partitions when they began. */
  ofPartition(queueName: string, partition: string): number {
    const load = this.queues.get(queueName);
    if (!load) return 0;
    if (partition !== noPartition) return load.partitions.get(partition) ?? 0;
    const keyed = [...load.partitions].reduce((sum, [key, count]) => sum + (key === noPartition ? 0 : count), 0);
    return load.executions.size - keyed;
  }

  /** Whether something runs here that has used up half of its attempts, not for long yet, and does not just wait. */
  hasSuspect(queueName: string): boolean {
    const longAgo = this.clock.now() - suspectedMs;
    for (const execution of this.queues.get(queueName)?.executions ?? []) {
      if (!execution.isSuspect || execution.idleUntil() !== undefined) continue;
      if ((this.suspectSince.get(execution) ?? longAgo) > longAgo) return true;
    }
    return false;
  }
}

interface LoadCounts {
  readonly executions: Set<Counted>;
  readonly partitions: Map<string, number>;
}
