import type { TakenOver } from '../storage/takeovers.js';
import type { RecoveryAction } from './policy.js';
import type { Page } from './takeover.js';

/** How many single workflows a report of a sweep names. */
const longestPlan = 1000;

/** What a sweep has done, or would do. */
export interface SweepReport {
  /** Put back to be run, by any process. */
  readonly taken: number;
  /** Given up, because they have had their attempts. */
  readonly deadLettered: number;
  readonly cancelled: number;
  readonly setAside: number;
  /** Left where it is: for an operator, or for a process that has the workflow registered. */
  readonly waiting: number;
  /** Of other versions: only their own processes go on with it. */
  readonly stranded: number;
  /** The same one by one, at most 1000 of them. */
  readonly plan: readonly SweptWorkflow[];
}

export interface SweptWorkflow {
  readonly workflowId: string;
  readonly name: string | undefined;
  readonly action: RecoveryAction;
  readonly because: string;
}

const done: Record<TakenOver['status'], { readonly action: RecoveryAction; readonly because: string }> = {
  ENQUEUED: { action: 'resume', because: 'its process is dead' },
  STALLED: { action: 'set-aside', because: 'resumable is false' },
  MAX_RECOVERY_ATTEMPTS_EXCEEDED: { action: 'dead-letter', because: 'it has had its attempts' },
};

/** Counts what a sweep does, and remembers some of it. */
export class Tally {
  private readonly counts = new Map<RecoveryAction, number>();
  private readonly plan: SweptWorkflow[] = [];

  add(
    { workflowId, name }: { readonly workflowId: string; readonly name?: string },
    action: RecoveryAction,
    because: string,
  ): void {
    this.counts.set(action, this.of(action) + 1);
    if (this.plan.length < longestPlan) this.plan.push({ workflowId, name, action, because });
  }

  addPage({ cancelled, putBack }: Page): void {
    for (const { workflowId, reason } of cancelled) this.add({ workflowId }, 'cancel', reason ?? '');
    for (const each of putBack) {
      const { action, because } = done[each.status];
      this.add(each, action, because);
    }
  }

  toReport(besides: Pick<SweepReport, 'waiting' | 'stranded'>): SweepReport {
    return {
      taken: this.of('resume'),
      deadLettered: this.of('dead-letter'),
      cancelled: this.of('cancel'),
      setAside: this.of('set-aside'),
      waiting: this.of('wait-for-operator') + this.of('none') + besides.waiting,
      stranded: this.of('other-version') + besides.stranded,
      plan: this.plan,
    };
  }

  private of(action: RecoveryAction): number {
    return this.counts.get(action) ?? 0;
  }
}

export function countOf(rows: readonly { readonly count: number }[]): number {
  return rows.reduce((total, { count }) => total + count, 0);
}
