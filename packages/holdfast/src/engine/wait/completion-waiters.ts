import type { Clock, Timer } from '../../model/clock.js';
import { closedError, describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { isTerminal } from '../../model/status.js';
import { isUnusable } from '../../storage/contract/failure.js';
import type { Ending, Storage } from '../../storage/contract/storage.js';
import { notFoundError } from '../execution/workflow-errors.js';
import type { Retried } from '../write/outage-log.js';

const firstPollMs = 20;
const longestPollMs = 500;

/** Workflows that are asked for by one statement. */
const pageSize = 1_000;

/** Looking takes at most this part of the time, however many are waited for. */
const share = 0.1;

/**
 * Everyone in this process who waits for a workflow to end. Workflows that run here report their end directly; for
 * all others together one statement looks from time to time.
 */
export class CompletionWaiters {
  private readonly waiters = new Map<string, Set<Waiter>>();
  private timer: Timer | undefined;
  private dueAt = Number.POSITIVE_INFINITY;
  private pollMs = firstPollMs;
  private closed = false;
  /** Called once, when something is first waited for that runs elsewhere. */
  onFirstWait: (() => void) | undefined;

  constructor(
    private readonly storage: Storage,
    private readonly clock: Clock,
    private readonly logger: Logger,
    private readonly runsHere: (workflowId: string) => boolean,
  ) {}

  /**
   * Resolves when the workflow has ended, however it did. Rejects if there is no such workflow; `failsFast`, for a caller outside
   * of workflows: also if the role may not read it.
   */
  wait(workflowId: string, failsFast = false): { readonly ending: Promise<Ending>; readonly forget: () => void } {
    const forget = (): void => this.remove(workflowId, waiter);
    let waiter!: Waiter;
    const ending = new Promise<Ending>((resolve, reject) => {
      waiter = { resolve, reject, failsFast };
    });
    if (this.closed) waiter.reject(closedError());
    else this.add(workflowId, waiter);
    return { ending, forget };
  }

  /** A workflow ended in this process. Returns whether anyone here was waiting for that. */
  settle(ending: Ending): boolean {
    const waiters = this.waiters.get(ending.workflowId);
    if (!waiters) return false;
    this.waiters.delete(ending.workflowId);
    for (const waiter of waiters) waiter.resolve(ending);
    return true;
  }

  /** A workflow that ran here no longer does: its waiters depend on the poll from now on. */
  watchElsewhere(workflowId: string): void {
    if (this.waiters.has(workflowId)) this.poll(firstPollMs);
  }

  /** Something has ended elsewhere. */
  lookSoon(): void {
    if (this.waiters.size > 0 && !this.closed) this.lookWithin(0);
  }

  close(): void {
    this.closed = true;
    this.timer?.cancel();
    for (const waiters of this.waiters.values()) for (const waiter of waiters) waiter.reject(closedError());
    this.waiters.clear();
  }

  private add(workflowId: string, waiter: Waiter): void {
    const waiters = this.waiters.get(workflowId);
    if (waiters) waiters.add(waiter);
    else this.waiters.set(workflowId, new Set([waiter]));
    if (this.runsHere(workflowId)) return;
    this.poll(0);
    this.onFirstWait?.();
    this.onFirstWait = undefined;
  }

  private remove(workflowId: string, waiter: Waiter): void {
    const waiters = this.waiters.get(workflowId);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.waiters.delete(workflowId);
  }

  private poll(afterMs: number): void {
    this.pollMs = firstPollMs;
    this.lookWithin(afterMs);
  }

  /** Never later than it was already due: with a stream of new waiters the look would not come. */
  private lookWithin(ms: number): void {
    const at = this.clock.now() + ms;
    if (this.timer && this.dueAt <= at) return;
    this.timer?.cancel();
    this.dueAt = at;
    this.timer = this.clock.at(at, () => void this.look(), 'background');
  }

  private async look(): Promise<void> {
    this.timer = undefined;
    const elsewhere = [...this.waiters.keys()].filter((id) => !this.runsHere(id));
    if (elsewhere.length === 0 || this.closed) return;
    const began = performance.now();
    try {
      for (let from = 0; from < elsewhere.length && !this.closed; from += pageSize) {
        const page = elsewhere.slice(from, from + pageSize);
        this.report(page, await this.storage.workflows.endings(page));
      }
    } catch (error) {
      const message = `Looking for the results of other processes failed: ${describeError(error)}`;
      this.logger.warn(message, { retriedAfter: error } satisfies Retried);
      if (isUnusable(error)) this.fail(elsewhere, error);
    }
    if (this.timer || this.closed) return;
    this.pollMs = Math.min(longestPollMs, this.pollMs * 1.5);
    this.lookWithin(Math.max(this.pollMs, (performance.now() - began) / share));
  }

  private fail(workflowIds: readonly string[], error: Error): void {
    for (const workflowId of workflowIds) {
      for (const waiter of this.waiters.get(workflowId) ?? []) {
        if (!waiter.failsFast) continue;
        this.remove(workflowId, waiter);
        waiter.reject(error);
      }
    }
  }

  private report(asked: readonly string[], found: readonly Ending[]): void {
    const known = new Set<string>();
    for (const ending of found) {
      known.add(ending.workflowId);
      if (isTerminal(ending.status)) this.settle(ending);
    }
    for (const workflowId of asked) {
      if (known.has(workflowId)) continue;
      for (const waiter of this.waiters.get(workflowId) ?? []) waiter.reject(notFoundError(workflowId));
      this.waiters.delete(workflowId);
    }
  }
}

interface Waiter {
  readonly failsFast: boolean;
  resolve(ending: Ending): void;
  reject(error: unknown): void;
}
