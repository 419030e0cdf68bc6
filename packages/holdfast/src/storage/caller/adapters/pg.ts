import type { Pool, PoolClient } from 'pg';
import { describeError, isError } from '../../../model/errors.js';
import { misplacedOption } from '../../../model/options.js';
import { standsWrong } from '../../postgres/failures.js';
import {
  checkDatasource,
  type Datasource,
  type DatasourceOptions,
  rolledBackSilently,
  type TransactionMode,
} from '../datasource.js';
import { pgQuery } from '../transaction.js';
import { isSingleClient } from './pool-clients.js';

/** A datasource over a pool of pg. The function of a transaction gets the client that it runs on. */
export function pgDatasource(pool: Pool, options: DatasourceOptions = {}): Datasource<PoolClient> {
  const place = checkDatasource('pgDatasource()', 'postgres', options);
  if (typeof pool?.connect !== 'function' || typeof pool.query !== 'function' || isSingleClient(pool)) {
    throw misplacedOption('pgDatasource()', 'pool', 'must be a Pool of pg, and not a Client');
  }
  return {
    ...place,
    confirmsCommit: true,
    transact: (mode, work) => transact(pool, mode, work),
    query: (client, text, params) => pgQuery(client)(text, params),
  };
}

async function transact<R>(pool: Pool, mode: TransactionMode, work: (client: PoolClient) => Promise<R>): Promise<R> {
  const client = await connected(pool);
  let lost = false;
  // While a client is out of its pool nobody listens, and an error event that nobody listens to ends the process.
  const onError = (): void => {
    lost = true;
  };
  client.on('error', onError);
  let broken = true;
  try {
    await client.query(begin(mode));
    const result = await work(client);
    const { command } = await client.query('commit');
    broken = false;
    if (command !== 'COMMIT') throw rolledBackSilently();
    return result;
  } catch (error) {
    const rolledBack = await client.query('rollback').then(
      () => true,
      () => false,
    );
    // It leads to a server that was the primary once: the next one may lead to the new one.
    broken = !rolledBack || (!mode.readOnly && standsWrong(error));
    // The driver has no code for a connection that ended under a statement.
    throw lost
      ? Object.assign(new Error('The connection to Postgres was lost.', { cause: error }), connectionFailure)
      : error;
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}

/**
 * The driver has no code either for a connection that ended, or did not come up, while it was opened: a load balancer whose
 * server is gone takes it and closes it. Whoever closed the pool has only himself to wait for.
 */
async function connected(pool: Pool): Promise<PoolClient> {
  return pool.connect().catch((error: unknown) => {
    if (pool.ending || (isError(error) && 'code' in error)) throw error;
    // With the driver's words: it may also be a setting that no waiting will cure, such as SSL on a server without it.
    const message = `A connection to Postgres could not be opened: ${describeError(error)}`;
    throw Object.assign(new Error(message, { cause: error }), connectionFailure);
  });
}

const connectionFailure = { code: '08006' };

function begin({ isolation, readOnly }: TransactionMode): string {
  return ['begin', isolation && `isolation level ${isolation}`, readOnly && 'read only'].filter(Boolean).join(' ');
}
