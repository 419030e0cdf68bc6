import type { Clock } from '../../model/clock.js';
import { noPartition } from '../../model/queues.js';
import { type Occupant, ProcessCapacity } from './process-capacity.js';

/** With more busy executions than this, a process takes no more work that has no limit of its own. */
export const maxBusy = 1_000;

/** A suspect that runs for this long has not killed its process, so other suspects no longer wait for it. */
const maxSuspectMs = 30_000;

/** A counted workflow: an execution (execution.ts) or a suspended workflow (suspended.ts). */
interface Counted extends Occupant {
  readonly claim: { readonly queueName: string | null; readonly partition: string | null };
  readonly isSuspect: boolean;
  readonly isSuspended?: true;
}

interface SlotsInUseOptions {
  readonly clock: Pick<Clock, 'now' | 'at'>;
  readonly maxRunning?: number | undefined;
  /** Called when an execution of a queue has ended in this process. */
  onFreed(freed: { readonly queueName: string; readonly wasSuspect: boolean }): void;
}

/**
 * Counts the workflows that this process runs of each queue and partition. The limits per process use these counts.
 */
export class SlotsInUse {
  private readonly queues = new Map<string, LoadCounts>();
  /** The instant since which each suspect runs in this process. */
  private readonly suspectSince = new WeakMap<Counted, number>();
  /** The capacity of this process for work of all queues. */
  readonly capacity: ProcessCapacity;

  constructor(private readonly options: SlotsInUseOptions) {
    this.capacity = new ProcessCapacity(options.clock, options.maxRunning);
  }

  enter(execution: Counted): void {
    const { queueName, partition } = execution.claim;
    if (queueName === null) return;
    const load = this.queues.get(queueName) ?? { executions: new Set(), partitions: new Map() };
    this.queues.set(queueName, load);
    load.executions.add(execution);
    this.capacity.enter(execution);
    if (execution.isSuspect) this.suspectSince.set(execution, this.options.clock.now());
    if (partition !== null) load.partitions.set(partition, (load.partitions.get(partition) ?? 0) + 1);
  }

  leave(execution: Counted): void {
    const { queueName, partition } = execution.claim;
    const load = queueName === null ? undefined : this.queues.get(queueName);
    if (queueName === null || !load?.executions.delete(execution)) return;
    if (partition !== null) {
      const remaining = (load.partitions.get(partition) ?? 1) - 1;
      if (remaining > 0) load.partitions.set(partition, remaining);
      else load.partitions.delete(partition);
    }
    if (load.executions.size === 0) this.queues.delete(queueName);
    this.capacity.leave(execution);
    this.options.onFreed({ queueName, wasSuspect: execution.isSuspect });
  }

  /** Replaces an execution by its suspended workflow, or the reverse. This is no end, so `onFreed` is not called. */
  replace(previous: Counted, replacement: Counted): void {
    const executions = this.queues.get(previous.claim.queueName ?? '')?.executions;
    if (!executions?.delete(previous)) return;
    executions.add(replacement);
    this.capacity.suspend(previous);
    if (!replacement.isSuspended) this.capacity.enter(replacement);
    if (replacement.isSuspect)
      this.suspectSince.set(replacement, this.suspectSince.get(previous) ?? this.options.clock.now());
  }

  of(queueName: string): number {
    return this.queues.get(queueName)?.executions.size ?? 0;
  }

  /** Returns the count of a partition. Workflows without a partition started when their queue had no partitions. */
  ofPartition(queueName: string, partition: string): number {
    const load = this.queues.get(queueName);
    if (!load) return 0;
    if (partition !== noPartition) return load.partitions.get(partition) ?? 0;
    const partitioned = [...load.partitions].reduce((sum, [key, count]) => sum + (key === noPartition ? 0 : count), 0);
    return load.executions.size - partitioned;
  }

  /** True if a suspect runs here, is not waiting, and started recently. A suspect has used up half of its attempts. */
  hasSuspect(queueName: string): boolean {
    const oldestStart = this.options.clock.now() - maxSuspectMs;
    for (const execution of this.queues.get(queueName)?.executions ?? []) {
      if (!execution.isSuspect || execution.idleUntil() !== undefined) continue;
      if ((this.suspectSince.get(execution) ?? oldestStart) > oldestStart) return true;
    }
    return false;
  }
}

interface LoadCounts {
  readonly executions: Set<Counted>;
  readonly partitions: Map<string, number>;
}
