import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution.js';
import type { Borrowed } from '../storage/borrowed.js';
import type { Datasource } from '../storage/datasource.js';
import { sqlState } from '../storage/postgres/failures.js';
import { type Completions, hasCompletions, openCompletions } from '../storage/sql/completions.js';

/**
 * Where the outcome of a transaction is kept, so that it is committed together with what the transaction did:
 *
 * - `checkpoint`: the step's own checkpoint, where the datasource reaches the database of the system tables.
 * - `record`: a row of `transaction_completion` in the application's database; the checkpoint follows.
 */
export type Home =
  | { readonly kind: 'record'; readonly completions: Completions }
  /** `earlier`: records of another time, when it was not known, or of DBOS. */
  | { readonly kind: 'checkpoint'; readonly earlier: Completions | undefined };

const homes = new WeakMap<Engine, WeakMap<object, Promise<Home | undefined>>>();
const tables = new WeakMap<object, Promise<Completions>>();

/** Found out once per app and datasource. Undefined: the workflow has another owner, which is no time to find out. */
export async function homeOf<Tx>(execution: Execution, datasource: Datasource<Tx>): Promise<Home | undefined> {
  const known = homes.get(execution.engine) ?? new WeakMap();
  homes.set(execution.engine, known);
  const home = await remembered(known, datasource, () => find(execution, datasource));
  // That another workflow has lost its owner says nothing about this one.
  return home ?? find(execution, datasource);
}

export function borrowed<Tx>(datasource: Datasource<Tx>, tx: Tx): Borrowed {
  return { dialect: datasource.dialect, query: (text, params) => datasource.query(tx, text, params) };
}

async function find<Tx>(execution: Execution, datasource: Datasource<Tx>): Promise<Home | undefined> {
  const seen = datasource.dialect === 'postgres' ? await look(execution, datasource) : 'elsewhere';
  if (seen === 'fenced') return undefined;
  if (seen === 'elsewhere') return { kind: 'record', completions: await tableOf(datasource) };
  return { kind: 'checkpoint', earlier: seen.hasRecords ? await tableOf(datasource) : undefined };
}

function tableOf<Tx>(datasource: Datasource<Tx>): Promise<Completions> {
  return remembered(tables, datasource, () => openCompletions(datasource));
}

/** The row of this very workflow under its owner token is in no other database. */
async function look<Tx>(
  execution: Execution,
  datasource: Datasource<Tx>,
): Promise<'elsewhere' | 'fenced' | { readonly hasRecords: boolean }> {
  const { storage } = execution.engine;
  const { workflowId, owner } = execution.facts;
  const seen = await datasource
    .transact({}, async (tx) => {
      const within = storage.within(borrowed(datasource, tx));
      if (!(await within.reaches()) || !(await within.owns(workflowId, owner))) return undefined;
      return { hasRecords: await hasCompletions(datasource, tx) };
    })
    .catch((error: unknown) => {
      // No right to use the schema, say. The tables are not for this role, wherever they are.
      if (sqlState(error) === '42501' || sqlState((error as Error)?.cause) === '42501') return undefined;
      throw error;
    });
  if (seen) return seen;
  const [row] = await storage.workflows.get([workflowId]);
  return row?.owner === owner && row.status === 'PENDING' ? 'elsewhere' : 'fenced';
}

/** What failed, or was undefined, is asked for again by the next. */
function remembered<T>(cache: WeakMap<object, Promise<T>>, key: object, make: () => Promise<T>): Promise<T> {
  const existing = cache.get(key);
  if (existing !== undefined) return existing;
  const made = make();
  cache.set(key, made);
  const forget = (): void => void cache.delete(key);
  made.then((value) => value === undefined && forget(), forget);
  return made;
}
