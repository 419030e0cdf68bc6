import type { Sql, TransactionSql } from 'postgres';
import { wrongOption } from '../../../model/options.js';
import { checkDatasource, type Datasource, type DatasourceOptions } from '../datasource.js';
import { postgresJsQuery } from '../transaction.js';

/**
 * Creates a datasource for postgres.js. The function of a transaction receives the `sql` of the transaction.
 *
 * @example
 * ```ts
 * import { transaction } from 'holdfast';
 * import { postgresDatasource } from 'holdfast/postgres-js';
 * import postgres from 'postgres';
 *
 * const shop = postgresDatasource(postgres('postgres://localhost/shop'));
 *
 * const debit = transaction(shop, 'debit', async (sql, account: string, cents: number) => {
 *   await sql`update accounts set cents = cents - ${cents} where id = ${account}`;
 * });
 * ```
 */
export function postgresDatasource<Types extends Record<string, unknown>>(
  sql: Sql<Types>,
  options: DatasourceOptions = {},
): Datasource<TransactionSql<Types>> {
  const settings = checkDatasource('postgresDatasource()', 'postgres', options);
  if (typeof sql?.begin !== 'function' || typeof sql.unsafe !== 'function') {
    throw wrongOption('postgresDatasource()', 'sql', 'must be the result of postgres() of postgres.js');
  }
  return {
    ...settings,
    transact: async ({ isolation, readOnly }, work) => {
      const mode = [isolation && `isolation level ${isolation}`, readOnly && 'read only'].filter(Boolean).join(' ');
      const results: Awaited<ReturnType<typeof work>>[] = [];
      // The result bypasses postgres.js, which awaits each element of a returned array.
      await sql.begin(mode, async (tx) => void results.push(await work(tx)));
      return results[0] as Awaited<ReturnType<typeof work>>;
    },
    query: (tx, text, params) => postgresJsQuery(tx as never)(text, params),
  };
}
