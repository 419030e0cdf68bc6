import type { QueueRecord } from '../storage/contract/queues.js';
import type { ClaimedRecord } from '../storage/contract/storage.js';

/** What one claim of a worker came to, and what it was planned by. */

/** Which of the waiting work a turn is about: what has used up half of its attempts is taken by itself, one at a time. */
export type Kind = 'healthy' | 'suspect';

export interface Page {
  readonly claimed: readonly ClaimedRecord[];
  /** There may be more to take. */
  readonly more: boolean;
}

export const nothing: Page = { claimed: [], more: false };
export const again: Page = { claimed: [], more: true };
export const idle = { running: 0, elsewhere: 0, recentStarts: 0, nextStartAt: null };

export function fromMemory(
  queue: QueueRecord,
  { lockVersion, elsewhere }: { readonly lockVersion: number; readonly elsewhere: number },
  here: number,
) {
  return { queue: { ...queue, lockVersion }, usage: { ...idle, elsewhere, running: elsewhere + here }, allKnown: true };
}

export function sameSettings(a: QueueRecord, b: QueueRecord): boolean {
  return a === b || JSON.stringify(a.settings) === JSON.stringify(b.settings);
}

export function maxPage(kind: Kind): number {
  return kind === 'suspect' ? 1 : Number.POSITIVE_INFINITY;
}
