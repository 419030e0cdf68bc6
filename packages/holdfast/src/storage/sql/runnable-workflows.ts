import type { Runnable } from '../contract/storage.js';
import type { Dialect } from '../database.js';

/**
 * Matches workflow rows with the workflows that a process can run, by name, class and configuration. Used by claims.
 */

const largestInt = 2 ** 31 - 1;

/** The workflows that this process can run, as the JSON that {@link knownWorkflows} reads. */
export function runnableJson(runnable: readonly Runnable[]): string {
  return JSON.stringify(
    runnable.map(({ name, className, configName, maxRecoveryAttempts }) => ({
      runnable: name,
      // Usually there is no class or configuration. Leaving these keys out keeps the list short: every claim sends it.
      ...(className && { class: className }),
      ...(configName && { config: configName }),
      most: Math.min(maxRecoveryAttempts, largestInt),
    })),
  );
}

/**
 * The query `known` over {@link runnableJson}. It is materialized: parsed once, then probed for each candidate row.
 */
export function knownWorkflows(d: Dialect, parameter: string): string {
  const columns = { runnable: 'text', class: 'text', config: 'text', most: 'int' } as const;
  return (
    `known as materialized (select k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most ` +
    `from ${d.jsonRows('k', columns, parameter)})`
  );
}

/**
 * The class of a row. `row` is an alias with its dot, or empty. A plain function has the class NULL; some clients of
 * DBOS write an empty text.
 */
export const classOf = (row: string): string => `coalesce(${row}class_name, '')`;
export const configOf = (row: string): string => `coalesce(${row}config_name, '')`;

/** Returns a condition: an entry of `known` is the workflow of the row. */
export function isKnownAs(known: string, row: string): string {
  return (
    `${known}.runnable = ${row}name and ${known}.class = ${classOf(row)} ` + `and ${known}.config = ${configOf(row)}`
  );
}
