import { onTestFinished } from 'vitest';
import type { DatasourceOptions } from '../../src/index.js';
import type { Backend } from './backends.js';
import { countersTable, fitsAppFile, type Library, type Opened } from './datasources.js';
import { tamper } from './faults.js';

/** Opens a separate application database with a table of counters, not the one of the app under test. */
export async function openUserData(
  backend: Backend,
  library: Library,
  options?: DatasourceOptions,
): Promise<Opened & { readonly url: string }> {
  return openUserDataIn(await backend.emptyDatabase(), library, options);
}

/** Does the same in a given database, closed after the test. The returned URL opens it as the library does. */
export async function openUserDataIn(
  given: string,
  library: Library,
  options?: DatasourceOptions,
): Promise<Opened & { readonly url: string }> {
  const url = fitsAppFile(library) ? given : given.replace('sqlite:', `sqlite+${library.driver}:`);
  await tamper(url, url.startsWith('sqlite') ? countersTable : countersTable.replace('exists ', 'exists public.'));
  const opened = library.open(url, options);
  onTestFinished(async () => void (await opened.close()));
  return { ...opened, url };
}

export async function counter(url: string, id: string): Promise<number> {
  const table = url.startsWith('sqlite') ? 'counters' : 'public.counters';
  const [row] = await tamper(url, `select n from ${table} where id = '${id}'`);
  return Number(row?.n ?? 0);
}

/** Returns the records of transactions in the application's database, or null if the table does not exist. */
export async function records(url: string): Promise<Record<string, unknown>[] | null> {
  const there = url.startsWith('sqlite')
    ? "select name as there from sqlite_master where name = 'transaction_completion'"
    : "select to_regclass('dbos.transaction_completion') as there";
  const [row] = await tamper(url, there);
  if (!row?.there) return null;
  return tamper(url, 'select * from transaction_completion order by workflow_id, function_num');
}
