import type { Sql, TransactionSql } from 'postgres';
import { misplacedOption } from '../../../model/options.js';
import { checkDatasource, type Datasource, type DatasourceOptions } from '../datasource.js';
import { postgresJsQuery } from '../transaction.js';

/** A datasource over postgres.js. The function of a transaction gets the `sql` of the transaction. */
export function postgresDatasource<Types extends Record<string, unknown>>(
  sql: Sql<Types>,
  options: DatasourceOptions = {},
): Datasource<TransactionSql<Types>> {
  const place = checkDatasource('postgresDatasource()', 'postgres', options);
  if (typeof sql?.begin !== 'function' || typeof sql.unsafe !== 'function') {
    throw misplacedOption('postgresDatasource()', 'sql', 'must be what postgres() of postgres.js returned');
  }
  return {
    ...place,
    transact: async ({ isolation, readOnly }, work) => {
      const mode = [isolation && `isolation level ${isolation}`, readOnly && 'read only'].filter(Boolean).join(' ');
      const results: Awaited<ReturnType<typeof work>>[] = [];
      // What is returned goes past the library, which awaits each element of a list that is returned to it.
      await sql.begin(mode, async (tx) => void results.push(await work(tx)));
      return results[0] as Awaited<ReturnType<typeof work>>;
    },
    query: (tx, text, params) => postgresJsQuery(tx as never)(text, params),
  };
}
