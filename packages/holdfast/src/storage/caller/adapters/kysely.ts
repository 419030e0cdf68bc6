import type { Kysely, Transaction } from 'kysely';
import { wrongOption } from '../../../model/options.js';
import { checkDatasource, type Datasource, type DatasourceOptions } from '../datasource.js';
import { kyselyDialect, kyselyQuery } from '../transaction.js';
import { beginTransaction } from './begin-transaction.js';

/**
 * Creates a datasource for kysely, on Postgres or SQLite. The function of a transaction receives kysely's transaction.
 *
 * @example
 * ```ts
 * import { transaction } from 'holdfast';
 * import { kyselyDatasource } from 'holdfast/kysely';
 * import { Kysely, PostgresDialect } from 'kysely';
 * import pg from 'pg';
 *
 * const pool = new pg.Pool({ connectionString: process.env.SHOP_DATABASE });
 * const shop = kyselyDatasource(new Kysely<ShopTables>({ dialect: new PostgresDialect({ pool }) }));
 *
 * const debit = transaction(shop, 'debit', async (trx, account: string, cents: number) => {
 *   await trx
 *     .updateTable('accounts')
 *     .set((eb) => ({ cents: eb('cents', '-', cents) }))
 *     .where('id', '=', account)
 *     .execute();
 * });
 * ```
 */
export function kyselyDatasource<DB>(db: Kysely<DB>, options: DatasourceOptions = {}): Datasource<Transaction<DB>> {
  if (typeof db?.transaction !== 'function' || typeof db.getExecutor !== 'function') {
    throw wrongOption('kyselyDatasource()', 'db', 'must be a Kysely instance');
  }
  if (db.isTransaction) {
    throw wrongOption('kyselyDatasource()', 'db', 'is a transaction of kysely: pass the Kysely instance');
  }
  const settings = checkDatasource('kyselyDatasource()', kyselyDialect(db as never), options);
  return {
    ...settings,
    transact: ({ isolation, readOnly }, work) => {
      let builder = db.transaction();
      if (isolation && settings.dialect === 'postgres') builder = builder.setIsolationLevel(isolation);
      if (readOnly && settings.dialect === 'postgres') builder = builder.setAccessMode('read only');
      return beginTransaction(work, (opened) => builder.execute(opened), isClosed);
    },
    query: (trx, text, params) => kyselyQuery(trx as never, settings.dialect)(text, params),
  };
}

/** kysely does not expose its pool, so only the text of the error shows that the pool is closed. */
function isClosed(error: unknown): boolean {
  return error instanceof Error && /destroyed|after calling end/.test(error.message);
}
