import type pg from 'pg';
import { describeError, HoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { invalidOption } from '../../model/options.js';
import type { StatementProbe } from '../probe.js';
import { readOnlyTransaction, sqlState } from './failures.js';

export interface PostgresOptions {
  readonly url: string;
  readonly schema: string;
  readonly migrate: boolean;
  readonly logger: Logger;
  readonly applicationName: string;
  readonly poolSize?: number;
  readonly answerTimeoutMs?: number;
  readonly probe?: StatementProbe;
}

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

/** One connection outside the pools, or a typed error that says what to check. */
export async function connect(driver: typeof pg, options: PostgresOptions): Promise<pg.Client> {
  if (namesSeveralHosts(options.url)) {
    throw new HoldfastError(
      'DATABASE_URL_INVALID',
      'The postgres:// URL names several hosts, and the driver (pg) knows one at a time. Give it an address that always leads to ' +
        'the primary: a name or a virtual address that a failover moves, or a proxy.',
    );
  }
  const client = createClient(driver, options);
  client.on('error', (error) => options.logger.debug(`A connection to Postgres broke: ${error.message}`));
  try {
    await client.connect();
    await checkWritable(client);
    return client;
  } catch (cause) {
    await client.end().catch(() => {});
    throw unreachable(options.url, cause);
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

/** Of `postgres://a,b/name` the driver would look for one host of that name. */
function namesSeveralHosts(url: string): boolean {
  const hosts = /^[^/]*\/\/(?:[^/?]*@)?([^/?]*)/.exec(url)?.[1] ?? '';
  return hosts.includes(',') || /[?&]host=[^&]*(,|%2C)/i.test(url);
}

function createClient(driver: typeof pg, options: PostgresOptions): pg.Client {
  try {
    return new driver.Client({
      connectionString: options.url,
      connectionTimeoutMillis: patienceMs,
      application_name: `holdfast ${options.applicationName}`.slice(0, 63),
      keepAlive: true,
    });
  } catch {
    // What the driver threw has the whole URL in it, with the password.
    throw new HoldfastError(
      'DATABASE_URL_INVALID',
      'The postgres:// URL cannot be parsed. Write it as "postgres://user:password@host:5432/name", with special ' +
        'characters in user and password percent-encoded.',
    );
  }
}

/** What is said when the server cannot be reached, or not for long enough. */
export function unreachable(url: string, cause: unknown): HoldfastError {
  const where = safeUrl(url);
  const state = sqlState(cause);
  const advice = state === undefined ? 'Is the server running there, and reachable from here?' : adviceFor(state);
  return new HoldfastError(
    'DATABASE_UNREACHABLE',
    `Postgres at ${where} could not be opened (${describeError(cause)}). ${advice}`,
    { cause, details: { url: where } },
  );
}

function adviceFor(state: string): string {
  if (state.startsWith('28')) return 'Check the user and password in the URL.';
  if (state === '53300')
    return 'The server has no free connections: raise max_connections, or lower poolSize (launch, connect).';
  if (state === readOnlyTransaction)
    return 'It is a standby, or a primary that was replaced: the URL must lead to the primary.';
  return 'Check the URL and the server log.';
}

/** The URL without its password, for messages. */
function safeUrl(url: string): string {
  try {
    const parsed = new URL(url);
    if (parsed.password) parsed.password = '***';
    return parsed.toString();
  } catch {
    return 'the given URL';
  }
}
