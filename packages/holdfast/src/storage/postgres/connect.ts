import type pg from 'pg';
import { describeError, HoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { invalidOption } from '../../model/options.js';
import { readOnlyTransaction, sqlState } from './failures.js';
import type { Server } from './server.js';

/** Checks the option `poolSize`. `what` names the function that got the option. */
export function checkPoolSize(what: string, poolSize: unknown): { readonly poolSize?: number } {
  if (poolSize === undefined) return {};
  if (Number.isInteger(poolSize) && Number(poolSize) >= 2) return { poolSize: Number(poolSize) };
  throw invalidOption(
    what,
    'poolSize',
    poolSize,
    'a whole number of at least 2: one connection for writes, one for other statements',
  );
}

/** How long a server may take to accept a connection. */
const connectTimeoutMs = 10_000;

export interface ConnectOptions {
  readonly logger: Logger;
  readonly applicationName: string;
  /** The database to connect to, instead of the database in the settings. */
  readonly database?: string;
}

/** Returns the `application_name` of a Holdfast process, for settings that have none. */
export function applicationName(name: string): string {
  return `holdfast ${name}`.slice(0, 63);
}

/** Opens one connection outside the pools. Throws a typed error that says what to check. */
export async function connect(server: Server, options: ConnectOptions): Promise<pg.Client> {
  const client = server.client(
    {
      connectionTimeoutMillis: connectTimeoutMs,
      application_name: applicationName(options.applicationName),
      keepAlive: true,
    },
    options.database,
  );
  client.on('error', (error) => {
    options.logger.debug(`A connection to Postgres broke: ${describeError(server.tell(error))}`);
  });
  try {
    await client.connect();
    await server.prepare(client);
    await checkWritable(client);
    return client;
  } catch (cause) {
    await client.end().catch(() => {});
    throw unreachable(server, cause);
  }
}

/**
 * Throws if the connection leads to a standby or an old primary. Such a server accepts no writes, and reads from it may
 * be outdated. After a failover, an address may lead to such a server for a while.
 *
 * `settings` are statements that configure the session. They run in the same round trip.
 */
export async function checkWritable(client: pg.ClientBase, settings = ''): Promise<void> {
  // The server may stop answering at any time, and a connection outside the pools has no other timeout yet.
  const query = {
    text: `${settings}show transaction_read_only`,
    ...(settings === '' && { query_timeout: connectTimeoutMs }),
  };
  // For several statements the driver returns a list of results.
  const answer = [await client.query(query)].flat().at(-1);
  if (answer?.rows[0]?.transaction_read_only !== 'on') return;
  throw Object.assign(new Error('the server accepts only read-only transactions'), { code: readOnlyTransaction });
}

/** The error for a server that cannot be reached, or that closes the connection too early. */
export function unreachable(server: Server, error: unknown): HoldfastError {
  const { where } = server;
  const cause = server.tell(error);
  return new HoldfastError(
    'DATABASE_UNREACHABLE',
    `Postgres at ${where} could not be opened (${describeError(cause)}). ${adviceFor(error)}`,
    { cause, details: { url: where } },
  );
}

/** The error for a role that may neither use the tables nor create them. */
export function notPermitted(server: Server, schema: string, error: unknown): HoldfastError {
  const { where } = server;
  const cause = server.tell(error);
  return new HoldfastError(
    'MIGRATION_REQUIRED',
    `The role of this process may not create or use the tables in schema "${schema}" of Postgres at ${where} ` +
      `(${describeError(cause)}). If the tables do not exist, call migrate({ database }) once with a role that may ` +
      'create tables. Then grant this role usage on the schema; select, insert, update and delete on all its tables; ' +
      'usage on all its sequences; and execute on all its functions.',
    { cause, details: { schema } },
  );
}

/** Error codes of a server that cannot be reached by network or by socket. */
const unreachableCodes = new Set(
  'ECONNREFUSED ENOTFOUND EAI_AGAIN ETIMEDOUT EHOSTUNREACH ENETUNREACH ECONNRESET EPIPE ENOENT EACCES'.split(' '),
);

function adviceFor(error: unknown): string {
  const state = sqlState(error);
  const { code, message } = (error instanceof Error ? error : {}) as { code?: unknown; message?: string };
  const text = message ?? '';
  // The driver has no codes for most of these errors. Only the advice depends on the message texts.
  if (state === undefined && /does not support SSL/.test(text)) {
    return (
      'The server refuses SSL: enable SSL on the server, or do not ask for it ' +
      '(no `sslmode` and no `ssl`, or `sslmode=disable`).'
    );
  }
  if (state === undefined && (/certificate|SSL|TLS/i.test(text) || /CERT|^ERR_(SSL|TLS)|^EPROTO$/.test(String(code)))) {
    return (
      'The encrypted connection failed: set the certificate of the authority (`sslrootcert` or `ssl: { ca }`), ' +
      'and use the host name in the certificate of the server.'
    );
  }
  if (state === undefined && /password|SASL/i.test(text)) {
    return 'The server requires a password. Check the URL, the setting `password`, or the function that returns it.';
  }
  if (state === undefined && (unreachableCodes.has(String(code)) || /time(d )?out|terminated/i.test(text))) {
    return 'Is the server running there, and reachable from here?';
  }
  if (state === undefined) return 'Check the settings, and check that the address leads to a Postgres server.';
  if (state.startsWith('28') && /no encryption|SSL off/i.test(text)) {
    return 'The server accepts only encrypted connections: set `?sslmode=verify-full` or `ssl`.';
  }
  if (state.startsWith('28')) return 'Check the user and password in the URL.';
  if (state === '53300') {
    return 'The server has no free connections: raise max_connections, or lower poolSize (launch, connect).';
  }
  if (state === readOnlyTransaction) {
    return 'The server is a standby or an old primary: the URL must lead to the primary.';
  }
  return 'Check the URL and the server log.';
}
