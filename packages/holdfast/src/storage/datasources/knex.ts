import type { Knex } from 'knex';
import { misplacedOption } from '../../model/options.js';
import { knexDialect, knexQuery } from '../borrowed.js';
import { checkDatasource, type Datasource, type DatasourceOptions } from '../datasource.js';

/** A datasource over knex, on Postgres or SQLite. The function of a transaction gets knex's transaction. */
export function knexDatasource(knex: Knex, options: DatasourceOptions = {}): Datasource<Knex.Transaction> {
  if (typeof knex?.transaction !== 'function' || !knex.client) {
    throw misplacedOption('knexDatasource()', 'knex', 'must be what knex() returned');
  }
  const place = checkDatasource('knexDatasource()', knexDialect(knex as never), options);
  return {
    ...place,
    transact: ({ isolation, readOnly }, work) => {
      // Of SQLite the library only knows that it has no levels.
      if (place.dialect === 'sqlite') return knex.transaction(work);
      return knex.transaction(work, { ...(isolation && { isolationLevel: isolation }), ...(readOnly && { readOnly }) });
    },
    query: (trx, text, params) => knexQuery(trx as never, place.dialect)(text, params),
  };
}
