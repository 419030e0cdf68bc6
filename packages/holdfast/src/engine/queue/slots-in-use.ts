import type { Clock } from '../../model/clock.js';
import { noPartition } from '../../model/queues.js';
import { type Occupant, ProcessCapacity } from './process-capacity.js';

/** With more busy executions than this, a process takes no more work that has no limit of its own. */
export const maxBusy = 1_000;

/** A suspect that runs for this long has not killed its process, so other suspects no longer wait for it. */
const maxSuspectMs = 30_000;

/** A counted workflow: an execution (execution.ts) or a suspended workflow (suspended-workflow.ts). */
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
 * Counts the slots that workflows of this process hold, for each queue and partition. The limits per process use these
 * counts. A waiting workflow that has freed its slot (suspend/free-slots.ts) is not counted.
 */
export class SlotsInUse {
  private readonly queues = new Map<string, SlotsOfQueue>();
  /** The instant since which each suspect runs in this process. */
  private readonly suspectSince = new WeakMap<Counted, number>();
  /** The capacity of this process for work of all queues. */
  readonly capacity: ProcessCapacity;

  constructor(private readonly options: SlotsInUseOptions) {
    this.capacity = new ProcessCapacity(options.clock, options.maxRunning);
  }

  /** Takes a slot for an execution that starts here. */
  enter(execution: Counted): void {
    const { queueName, partition } = execution.claim;
    if (queueName === null) return;
    const slots = this.queues.get(queueName) ?? { executions: new Set(), partitions: new Map() };
    this.queues.set(queueName, slots);
    slots.executions.add(execution);
    this.capacity.enter(execution);
    if (execution.isSuspect) this.suspectSince.set(execution, this.options.clock.now());
    if (partition !== null) slots.partitions.set(partition, (slots.partitions.get(partition) ?? 0) + 1);
  }

  /** Frees the slot of a workflow that has ended, is no longer here, or waits without a slot. */
  leave(execution: Counted): void {
    const { queueName, partition } = execution.claim;
    const slots = queueName === null ? undefined : this.queues.get(queueName);
    if (queueName === null || !slots?.executions.delete(execution)) return;
    if (partition !== null) {
      const remaining = (slots.partitions.get(partition) ?? 1) - 1;
      if (remaining > 0) slots.partitions.set(partition, remaining);
      else slots.partitions.delete(partition);
    }
    if (slots.executions.size === 0) this.queues.delete(queueName);
    this.capacity.leave(execution);
    this.options.onFreed({ queueName, wasSuspect: execution.isSuspect });
  }

  /**
   * Replaces an execution by its suspended workflow, or the reverse. The workflow has not ended, so `onFreed` is not
   * called.
   */
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
    const slots = this.queues.get(queueName);
    if (!slots) return 0;
    if (partition !== noPartition) return slots.partitions.get(partition) ?? 0;
    const partitioned = [...slots.partitions].reduce((sum, [key, count]) => sum + (key === noPartition ? 0 : count), 0);
    return slots.executions.size - partitioned;
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

interface SlotsOfQueue {
  readonly executions: Set<Counted>;
  readonly partitions: Map<string, number>;
}
