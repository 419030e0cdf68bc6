import { describeError } from '../model/errors.js';
import type { CancelledWorkflow, OwnedWorkflow } from '../storage/contract/storage.js';
import { claimKey } from './claims.js';
import type { Engine } from './engine.js';
import { timeoutReason } from './execution/workflow-errors.js';
import type { Retried } from './write/outage-log.js';

/** How many ended workflows are remembered. One statement rarely cancels as many workflows. */
const maxEnded = 1_000;

/** Cancels workflows, in the database and in this process. */
export class Cancellations {
  /** Claim keys of workflows that were cancelled after the commit of their start or claim, but before they ran. */
  private readonly unstarted = new Set<string>();
  /** Claim keys of the last workflows that left this process, perhaps because of a cancellation. */
  private readonly ended = new Set<string>();

  constructor(private readonly engine: Engine) {}

  /** Cancels workflows and their children. */
  async cancel(workflowIds: readonly string[], reason: string | null): Promise<void> {
    const { storage, clock } = this.engine;
    const params = { workflowIds, reason, now: clock.now() };
    // The workflows of a committed part stay CANCELLED, even if a later part of the call fails.
    await storage.workflows.cancel(params, (part) => this.handleOwn(part));
  }

  /** Handles a cancellation, by this process or another: the code and the callers that wait are informed at once. */
  handle({ workflowId, owner, reason }: CancelledWorkflow): void {
    const { executions, watches, completionWaiters } = this.engine;
    const ranHere = executions.has(workflowId);
    // The workflow may have been resumed, and may run again, before this notification arrived.
    if (!executions.cancel(workflowId, owner, reason)) return;
    if (ranHere && owner !== null) this.noteEnded({ workflowId, owner });
    watches.ended(workflowId);
    const none = { output: null, error: null, serialization: null };
    completionWaiters.settle({ workflowId, status: 'CANCELLED', ...none, statusReason: reason });
  }

  /** Returns true, once, if this workflow was cancelled before it could run. */
  takeUnstarted(workflow: OwnedWorkflow): boolean {
    return this.unstarted.delete(claimKey(workflow));
  }

  /** Cancels a workflow whose deadline has passed. */
  async expire(workflowId: string): Promise<void> {
    try {
      await this.cancel([workflowId], timeoutReason());
    } catch (error) {
      // The periodic check of deadlines cancels it later (recovery/deadlines.ts).
      const message = `Workflow "${workflowId}" passed its deadline; retrying to cancel it: ${describeError(error)}`;
      this.engine.logger.warn(message, { retriedAfter: error } satisfies Retried);
    }
  }

  /** Cancels a workflow whose deadline passed before it could run. */
  async expireUnstarted({ workflowId, owner }: OwnedWorkflow): Promise<void> {
    await this.expire(workflowId);
    this.unstarted.delete(claimKey({ workflowId, owner }));
    // The deadline sweep may have cancelled the workflow at the same time, and its answer may arrive later.
    this.noteEnded({ workflowId, owner });
    // Another process may have cancelled the workflow earlier, without a notification to this process.
    this.engine.watches.ended(workflowId);
    this.engine.completionWaiters.watchElsewhere(workflowId);
  }

  /** Notes that a workflow left this process, perhaps because of a cancellation whose answer arrives later. */
  noteEnded(workflow: OwnedWorkflow): void {
    this.ended.add(claimKey(workflow));
    const [oldest] = this.ended;
    if (oldest !== undefined && this.ended.size > maxEnded) this.ended.delete(oldest);
  }

  private handleOwn(cancelled: readonly CancelledWorkflow[]): void {
    const { owners, executions, news } = this.engine;
    for (const each of cancelled) {
      const { workflowId, owner } = each;
      if (owners.issued(owner) && !executions.owns({ workflowId, owner })) {
        // The start or claim of this workflow is committed, but its answer has not arrived in this process. Or another
        // statement (a poll, a refused write) found the cancellation before this answer arrived, so the workflow has
        // already left this process.
        const key = claimKey({ workflowId, owner });
        if (!this.ended.has(key)) this.unstarted.add(key);
      }
      this.handle(each);
      if (each.queueName !== null) news.announce(`queue:${each.queueName}`);
    }
    if (cancelled.length > 0) news.announceToOthers('cancelled');
  }
}
