import { realpathSync } from 'node:fs';
import type { Database } from '../database.js';
import { sqlState } from '../postgres/failures.js';
import { copiesMixed, copyIdentity } from '../sqlite/copies.js';
import type { CallerTransaction, Purpose } from './transaction.js';

/**
 * Whether statements of ours can run in a transaction of the caller's. All of it is asked without touching the tables: a
 * statement that fails would spoil the transaction.
 */

type Relation = readonly [kind: 'table' | 'sequence', name: string, ...rights: string[]];

/** A lock on a row, even a shared one, needs the right to change it. */
const needed: Record<Purpose, readonly Relation[]> = {
  // More than it takes: processes of all releases that work side by side must come to the same answer.
  'record a step': [
    ['table', 'workflow_status', 'select', 'insert', 'update'],
    ['table', 'operation_outputs', 'select', 'insert'],
  ],
  'start a workflow': [
    ['table', 'workflow_status', 'select', 'insert', 'update'],
    ['table', 'queues', 'select', 'update'],
    ['sequence', 'holdfast_enqueue_seq', 'usage'],
  ],
  'send a message': [
    ['table', 'workflow_status', 'select'],
    ['table', 'notifications', 'select', 'insert'],
    ['sequence', 'holdfast_message_seq', 'usage'],
  ],
};

/** It is in the very database that the system tables are in, not in one with the same tables, and its role has the rights. */
export async function reaches(own: Database, tx: CallerTransaction, purpose: Purpose): Promise<boolean> {
  if (own.dialect.name !== tx.dialect || !(await isSameDatabase(own, tx))) return false;
  if (tx.dialect === 'postgres') return hasRights(own, tx, needed[purpose]);
  await checkCopy(own, tx);
  return true;
}

async function hasRights(
  { dialect }: Database,
  tx: CallerTransaction,
  relations: readonly Relation[],
): Promise<boolean> {
  // Asked first: who has no right to use the schema may not even ask what is in it.
  const usable = "has_schema_privilege(to_regnamespace($1)::oid, 'usage')";
  const rights = relations.flatMap(([kind, , ...names], i) =>
    names.map((right) => `has_${kind}_privilege(to_regclass($${i + 2})::oid, '${right}')`),
  );
  const text = `select case when ${usable} then coalesce(${rights.join(' and ')}, false) else false end as reached`;
  const tables = relations.map(([, name]) => dialect.table(name));
  const [row] = await tx.query(text, [dialect.table('').slice(0, -1), ...tables]);
  return Boolean(row?.reached);
}

/** The start of a server is told to the microsecond: no two servers have the same, and a copy of a database has another. */
const identity = {
  postgres: {
    name: 'database.identity',
    text:
      "select extract(epoch from pg_postmaster_start_time())::text || ' ' || oid::text as identity " +
      'from pg_catalog.pg_database where datname = current_database()',
  },
  sqlite: { name: 'database.identity', text: "select file as identity from pragma_database_list where name = 'main'" },
} as const;

/** Kept for as long as it agrees: a server that was started again has another one. */
const identities = new WeakMap<Database, string>();

async function isSameDatabase(own: Database, tx: CallerTransaction): Promise<boolean> {
  const statement = identity[tx.dialect];
  const theirs = toIdentity(tx.dialect, await tx.query(statement.text, []));
  if (theirs === undefined) return false;
  if (identities.get(own) === theirs) return true;
  const ours = toIdentity(tx.dialect, await own.query(statement, []));
  if (ours !== undefined) identities.set(own, ours);
  return ours === theirs;
}

/** On SQLite, that the library of a transaction on our own file is the one that we use: see sqlite/copies. */
async function checkCopy(own: Database, tx: CallerTransaction): Promise<void> {
  const [theirs] = await tx.query(copyIdentity, []);
  const [ours] = await own.query({ name: 'database.copy', text: copyIdentity }, []);
  if (theirs?.copy === ours?.copy) return;
  throw copiesMixed(identities.get(own) ?? 'the file', "Holdfast's own, and the one of the transaction");
}

/** Undefined: a database in memory, which nobody else can reach. */
function toIdentity(
  dialect: CallerTransaction['dialect'],
  [row]: readonly Record<string, unknown>[],
): string | undefined {
  const text = row?.identity;
  if (typeof text !== 'string' || text === '') return undefined;
  return dialect === 'sqlite' ? realpathSync(text) : text;
}

const noTransaction = '25P01';

/** A client of pg does not show whether a transaction has begun on it. Outside one this fails, and does no harm. */
export async function isOpen(tx: CallerTransaction): Promise<boolean> {
  if (!tx.mayBeIdle) return true;
  try {
    await tx.query('savepoint holdfast_open; release savepoint holdfast_open', []);
    return true;
  } catch (error) {
    if (sqlState(error) === noTransaction) return false;
    throw error;
  }
}
