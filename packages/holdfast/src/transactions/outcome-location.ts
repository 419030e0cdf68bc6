import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { processWide } from '../model/process-wide.js';
import { type Completions, hasCompletions, openCompletions } from '../storage/caller/completions.js';
import type { Datasource } from '../storage/caller/datasource.js';
import type { CallerTransaction } from '../storage/caller/transaction.js';
import { sqlState } from '../storage/postgres/failures.js';

/**
 * Where the outcome of a transaction is kept, so that it is committed together with what the transaction did:
 *
 * - `checkpoint`: the step's own checkpoint, where the datasource reaches the database of the system tables.
 * - `record`: a row of `transaction_completion` in the application's database; the checkpoint follows.
 *
 * Two executions of a workflow may judge differently (rights were granted in between, a server failed over), and both be
 * in the function at once. Checkpoints are fenced: what comes after one knows of it. A record is not, so that whoever
 * comes after one that may still be written must meet it in its table:
 *
 * 1. An execution with `record` has owned its workflow at a moment at which the table was there already ({@link outcomeLocationOf}).
 * 2. So it is there for every execution that comes later. One with `checkpoint` that may have had predecessors looks for
 *    it when it owns the workflow, and if it is there, commits a record as well: the primary key lets one of them through.
 */
export type OutcomeLocation =
  | { readonly kind: 'record'; readonly completions: Completions }
  /** `earlier`: where others keep, or kept, records: processes that judge differently, or DBOS. If it is there by now. */
  | { readonly kind: 'checkpoint'; readonly earlier: () => Promise<Completions | undefined> };

type Homes = WeakMap<Engine, WeakMap<object, Promise<OutcomeLocation | undefined>>>;
const homes = processWide<Homes>('transactionHomes', () => new WeakMap());
const tables = processWide('completionTables', () => new WeakMap<object, Promise<Completions>>());

/** Executions that have owned their workflow since the table of the datasource was there. */
const heldSince = processWide('heldSinceCompletions', () => new WeakMap<object, WeakSet<Execution>>());

/** Found out once per app and datasource. Undefined: the workflow has another owner, which is no time to find out. */
export async function outcomeLocationOf<Tx>(
  execution: Execution,
  datasource: Datasource<Tx>,
): Promise<OutcomeLocation | undefined> {
  const known = homes.get(execution.engine) ?? new WeakMap();
  homes.set(execution.engine, known);
  const found = await remembered(known, datasource, () => find(execution, datasource));
  // That another workflow has lost its owner says nothing about this one.
  const home = found ?? (await find(execution, datasource));
  return home?.kind !== 'record' || (await isHeldSince(execution, datasource)) ? home : undefined;
}

/** What was found out may be so no longer: a database was not reached, and may be another one when it is. */
export function judgeAgain<Tx>(execution: Execution, datasource: Datasource<Tx>): void {
  homes.get(execution.engine)?.delete(datasource);
}

/** Asked once per execution, and only where there are homes of both kinds. */
async function isHeldSince<Tx>(execution: Execution, datasource: Datasource<Tx>): Promise<boolean> {
  if (datasource.dialect === 'sqlite') return true;
  const held = heldSince.get(datasource) ?? new WeakSet();
  heldSince.set(datasource, held);
  if (held.has(execution)) return true;
  if (!(await isOwner(execution))) return false;
  held.add(execution);
  return true;
}

async function isOwner({ engine, claim }: Execution): Promise<boolean> {
  const [row] = await engine.storage.workflows.get([claim.workflowId]);
  return row?.owner === claim.owner && row.status === 'PENDING';
}

export function borrowed<Tx>(datasource: Datasource<Tx>, tx: Tx): CallerTransaction {
  return { dialect: datasource.dialect, query: (text, params) => datasource.query(tx, text, params) };
}

async function find<Tx>(execution: Execution, datasource: Datasource<Tx>): Promise<OutcomeLocation | undefined> {
  const onSqlite = datasource.dialect === 'sqlite';
  // The record has a table of its own there, also in our own file: which must not be open with two copies of SQLite.
  if (onSqlite) await datasource.transact({ readOnly: true }, (tx) => reaches(execution, datasource, tx));
  const seen = onSqlite ? 'elsewhere' : await look(execution, datasource);
  if (seen === 'fenced') return undefined;
  if (seen === 'elsewhere') return { kind: 'record', completions: await tableOf(datasource) };
  return { kind: 'checkpoint', earlier: () => earlierOf(datasource) };
}

/** Asked each time until the table is there: another process, or DBOS, may create it at any time. */
async function earlierOf<Tx>(datasource: Datasource<Tx>): Promise<Completions | undefined> {
  const known = tables.get(datasource);
  if (known !== undefined) return known;
  const present = await datasource.transact({}, (tx) => hasCompletions(datasource, tx));
  return present ? tableOf(datasource) : undefined;
}

function tableOf<Tx>(datasource: Datasource<Tx>): Promise<Completions> {
  return remembered(tables, datasource, () => openCompletions(datasource));
}

function reaches<Tx>({ engine }: Execution, datasource: Datasource<Tx>, tx: Tx): Promise<boolean> {
  return engine.storage.inTransaction(borrowed(datasource, tx)).reaches('record a step');
}

/** The row of this very workflow under its owner token is in no other database. */
async function look<Tx>(execution: Execution, datasource: Datasource<Tx>): Promise<'elsewhere' | 'fenced' | 'here'> {
  const { storage } = execution.engine;
  const { workflowId, owner } = execution.claim;
  const seen = await datasource
    .transact({}, async (tx) => {
      const within = storage.inTransaction(borrowed(datasource, tx));
      return (await within.reaches('record a step')) && (await within.owns(workflowId, owner));
    })
    .catch((error: unknown) => {
      // The tables are not for this role, wherever they are.
      if (sqlState(error) === '42501' || sqlState((error as Error)?.cause) === '42501') return false;
      throw error;
    });
  if (seen) return 'here';
  return (await isOwner(execution)) ? 'elsewhere' : 'fenced';
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
