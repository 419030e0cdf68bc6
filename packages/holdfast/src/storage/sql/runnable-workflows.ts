import type { Runnable } from '../contract/storage.js';
import type { Dialect } from '../database.js';

/** Which workflows a process can run, as claims compare it with rows: by name, class and configuration. */

const largestInt = 2 ** 31 - 1;

/** What this process can run, as {@link knownWorkflows} reads it. */
export function runnableJson(runnable: readonly Runnable[]): string {
  return JSON.stringify(
    runnable.map(({ name, className, configName, maxRecoveryAttempts }) => ({
      runnable: name,
      // As a rule there is none, and the list goes out with every claim.
      ...(className && { class: className }),
      ...(configName && { config: configName }),
      most: Math.min(maxRecoveryAttempts, largestInt),
    })),
  );
}

/** The query `known` over {@link runnableJson}. Materialized: read once, and probed by each row that is looked at. */
export function knownWorkflows(d: Dialect, parameter: string): string {
  const columns = { runnable: 'text', class: 'text', config: 'text', most: 'int' } as const;
  return (
    `known as materialized (select k.runnable, coalesce(k.class, '') as class, coalesce(k.config, '') as config, k.most ` +
    `from ${d.jsonRows('k', columns, parameter)})`
  );
}

/** The class of a row, given with its dot. None is NULL, and with some clients of DBOS an empty text. */
export const classOf = (row: string): string => `coalesce(${row}class_name, '')`;
export const configOf = (row: string): string => `coalesce(${row}config_name, '')`;

/** That an entry of `known` is the workflow of a row. */
export function isKnownAs(known: string, row: string): string {
  return (
    `${known}.runnable = ${row}name and ${known}.class = ${classOf(row)} ` + `and ${known}.config = ${configOf(row)}`
  );
}
