import type { QueueRecord } from '../storage/contract/queues.js';
import type { ClaimedRecord } from '../storage/contract/storage.js';

/** The result of one claim of a queue worker, and the values that a claim is planned with. */

/**
 * Which workflows a claim takes. A suspect has used up half of its recovery attempts, and may kill its process.
 * Suspects are therefore claimed alone, one at a time, so that no other workflow loses an attempt with them.
 */
export type WorkKind = 'healthy' | 'suspect';

export interface Page {
  readonly claimed: readonly ClaimedRecord[];
  /** True if another claim may find more work. */
  readonly more: boolean;
}

export const emptyPage: Page = { claimed: [], more: false };
export const retryPage: Page = { claimed: [], more: true };
export const noUsage = { running: 0, elsewhere: 0, recentStarts: 0, nextStartAt: null };

/**
 * Returns what a query of the queue would return, for a worker that knows the lock version and the usage elsewhere.
 */
export function usageFromMemory(
  queue: QueueRecord,
  { lockVersion, elsewhere }: { readonly lockVersion: number; readonly elsewhere: number },
  here: number,
) {
  return {
    queue: { ...queue, lockVersion },
    usage: { ...noUsage, elsewhere, running: elsewhere + here },
    allKnown: true,
  };
}

export function sameSettings(a: QueueRecord, b: QueueRecord): boolean {
  return a === b || JSON.stringify(a.settings) === JSON.stringify(b.settings);
}

/** Returns the maximum number of workflows that one claim may take. */
export function maxPage(kind: WorkKind): number {
  return kind === 'suspect' ? 1 : Number.POSITIVE_INFINITY;
}
