import type { Clock, Timer } from '../../model/clock.js';
import { closedError, describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { isTerminal } from '../../model/status.js';
import { isUnusable } from '../../storage/contract/failure.js';
import type { Ending, Storage } from '../../storage/contract/storage.js';
import { notFoundError } from '../execution/workflow-errors.js';
import type { Retried } from '../write/outage-log.js';

const firstPollMs = 20;
const maxPollMs = 500;

/** Number of workflows that one statement reads. */
const pageSize = 1_000;

/** Maximum part of the time that queries may take, even if callers wait for many workflows. */
const maxShare = 0.1;

interface CompletionWaitersOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly logger: Logger;
  runsHere(workflowId: string): boolean;
  /** Called once, at the first wait for a workflow that does not run in this process. */
  readonly onFirstWait?: (() => void) | undefined;
}

/**
 * All waits in this process for the end of a workflow. Workflows that run here report their end directly. For all
 * other workflows together, one statement polls the database.
 */
export class CompletionWaiters {
  private readonly waiters = new Map<string, Set<Waiter>>();
  private timer: Timer | undefined;
  private timerAt = Number.POSITIVE_INFINITY;
  private pollMs = firstPollMs;
  private queriesBegun = 0;
  private closed = false;
  private readonly storage: Storage;
  private readonly clock: Clock;
  private readonly logger: Logger;
  private readonly runsHere: (workflowId: string) => boolean;
  private onFirstWait: (() => void) | undefined;

  constructor(options: CompletionWaitersOptions) {
    this.storage = options.storage;
    this.clock = options.clock;
    this.logger = options.logger;
    this.runsHere = options.runsHere;
    this.onFirstWait = options.onFirstWait;
  }

  /**
   * Resolves when the workflow has ended, with any outcome. Rejects if the workflow does not exist. With `failsFast`,
   * for a caller outside of workflows, it also rejects if the role may not read the workflow.
   */
  wait(workflowId: string, failsFast = false): { readonly ending: Promise<Ending>; readonly forget: () => void } {
    const forget = (): void => this.remove(workflowId, waiter);
    let waiter!: Waiter;
    const ending = new Promise<Ending>((resolve, reject) => {
      waiter = { resolve, reject, failsFast, queriesBefore: this.queriesBegun };
    });
    if (this.closed) waiter.reject(closedError());
    else this.add(workflowId, waiter);
    return { ending, forget };
  }

  /** Settles the waits for a workflow that ended in this process. Returns true if there was a wait. */
  settle(ending: Ending): boolean {
    const waiters = this.waiters.get(ending.workflowId);
    if (!waiters) return false;
    this.waiters.delete(ending.workflowId);
    for (const waiter of waiters) waiter.resolve(ending);
    return true;
  }

  /** Notes that a workflow no longer runs in this process. From now on, its waits depend on the poll. */
  watchElsewhere(workflowId: string): void {
    if (this.waiters.has(workflowId)) this.restartPolling(firstPollMs);
  }

  /** Polls at once, because a workflow has ended in another process. */
  pollSoon(): void {
    if (this.waiters.size > 0 && !this.closed) this.queryWithin(0);
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
    this.restartPolling(0);
    this.onFirstWait?.();
    this.onFirstWait = undefined;
  }

  private remove(workflowId: string, waiter: Waiter): void {
    const waiters = this.waiters.get(workflowId);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.waiters.delete(workflowId);
  }

  private restartPolling(afterMs: number): void {
    this.pollMs = firstPollMs;
    this.queryWithin(afterMs);
  }

  /**
   * Schedules a query. Never delays a query that is already scheduled: otherwise a stream of new waits would delay it
   * forever.
   */
  private queryWithin(ms: number): void {
    const at = this.clock.now() + ms;
    if (this.timer && this.timerAt <= at) return;
    this.timer?.cancel();
    this.timerAt = at;
    this.timer = this.clock.at(at, () => void this.query(), 'background');
  }

  private async query(): Promise<void> {
    this.timer = undefined;
    const elsewhere = [...this.waiters.keys()].filter((id) => !this.runsHere(id));
    if (elsewhere.length === 0 || this.closed) return;
    const startedAt = performance.now();
    const query = ++this.queriesBegun;
    try {
      for (let from = 0; from < elsewhere.length && !this.closed; from += pageSize) {
        const page = elsewhere.slice(from, from + pageSize);
        this.settleFound(query, page, await this.storage.workflows.endings(page));
      }
    } catch (error) {
      const message = `Polling for the outcomes of workflows in other processes failed: ${describeError(error)}`;
      this.logger.warn(message, { retriedAfter: error } satisfies Retried);
      if (isUnusable(error)) this.failFast(elsewhere, error);
    }
    if (this.timer || this.closed) return;
    this.pollMs = Math.min(maxPollMs, this.pollMs * 1.5);
    this.queryWithin(Math.max(this.pollMs, (performance.now() - startedAt) / maxShare));
  }

  private failFast(workflowIds: readonly string[], error: Error): void {
    for (const workflowId of workflowIds) {
      for (const waiter of this.waiters.get(workflowId) ?? []) {
        if (!waiter.failsFast) continue;
        this.remove(workflowId, waiter);
        waiter.reject(error);
      }
    }
  }

  private settleFound(query: number, ids: readonly string[], found: readonly Ending[]): void {
    const endings = new Map(found.map((ending) => [ending.workflowId, ending]));
    for (const workflowId of ids) {
      const ending = endings.get(workflowId);
      if (ending && !isTerminal(ending.status)) continue;
      for (const waiter of this.waiters.get(workflowId) ?? []) {
        // Race: a workflow was started or resumed after this query had read it, and this wait came after that.
        if (waiter.queriesBefore >= query) continue;
        this.remove(workflowId, waiter);
        if (ending) waiter.resolve(ending);
        else waiter.reject(notFoundError(workflowId));
      }
    }
  }
}

interface Waiter {
  readonly failsFast: boolean;
  /** Number of queries that had begun when the wait was added. Their answers do not count for this wait. */
  readonly queriesBefore: number;
  resolve(ending: Ending): void;
  reject(error: unknown): void;
}
