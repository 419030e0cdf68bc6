import type { Pool, PoolClient } from 'pg';
import { describeError, isError } from '../../../model/errors.js';
import { wrongOption } from '../../../model/options.js';
import { isReadOnlyServer } from '../../postgres/failures.js';
import {
  checkDatasource,
  type Datasource,
  type DatasourceOptions,
  rolledBackError,
  type TransactionMode,
} from '../datasource.js';
import { pgQuery } from '../transaction.js';
import { isSingleClient } from './pool-clients.js';

/**
 * Creates a datasource for a pool of pg. The function of a transaction receives the client of its connection.
 *
 * @example
 * ```ts
 * import { transaction } from 'holdfast';
 * import { pgDatasource } from 'holdfast/pg';
 * import pg from 'pg';
 *
 * const shop = pgDatasource(new pg.Pool({ connectionString: process.env.SHOP_DATABASE }));
 *
 * const debit = transaction(shop, 'debit', async (client, account: string, cents: number) => {
 *   await client.query('update accounts set cents = cents - $2 where id = $1', [account, cents]);
 * });
 * ```
 */
export function pgDatasource(pool: Pool, options: DatasourceOptions = {}): Datasource<PoolClient> {
  const settings = checkDatasource('pgDatasource()', 'postgres', options);
  if (typeof pool?.connect !== 'function' || typeof pool.query !== 'function' || isSingleClient(pool)) {
    throw wrongOption('pgDatasource()', 'pool', 'must be a Pool of pg, not a Client');
  }
  return {
    ...settings,
    confirmsCommit: true,
    transact: (mode, work) => transact(pool, mode, work),
    query: (client, text, params) => pgQuery(client)(text, params),
  };
}

async function transact<R>(pool: Pool, mode: TransactionMode, work: (client: PoolClient) => Promise<R>): Promise<R> {
  const client = await takeClient(pool);
  let lost = false;
  // A client that is taken from its pool has no error listener, and an error event without a listener ends the process.
  const onError = (): void => {
    lost = true;
  };
  client.on('error', onError);
  let broken = true;
  try {
    await client.query(beginText(mode));
    const result = await work(client);
    const { command } = await client.query('commit');
    broken = false;
    if (command !== 'COMMIT') throw rolledBackError();
    return result;
  } catch (error) {
    const rolledBack = await client.query('rollback').then(
      () => true,
      () => false,
    );
    // The connection leads to a server that is no longer the primary. A new connection may lead to the new primary.
    broken = !rolledBack || (!mode.readOnly && isReadOnlyServer(error));
    // The driver has no code for a connection that ended during a statement.
    throw lost
      ? Object.assign(new Error('The connection to Postgres was lost.', { cause: error }), connectionFailure)
      : error;
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}

/**
 * Takes a client from the pool. The driver has no code for a connection that ended, or was not established, while it
 * was opened: a load balancer whose server is gone accepts the connection and closes it. Such an error gets a code, so
 * that the step is retried. If the application has closed the pool, retrying is useless, and the error stays as it is.
 */
async function takeClient(pool: Pool): Promise<PoolClient> {
  return pool.connect().catch((error: unknown) => {
    if (pool.ending || (isError(error) && 'code' in error)) throw error;
    // Quotes the driver: the cause may also be a setting that no retry repairs, such as SSL on a server without SSL.
    const message = `A connection to Postgres could not be opened: ${describeError(error)}`;
    throw Object.assign(new Error(message, { cause: error }), connectionFailure);
  });
}

const connectionFailure = { code: '08006' };

function beginText({ isolation, readOnly }: TransactionMode): string {
  return ['begin', isolation && `isolation level ${isolation}`, readOnly && 'read only'].filter(Boolean).join(' ');
}
