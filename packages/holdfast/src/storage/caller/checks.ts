import { realpathSync } from 'node:fs';
import type { Database } from '../database.js';
import { sqlState } from '../postgres/failures.js';
import { sqliteCode } from '../sqlite/codes.js';
import { copyIdentity, mixedCopiesError } from '../sqlite/copies.js';
import type { CallerTransaction, Purpose } from './transaction.js';

/**
 * Checks whether Holdfast's statements can run in a transaction of the caller. The checks do not touch the tables,
 * because a failed statement would abort the transaction.
 */

type Relation = readonly [kind: 'table' | 'sequence', name: string, ...rights: string[]];

/** A row lock, even a shared one, requires the right to update the row. */
const neededRights: Record<Purpose, readonly Relation[]> = {
  // More than the statement requires: processes of all releases that run side by side must get the same answer.
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

/**
 * Resolves with true if the transaction is in the same database as the system tables, and its role has the rights. A
 * different database with the same tables does not count.
 */
export async function reaches(own: Database, tx: CallerTransaction, purpose: Purpose): Promise<boolean> {
  if (own.dialect.name !== tx.dialect) return false;
  // A step is recorded at the end of its transaction, which may be read-only and has already read.
  const writesNext = purpose !== 'record a step';
  if (tx.dialect === 'sqlite' && writesNext && !(await takeWriteLock(tx))) return false;
  if (!(await isSameDatabase(own, tx))) return false;
  if (tx.dialect === 'postgres') return hasRights(own, tx, neededRights[purpose]);
  await checkCopy(own, tx);
  return true;
}

/**
 * Takes the write lock of the file before anything is read. A transaction that reads first, and writes after another
 * connection has committed, fails at once with "database is locked". Knex, kysely and drizzle begin such transactions.
 * Resolves with false if the file has no table of Holdfast.
 */
async function takeWriteLock(tx: CallerTransaction): Promise<boolean> {
  try {
    await tx.query('delete from workflow_status where 0', []);
    return true;
  } catch (error) {
    // drizzle wraps the error of the driver.
    const { cause } = error as { cause?: unknown };
    if ([error, cause].some((each) => sqliteCode(each) === 'SQLITE_ERROR')) return false;
    throw error;
  }
}

async function hasRights(
  { dialect }: Database,
  tx: CallerTransaction,
  relations: readonly Relation[],
): Promise<boolean> {
  // This check comes first: a role without usage on the schema may not even ask what the schema contains.
  const isUsable = "has_schema_privilege(to_regnamespace($1)::oid, 'usage')";
  const rights = relations.flatMap(([kind, , ...names], i) =>
    names.map((right) => `has_${kind}_privilege(to_regclass($${i + 2})::oid, '${right}')`),
  );
  const text = `select case when ${isUsable} then coalesce(${rights.join(' and ')}, false) else false end as reached`;
  const tables = relations.map(([, name]) => dialect.table(name));
  const [row] = await tx.query(text, [dialect.table('').slice(0, -1), ...tables]);
  return Boolean(row?.reached);
}

/**
 * Includes the start time of the server in microseconds, which differs between servers. A copy of a database has
 * another OID.
 */
const identity = {
  postgres: {
    name: 'database.identity',
    text:
      "select extract(epoch from pg_postmaster_start_time())::text || ' ' || oid::text as identity " +
      'from pg_catalog.pg_database where datname = current_database()',
  },
  sqlite: { name: 'database.identity', text: "select file as identity from pragma_database_list where name = 'main'" },
} as const;

/**
 * The identity of our database. It is kept while it matches, and is read again after a mismatch, because a server that
 * restarts has a new start time.
 */
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

/** On SQLite, checks that the transaction uses the same copy of SQLite as Holdfast: see sqlite/copies. */
async function checkCopy(own: Database, tx: CallerTransaction): Promise<void> {
  const [theirs] = await tx.query(copyIdentity, []);
  const [ours] = await own.query({ name: 'database.copy', text: copyIdentity }, []);
  if (theirs?.copy === ours?.copy) return;
  throw mixedCopiesError(identities.get(own) ?? 'the file', "Holdfast's own copy and the copy of the transaction");
}

/** Undefined for a database in memory, which no other connection can reach. */
function toIdentity(
  dialect: CallerTransaction['dialect'],
  [row]: readonly Record<string, unknown>[],
): string | undefined {
  const text = row?.identity;
  if (typeof text !== 'string' || text === '') return undefined;
  return dialect === 'sqlite' ? realpathSync(text) : text;
}

const noTransaction = '25P01';

/**
 * Resolves with false if no transaction has begun. A client of pg does not report this. Outside a transaction the
 * statement fails without any effect.
 */
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
