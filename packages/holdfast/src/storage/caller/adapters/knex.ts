import type { Knex } from 'knex';
import { wrongOption } from '../../../model/options.js';
import { checkDatasource, type Datasource, type DatasourceOptions } from '../datasource.js';
import { knexDialect, knexQuery } from '../transaction.js';
import { beginTransaction } from './begin-transaction.js';

/**
 * Creates a datasource for knex, on Postgres or SQLite. The function of a transaction receives knex's transaction.
 *
 * @example
 * ```ts
 * import { transaction } from 'holdfast';
 * import { knexDatasource } from 'holdfast/knex';
 * import knex from 'knex';
 *
 * const shop = knexDatasource(knex({ client: 'pg', connection: 'postgres://localhost/shop' }));
 *
 * const debit = transaction(shop, 'debit', async (trx, account: string, cents: number) => {
 *   await trx('accounts').where({ id: account }).decrement('cents', cents);
 * });
 * ```
 */
export function knexDatasource(knex: Knex, options: DatasourceOptions = {}): Datasource<Knex.Transaction> {
  if (typeof knex?.transaction !== 'function' || !knex.client) {
    throw wrongOption('knexDatasource()', 'knex', 'must be the result of knex()');
  }
  if ((knex as { isTransaction?: unknown }).isTransaction) {
    throw wrongOption('knexDatasource()', 'knex', 'is a transaction of knex: pass the result of knex()');
  }
  const settings = checkDatasource('knexDatasource()', knexDialect(knex as never), options);
  return {
    ...settings,
    transact: ({ isolation, readOnly }, work) => {
      const mode = { ...(isolation && { isolationLevel: isolation }), ...(readOnly && { readOnly }) };
      const transact = (opened: typeof work) =>
        settings.dialect === 'sqlite'
          ? transactOnSqlite(knex, readOnly === true, opened)
          : knex.transaction(opened, mode);
      // A knex instance without a pool was destroyed.
      return beginTransaction(work, transact, () => !knex.client.pool);
    },
    query: (trx, text, params) => knexQuery(trx as never, settings.dialect)(text, params),
  };
}

/**
 * Runs a transaction on SQLite. knex only logs a warning if it gets a mode for SQLite, so no mode is passed. A
 * read-only transaction gets a connection that is taken from the pool here: if the user function ends the transaction
 * itself, the pool would otherwise get back a connection that still refuses to write.
 */
async function transactOnSqlite<R>(
  knex: Knex,
  readOnly: boolean,
  work: (trx: Knex.Transaction) => Promise<R>,
): Promise<R> {
  if (!readOnly) return knex.transaction((trx) => runAndCommit(trx, work));
  const connection: { __knexTxId?: unknown } = await knex.client.acquireConnection();
  try {
    return await knex.transaction((trx) => runAndCommit(trx, work), { connection });
  } finally {
    // knex does the same with connections that it takes itself.
    delete connection.__knexTxId;
    await knex
      .raw('pragma query_only = off')
      .connection(connection)
      .finally(() => knex.client.releaseConnection(connection));
  }
}

/**
 * Commits before knex does. If a commit fails, SQLite leaves the transaction open, and knex would return the connection
 * to the pool in this state: knex rolls back only after failures before its own commit. After this commit, knex's own
 * commit has nothing left to do.
 */
async function runAndCommit<R>(trx: Knex.Transaction, work: (trx: Knex.Transaction) => Promise<R>): Promise<R> {
  const result = await work(trx);
  // The user function has ended the transaction.
  if (trx.isCompleted()) return result;
  await trx.raw('commit');
  await trx.raw('begin');
  return result;
}
