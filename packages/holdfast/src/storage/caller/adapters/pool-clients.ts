import { processWide } from '../../../model/process-wide.js';

/** A Pool of pg, as far as it is used here. */
interface PoolLike {
  on(event: string, listener: (...args: never[]) => void): unknown;
  readonly totalCount: number;
}

interface ClientLike {
  on(event: 'error', listener: () => void): unknown;
  off(event: 'error', listener: () => void): unknown;
}

const attended = processWide('attendedPools', () => new WeakSet<object>());

/**
 * A pool of pg listens to the errors of its clients only while they are in it, and an error event that nobody listens to
 * ends the process: so would a connection that breaks in a transaction. This hides nothing: whoever has the client gets
 * the error from the statement under way, or from the next one; of a client that is in the pool the pool tells, as ever.
 */
export function attendToClients(pool: unknown): void {
  if (!isPool(pool) || attended.has(pool)) return;
  attended.add(pool);
  pool.on('acquire', (client: ClientLike) => void client.on('error', ignore));
  pool.on('release', (_error: unknown, client: ClientLike) => void client.off('error', ignore));
}

function ignore(): void {}

/**
 * A Client of pg, or of what is made after it: one connection, on which transactions that are begun at the same time
 * would be one. A pool has both functions too, and counts its clients.
 */
export function isSingleClient(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || 'totalCount' in value) return false;
  const { query, connect } = value as Record<string, unknown>;
  return typeof query === 'function' && typeof connect === 'function';
}

function isPool(value: unknown): value is PoolLike {
  return typeof value === 'object' && value !== null && 'totalCount' in value && 'on' in value;
}
