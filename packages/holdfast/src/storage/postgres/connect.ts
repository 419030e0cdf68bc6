import type pg from 'pg';
import { describeError, HoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { invalidOption } from '../../model/options.js';
import { readOnlyTransaction, sqlState } from './failures.js';
import type { Server } from './server.js';

/** The option `poolSize`, if it is given. */
export function checkPoolSize(what: string, poolSize: unknown): { readonly poolSize?: number } {
  if (poolSize === undefined) return {};
  if (Number.isInteger(poolSize) && Number(poolSize) >= 2) return { poolSize: Number(poolSize) };
  throw invalidOption(
    what,
    'poolSize',
    poolSize,
    'a whole number of at least 2: one for what is written, one for the rest',
  );
}

/** How long a server may take to let somebody in. */
const patienceMs = 10_000;

export interface ConnectOptions {
  readonly logger: Logger;
  readonly applicationName: string;
  /** Instead of the one of the server's settings. */
  readonly database?: string;
}

/** What a process of Holdfast calls itself on the server, where the settings have no name for it. */
export function applicationName(name: string): string {
  return `holdfast ${name}`.slice(0, 63);
}

/** One connection outside the pools, or a typed error that says what to check. */
export async function connect(server: Server, options: ConnectOptions): Promise<pg.Client> {
  const client = server.client(
    {
      connectionTimeoutMillis: patienceMs,
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
 * A connection to a standby, or to a primary that was replaced, is as good as none: it can write nothing, and what is
 * read there may be long past. After a failover an address may lead to such a server for a while.
 *
 * Settings for the session go with the question.
 */
export async function checkWritable(client: pg.ClientBase, settings = ''): Promise<void> {
  // It may be a black hole by now, and whoever opens a connection has set no other limit yet.
  const query = {
    text: `${settings}show transaction_read_only`,
    ...(settings === '' && { query_timeout: patienceMs }),
  };
  // Several statements are answered by a list.
  const answer = [await client.query(query)].flat().at(-1);
  if (answer?.rows[0]?.transaction_read_only !== 'on') return;
  throw Object.assign(new Error('the server takes read-only transactions only'), { code: readOnlyTransaction });
}

/** What is said when the server cannot be reached, or not for long enough. */
export function unreachable(server: Server, error: unknown): HoldfastError {
  const { where } = server;
  const cause = server.tell(error);
  return new HoldfastError(
    'DATABASE_UNREACHABLE',
    `Postgres at ${where} could not be opened (${describeError(cause)}). ${adviceFor(error)}`,
    { cause, details: { url: where } },
  );
}

/** The role may neither use the tables nor create them. */
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

/** The server cannot be reached over the network, or there is none at the socket. */
const notThere = new Set(
  'ECONNREFUSED ENOTFOUND EAI_AGAIN ETIMEDOUT EHOSTUNREACH ENETUNREACH ECONNRESET EPIPE ENOENT EACCES'.split(' '),
);

function adviceFor(error: unknown): string {
  const state = sqlState(error);
  const { code, message } = (error instanceof Error ? error : {}) as { code?: unknown; message?: string };
  const said = message ?? '';
  // The driver has no codes for most of these; nothing depends on them but what is said.
  if (state === undefined && /does not support SSL/.test(said)) {
    return 'The server refuses SSL: switch it on there, or leave it out here (no `sslmode` and no `ssl`, or `sslmode=disable`).';
  }
  if (state === undefined && (/certificate|SSL|TLS/i.test(said) || /CERT|^ERR_(SSL|TLS)|^EPROTO$/.test(String(code)))) {
    return 'The encrypted connection failed: give the certificate of the authority (`sslrootcert`, or `ssl: { ca }`), and the host name that it is for.';
  }
  if (state === undefined && /password|SASL/i.test(said))
    return 'The server wants a password. Check the URL, the `password`, or the function that is to return it.';
  if (state === undefined && (notThere.has(String(code)) || /time(d )?out|terminated/i.test(said))) {
    return 'Is the server running there, and reachable from here?';
  }
  if (state === undefined) return 'Check the settings, and that it is a Postgres server that answers there.';
  if (state.startsWith('28') && /no encryption|SSL off/i.test(said)) {
    return 'The server takes encrypted connections only: give `?sslmode=verify-full`, or `ssl`.';
  }
  if (state.startsWith('28')) return 'Check the user and password in the URL.';
  if (state === '53300')
    return 'The server has no free connections: raise max_connections, or lower poolSize (launch, connect).';
  if (state === readOnlyTransaction)
    return 'It is a standby, or a primary that was replaced: the URL must lead to the primary.';
  return 'Check the URL and the server log.';
}
