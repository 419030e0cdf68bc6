import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { processWide } from '../model/process-wide.js';
import {
  type CallerTransaction,
  type Completions,
  type Datasource,
  hasCompletions,
  openCompletions,
  sqlState,
} from '../storage/open-datasource.js';

/**
 * The place where the outcome of a transaction is stored. The outcome commits together with the changes of the
 * transaction:
 *
 * - `checkpoint`: the checkpoint of the step, if the datasource reaches the database with the system tables.
 * - `record`: a row of `transaction_completion` in the application's database. The checkpoint is written after it.
 *
 * Two executions of a workflow may choose different locations, for example because rights were granted in between. Both
 * executions may run the function at the same time. Checkpoints are fenced: a later execution always sees them. Records
 * are not fenced: an earlier execution may still write one. A later execution must then conflict with that record:
 *
 * 1. An execution with `record` owned its workflow when the table already existed ({@link outcomeLocationOf}).
 * 2. Therefore the table exists for every later execution. An execution with `checkpoint` that may have had
 *    predecessors looks for the table while it owns the workflow. If the table exists, the execution also commits a
 *    record. The primary key lets only one of the two executions commit.
 */
export type OutcomeLocation =
  | { readonly kind: 'record'; readonly completions: Completions }
  /** `earlier` returns the table in which processes with the other location, or DBOS, keep records, if it exists. */
  | { readonly kind: 'checkpoint'; readonly earlier: () => Promise<Completions | undefined> };

type Locations = WeakMap<Engine, WeakMap<object, Promise<OutcomeLocation | undefined>>>;
const locations = processWide<Locations>('transactionHomes', () => new WeakMap());
const tables = processWide('completionTables', () => new WeakMap<object, Promise<Completions>>());

/** By datasource: the executions that owned their workflow at a time when the table of the datasource existed. */
const ownersSince = processWide('heldSinceCompletions', () => new WeakMap<object, WeakSet<Execution>>());

/**
 * Returns the location, which is determined once per app and datasource. Returns undefined if the workflow has
 * another owner, because the location cannot be determined then.
 */
export async function outcomeLocationOf<Tx>(
  execution: Execution,
  datasource: Datasource<Tx>,
): Promise<OutcomeLocation | undefined> {
  const known = locations.get(execution.engine) ?? new WeakMap();
  locations.set(execution.engine, known);
  const found = await remembered(known, datasource, () => find(execution, datasource));
  // Undefined may come from another workflow that asked at the same time and has lost its owner. Then ask again.
  const location = found ?? (await find(execution, datasource));
  return location?.kind !== 'record' || (await ownsSinceTable(execution, datasource)) ? location : undefined;
}

/** Forgets the location: a database was not reachable, and the datasource may lead to another database afterwards. */
export function forgetLocation<Tx>(execution: Execution, datasource: Datasource<Tx>): void {
  locations.get(execution.engine)?.delete(datasource);
}

/** Checks once per execution, and only on Postgres, where both locations are possible. */
async function ownsSinceTable<Tx>(execution: Execution, datasource: Datasource<Tx>): Promise<boolean> {
  if (datasource.dialect === 'sqlite') return true;
  const owners = ownersSince.get(datasource) ?? new WeakSet();
  ownersSince.set(datasource, owners);
  if (owners.has(execution)) return true;
  if (!(await isOwner(execution))) return false;
  owners.add(execution);
  return true;
}

async function isOwner({ engine, claim }: Execution): Promise<boolean> {
  const [row] = await engine.storage.workflows.get([claim.workflowId]);
  return row?.owner === claim.owner && row.status === 'PENDING';
}

export function callerTransactionOf<Tx>(datasource: Datasource<Tx>, tx: Tx): CallerTransaction {
  return { dialect: datasource.dialect, query: (text, params) => datasource.query(tx, text, params) };
}

async function find<Tx>(execution: Execution, datasource: Datasource<Tx>): Promise<OutcomeLocation | undefined> {
  const onSqlite = datasource.dialect === 'sqlite';
  // On SQLite the outcome is always a record, even if the datasource is the file of the app. `reaches` throws if two
  // copies of SQLite have that file open.
  if (onSqlite) await datasource.transact({ readOnly: true }, (tx) => reaches(execution, datasource, tx));
  const database = onSqlite ? 'other' : await databaseOf(execution, datasource);
  if (database === 'fenced') return undefined;
  if (database === 'other') return { kind: 'record', completions: await tableOf(datasource) };
  return { kind: 'checkpoint', earlier: () => earlierOf(datasource) };
}

/** Queries each time until the table exists, because another process or DBOS may create the table at any time. */
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
  return engine.storage.inTransaction(callerTransactionOf(datasource, tx)).reaches('record a step');
}

/**
 * Finds out whether the datasource leads to the database of the app: only that database has the row of this workflow
 * with its owner token. Returns `fenced` if the workflow has another owner.
 */
async function databaseOf<Tx>(execution: Execution, datasource: Datasource<Tx>): Promise<'own' | 'other' | 'fenced'> {
  const { storage } = execution.engine;
  const { workflowId, owner } = execution.claim;
  const hasRow = await datasource
    .transact({}, async (tx) => {
      const within = storage.inTransaction(callerTransactionOf(datasource, tx));
      return (await within.reaches('record a step')) && (await within.owns(workflowId, owner));
    })
    .catch((error: unknown) => {
      // This role may not use the tables, even if they are in this database.
      if (sqlState(error) === '42501' || sqlState((error as Error)?.cause) === '42501') return false;
      throw error;
    });
  if (hasRow) return 'own';
  return (await isOwner(execution)) ? 'other' : 'fenced';
}

/** Caches the result of `make`. A failure or undefined is not cached, so that the next call tries again. */
function remembered<T>(cache: WeakMap<object, Promise<T>>, key: object, make: () => Promise<T>): Promise<T> {
  const existing = cache.get(key);
  if (existing !== undefined) return existing;
  const made = make();
  cache.set(key, made);
  const forget = (): void => void cache.delete(key);
  made.then((value) => value === undefined && forget(), forget);
  return made;
}
