import type { RecoveryPolicy } from '../model/recovery.js';
import type { WorkflowKey } from '../model/workflow-key.js';
import type { TakenOver } from '../storage/contract/takeovers.js';
import { type RecoveryAction, reasonOf } from './policy.js';
import type { Page } from './takeover.js';

/** Maximum number of workflows that the report of a sweep lists. */
const maxPlanLength = 1000;

/** The result of a sweep or, with `dryRun`, the result that it would have. All numbers count workflows. */
export interface SweepReport {
  /** Put back on their queues, for any process of the version to continue. */
  readonly taken: number;
  /** Given up as MAX_RECOVERY_ATTEMPTS_EXCEEDED: their attempts are used up. */
  readonly deadLettered: number;
  /** Cancelled by the recovery policy, with their children. */
  readonly cancelled: number;
  /** Set to STALLED, because they have `resumable: false`. */
  readonly stalled: number;
  /** Left unchanged: they wait for an operator, or for a process that has the workflow registered. */
  readonly waiting: number;
  /**
   * Left unchanged because they have another version, and only processes of that version continue them. Workflows that
   * were handed over are included if no process of their version is alive.
   */
  readonly stranded: number;
  /** The workflows one by one, at most 1000. */
  readonly plan: readonly SweptWorkflow[];
}

/** A workflow in the report of a sweep: what happened to it, and why. */
export interface SweptWorkflow {
  readonly workflowId: string;
  readonly name: string | undefined;
  readonly action: RecoveryAction;
  readonly because: string;
}

const actionOf = {
  ENQUEUED: 'resume',
  STALLED: 'stall',
  MAX_RECOVERY_ATTEMPTS_EXCEEDED: 'dead-letter',
} as const satisfies Record<TakenOver['status'], RecoveryAction>;

/** Collects the report of a sweep. */
export class Tally {
  private readonly counts = new Map<RecoveryAction, number>();
  private readonly plan: SweptWorkflow[] = [];

  add(
    { workflowId, name }: { readonly workflowId: string; readonly name?: string },
    action: RecoveryAction,
    because: string,
  ): void {
    this.counts.set(action, this.of(action) + 1);
    if (this.plan.length < maxPlanLength) this.plan.push({ workflowId, name, action, because });
  }

  addPage({ cancelled, putBack }: Page, policyOf: (key: WorkflowKey) => Pick<RecoveryPolicy, 'maxAttempts'>): void {
    for (const each of cancelled) this.add(each, 'cancel', each.reason ?? '');
    for (const each of putBack) this.add(each, actionOf[each.status], reasonOf(actionOf[each.status], policyOf(each)));
  }

  toReport(): SweepReport {
    return {
      taken: this.of('resume'),
      deadLettered: this.of('dead-letter'),
      cancelled: this.of('cancel'),
      stalled: this.of('stall'),
      waiting: this.of('wait-for-operator') + this.of('none'),
      stranded: this.of('other-version'),
      plan: this.plan,
    };
  }

  private of(action: RecoveryAction): number {
    return this.counts.get(action) ?? 0;
  }
}
