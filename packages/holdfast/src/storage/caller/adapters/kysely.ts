import type { Kysely, Transaction } from 'kysely';
import { misplacedOption } from '../../../model/options.js';
import { checkDatasource, type Datasource, type DatasourceOptions } from '../datasource.js';
import { kyselyDialect, kyselyQuery } from '../transaction.js';
import { beginTransaction } from './begin-transaction.js';

/** A datasource over kysely, on Postgres or SQLite. The function of a transaction gets kysely's transaction. */
export function kyselyDatasource<DB>(db: Kysely<DB>, options: DatasourceOptions = {}): Datasource<Transaction<DB>> {
  if (typeof db?.transaction !== 'function' || typeof db.getExecutor !== 'function') {
    throw misplacedOption('kyselyDatasource()', 'db', 'must be a Kysely instance');
  }
  if (db.isTransaction) {
    throw misplacedOption('kyselyDatasource()', 'db', 'is a transaction of kysely: give the Kysely instance');
  }
  const place = checkDatasource('kyselyDatasource()', kyselyDialect(db as never), options);
  return {
    ...place,
    transact: ({ isolation, readOnly }, work) => {
      let builder = db.transaction();
      if (isolation && place.dialect === 'postgres') builder = builder.setIsolationLevel(isolation);
      if (readOnly && place.dialect === 'postgres') builder = builder.setAccessMode('read only');
      return beginTransaction(work, (opened) => builder.execute(opened), isClosed);
    },
    query: (trx, text, params) => kyselyQuery(trx as never, place.dialect)(text, params),
  };
}

/** The library keeps its pool to itself, so that only the words are left to tell by. */
function isClosed(error: unknown): boolean {
  return error instanceof Error && /destroyed|after calling end/.test(error.message);
}
