import { tamper } from './faults.js';

/** Counts the rows of each messaging table, to show that a call has written nothing. */
export async function talkCounts(database: string): Promise<Record<string, number>> {
  const tables = ['notifications', 'workflow_events', 'workflow_events_history', 'streams'];
  const counts = tables.map((table) => `(select count(*) from ${table}) as ${table}`);
  const [row] = await tamper(database, `select ${counts.join(', ')}`);
  return Object.fromEntries(tables.map((table) => [table, Number(row?.[table])]));
}

/** Reads all values until the iterator ends. */
export async function readAll<T>(values: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const value of values) all.push(value);
  return all;
}
