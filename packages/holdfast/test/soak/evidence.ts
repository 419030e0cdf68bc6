import type { Evidence } from '../faults/invariants.js';
import type { Row } from '../faults/rows.js';

/** The evidence at the end of a soak. */
export interface SoakEvidence extends Evidence {
  /** `notifications`: messages, consumed or not. */
  readonly messages: readonly Row[];
  readonly streams: readonly Row[];
  readonly events: readonly Row[];
  /** The user's own table: `id` is `workflow#step`, and `n` is the number of increments. */
  readonly counters: readonly Row[];
  /** Checkpoints written by a process that did not own the workflow. */
  readonly intrusions: readonly Row[];
  /** Workflows that retention has deleted, with their last rows. They are also part of `workflows`. */
  readonly gone: readonly Row[];
  /** Families of workflows that a restore has partly undone (restore.ts). */
  readonly undone?: ReadonlySet<string>;
  readonly peaks: { readonly queues: Record<string, number>; readonly partitions: Record<string, number> };
}

/** Decodes the stored form of a plain JSON value. */
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

/** Returns the ID of the workflow that a client started and that this workflow descends from. */
export function rootOf(workflowId: string): string {
  return workflowId.split('.')[0] as string;
}
