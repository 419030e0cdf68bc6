import type { Evidence } from '../faults/invariants.js';
import type { Row } from '../faults/rows.js';

/** What is known when a soak is over. */
export interface SoakEvidence extends Evidence {
  /** `notifications`: messages, consumed or not. */
  readonly messages: readonly Row[];
  readonly streams: readonly Row[];
  readonly events: readonly Row[];
  /** The user's own table: `id` is `workflow#step`, `n` how often it was counted. */
  readonly counters: readonly Row[];
  /** Checkpoints that a process wrote which did not own the workflow. */
  readonly intrusions: readonly Row[];
  /** Workflows that retention has deleted, as they were then. They are among the others, too. */
  readonly gone: readonly Row[];
  /** Families of workflows that a restore has undone in part (restore.ts). */
  readonly undone?: ReadonlySet<string>;
  readonly peaks: { readonly queues: Record<string, number>; readonly partitions: Record<string, number> };
}

/** What is stored of a value that is plain JSON. */
export function storedValue(text: unknown): unknown {
  if (text === null || text === undefined) return undefined;
  const value: unknown = JSON.parse(String(text));
  return value !== null && typeof value === 'object' && 'json' in value ? value.json : value;
}

export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

/** The workflow that a client started, of whose family this one is. */
export function rootOf(workflowId: string): string {
  return workflowId.split('.')[0] as string;
}
