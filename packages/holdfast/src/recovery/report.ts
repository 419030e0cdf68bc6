import type { RecoveryPolicy } from '../model/recovery.js';
import type { WorkflowKey } from '../model/workflow-key.js';
import type { TakenOver } from '../storage/contract/takeovers.js';
import { becauseOf, type RecoveryAction } from './policy.js';
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
  /** Of other versions: only their own processes go on with it. What was handed over counts if there is none. */
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

const done = {
  ENQUEUED: 'resume',
  STALLED: 'set-aside',
  MAX_RECOVERY_ATTEMPTS_EXCEEDED: 'dead-letter',
} as const satisfies Record<TakenOver['status'], RecoveryAction>;

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

  addPage({ cancelled, putBack }: Page, policyOf: (key: WorkflowKey) => Pick<RecoveryPolicy, 'maxAttempts'>): void {
    for (const each of cancelled) this.add(each, 'cancel', each.reason ?? '');
    for (const each of putBack) this.add(each, done[each.status], becauseOf(done[each.status], policyOf(each)));
  }

  toReport(): SweepReport {
    return {
      taken: this.of('resume'),
      deadLettered: this.of('dead-letter'),
      cancelled: this.of('cancel'),
      setAside: this.of('set-aside'),
      waiting: this.of('wait-for-operator') + this.of('none'),
      stranded: this.of('other-version'),
      plan: this.plan,
    };
  }

  private of(action: RecoveryAction): number {
    return this.counts.get(action) ?? 0;
  }
}
