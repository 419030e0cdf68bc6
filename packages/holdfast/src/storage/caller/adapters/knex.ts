import type { Knex } from 'knex';
import { misplacedOption } from '../../../model/options.js';
import { checkDatasource, type Datasource, type DatasourceOptions } from '../datasource.js';
import { knexDialect, knexQuery } from '../transaction.js';
import { beginTransaction } from './begin-transaction.js';

/** A datasource over knex, on Postgres or SQLite. The function of a transaction gets knex's transaction. */
export function knexDatasource(knex: Knex, options: DatasourceOptions = {}): Datasource<Knex.Transaction> {
  if (typeof knex?.transaction !== 'function' || !knex.client) {
    throw misplacedOption('knexDatasource()', 'knex', 'must be what knex() returned');
  }
  if ((knex as { isTransaction?: unknown }).isTransaction) {
    throw misplacedOption('knexDatasource()', 'knex', 'is a transaction of knex: give what knex() returned');
  }
  const place = checkDatasource('knexDatasource()', knexDialect(knex as never), options);
  return {
    ...place,
    transact: ({ isolation, readOnly }, work) => {
      const mode = { ...(isolation && { isolationLevel: isolation }), ...(readOnly && { readOnly }) };
      const transact = (opened: typeof work) =>
        place.dialect === 'sqlite' ? onSqlite(knex, readOnly === true, opened) : knex.transaction(opened, mode);
      // Without a pool it was destroyed.
      return beginTransaction(work, transact, () => !knex.client.pool);
    },
    query: (trx, text, params) => knexQuery(trx as never, place.dialect)(text, params),
  };
}

/**
 * Of SQLite the library only knows that it has no levels. What is to read only gets a connection of our own: a function
 * that ends its transaction by itself would give the pool one back that still refuses to write.
 */
async function onSqlite<R>(knex: Knex, readOnly: boolean, work: (trx: Knex.Transaction) => Promise<R>): Promise<R> {
  if (!readOnly) return knex.transaction((trx) => committed(trx, work));
  const connection: { __knexTxId?: unknown } = await knex.client.acquireConnection();
  try {
    return await knex.transaction((trx) => committed(trx, work), { connection });
  } finally {
    // As the library does with connections that it takes itself.
    delete connection.__knexTxId;
    await knex
      .raw('pragma query_only = off')
      .connection(connection)
      .finally(() => knex.client.releaseConnection(connection));
  }
}

/**
 * A commit that fails leaves the transaction open in SQLite, and the library gives its connection back like that: it
 * rolls back only what fails before its own commit, which therefore gets nothing to do.
 */
async function committed<R>(trx: Knex.Transaction, work: (trx: Knex.Transaction) => Promise<R>): Promise<R> {
  const result = await work(trx);
  // By the function.
  if (trx.isCompleted()) return result;
  await trx.raw('commit');
  await trx.raw('begin');
  return result;
}
