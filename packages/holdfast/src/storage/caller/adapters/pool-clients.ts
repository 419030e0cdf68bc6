import { processWide } from '../../../model/process-wide.js';

/** The part of a Pool of pg that is used here. */
interface PoolLike {
  on(event: string, listener: (...args: never[]) => void): unknown;
  readonly totalCount: number;
}

interface ClientLike {
  on(event: 'error', listener: () => void): unknown;
  off(event: 'error', listener: () => void): unknown;
}

const attendedPools = processWide('attendedPools', () => new WeakSet<object>());

/**
 * Adds an error listener to each client while it is taken from the pool. A pool of pg listens to the errors of its
 * clients only while they are in the pool. An error event without a listener ends the process, so a connection that
 * breaks during a transaction would end the process. No error is lost: the user of the client gets it from the current
 * or the next statement, and the pool reports errors of the clients in the pool.
 */
export function listenToClientErrors(pool: unknown): void {
  if (!isPool(pool) || attendedPools.has(pool)) return;
  attendedPools.add(pool);
  pool.on('acquire', (client: ClientLike) => void client.on('error', ignore));
  pool.on('release', (_error: unknown, client: ClientLike) => void client.off('error', ignore));
}

function ignore(): void {}

/**
 * Returns true for a Client of pg or of a compatible library. A Client is one connection, so concurrent transactions on
 * it would be one transaction. A pool has the same two functions, but also `totalCount`.
 */
export function isSingleClient(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || 'totalCount' in value) return false;
  const { query, connect } = value as Record<string, unknown>;
  return typeof query === 'function' && typeof connect === 'function';
}

function isPool(value: unknown): value is PoolLike {
  return typeof value === 'object' && value !== null && 'totalCount' in value && 'on' in value;
}
