import type { DatabaseOption } from '../model/database.js';
import { HoldfastError } from '../model/errors.js';
import { checkKnownOptions, misplacedOption } from '../model/options.js';
import { databaseFromEnvironment } from './database-environment.js';

/** What connections to Postgres are opened with. `Client`: the class of them, where that is not the driver's own. */
export interface PostgresSettings {
  readonly config: Readonly<Record<string, unknown>>;
  readonly Client?: unknown;
}

/** Where the database is: one of the first two. */
export interface DatabaseSource {
  readonly url?: string;
  readonly settings?: PostgresSettings;
  /** Where to listen, if not there. */
  readonly listenUrl?: string;
}

type Given = Readonly<Record<string, unknown>>;

/**
 * The option `database`, checked: else the environment, else a file beside the process. What is refused is not repeated,
 * because it may have a password in it.
 */
export function databaseOf(
  what: string,
  options: { readonly database?: DatabaseOption | undefined; readonly name?: string },
): Found {
  const file = options.name === undefined ? '' : `sqlite:./${options.name}.sqlite`;
  const given: unknown = options.database ?? databaseFromEnvironment() ?? file;
  if (typeof given !== 'object' || !given) return { url: checkedUrl(what, given) };
  if (isPool(given)) return ofPool(what, given);
  if (!isPlain(given) || Object.keys(given).length === 0) throw notUnderstood(what, given);
  const isBare = !['url', 'config', 'pool', 'listen'].some((key) => key in given);
  return isBare ? ofConfig(what, given) : ofWrapper(what, given);
}

/** With the `max` of a configuration that was made for Holdfast. That of a pool says how many connections the pool has. */
interface Found extends DatabaseSource {
  readonly max?: unknown;
}

function ofWrapper(what: string, given: Given): Found {
  checkKnownOptions(`${what}: "database"`, given, ['url', 'config', 'pool', 'listen']);
  const { url, config, pool, listen } = given;
  if ([url, config, pool].filter((each) => each !== undefined).length !== 1) {
    throw misplacedOption(what, 'database', 'must have one of "url", "config" and "pool", and only one');
  }
  const source = url !== undefined ? { url: checkedUrl(what, url) } : ofObject(what, config, pool);
  if (listen === undefined) return source;
  if ('url' in source && !isPostgresUrl(source.url)) {
    throw misplacedOption(what, 'database.listen', 'is for Postgres: a SQLite file has nothing to listen to');
  }
  if (typeof listen === 'string' && isPostgresUrl(listen.trim())) return { ...source, listenUrl: listen.trim() };
  throw misplacedOption(what, 'database.listen', 'must be a URL of the same database, as in "postgres://..."');
}

function ofObject(what: string, config: unknown, pool: unknown): Found {
  if (pool !== undefined) {
    if (typeof pool === 'object' && pool !== null && isPool(pool)) return ofPool(what, pool);
    throw misplacedOption(
      what,
      'database.pool',
      'must be a Pool of pg, and not a Client or the pool of another driver',
    );
  }
  if (typeof config === 'object' && config !== null && isPlain(config)) return ofConfig(what, config);
  throw misplacedOption(what, 'database.config', 'must be an object, as `new Pool()` of pg takes it');
}

interface Pool {
  readonly options: Given;
  readonly Client?: unknown;
}

/** Not by its class: the pool may be of another copy of the package. */
function isPool(given: object): given is object & Pool {
  const { connect, query, options } = given as Given;
  const isObject = typeof options === 'object' && options !== null;
  return isObject && typeof connect === 'function' && typeof query === 'function' && 'totalCount' in given;
}

function ofPool(what: string, { options, Client }: Pool): Found {
  // pg hides the password from whoever copies or prints the options.
  const config = { ...options, ...('password' in options && { password: options.password }) };
  checkTexts(what, config);
  return { settings: { config: connecting(config), ...(typeof Client === 'function' && { Client }) } };
}

/** What `new Pool()` and `new Client()` of pg know. */
const known = (
  'host port user password database connectionString ssl sslnegotiation options stream application_name ' +
  'fallback_application_name client_encoding keepAlive keepAliveInitialDelayMillis enableChannelBinding scramMaxIterations ' +
  'maxLifetimeSeconds max onConnect Client ' +
  // These are for Holdfast to choose.
  'min maxUses idleTimeoutMillis allowExitOnIdle connectionTimeoutMillis query_timeout statement_timeout lock_timeout ' +
  'idle_in_transaction_session_timeout types binary pipeline replication parseInputDatesAsUTC verify log Promise'
).split(' ');

const chosenByHoldfast = new Set(['max', 'Client', ...known.slice(known.indexOf('min'))]);

function ofConfig(what: string, config: Given): Found {
  checkKnownOptions(`${what}: "database"`, config, known);
  checkTexts(what, config);
  const { max, Client } = config;
  return {
    settings: { config: connecting(config), ...(Client !== undefined && { Client }) },
    ...(max !== undefined && { max }),
  };
}

function connecting(config: Given): Given {
  return Object.fromEntries(
    Object.entries(config).filter(([key, value]) => value !== undefined && !chosenByHoldfast.has(key)),
  );
}

/** Values of another kind would be left out, or turned to texts, by the driver: which server would it connect to? */
function checkTexts(what: string, config: Given): void {
  for (const key of ['host', 'user', 'database', 'connectionString', 'options', 'application_name']) {
    const value = config[key];
    if (value !== undefined && value !== null && typeof value !== 'string') {
      throw misplacedOption(what, `database.${key}`, 'must be a text');
    }
  }
  const { host, port, password, stream, onConnect } = config;
  if (typeof host === 'string' && /@|:\/\//.test(host)) {
    throw misplacedOption(
      what,
      'database.host',
      'must be a host name, an address or the folder of a socket, and not a URL',
    );
  }
  const isPort = port === undefined || port === null || /^\d{1,5}$/.test(String(port));
  if (!isPort) throw misplacedOption(what, 'database.port', 'must be a number');
  if (password !== undefined && password !== null && !['string', 'function'].includes(typeof password)) {
    throw misplacedOption(what, 'database.password', 'must be a text, or a function that returns one');
  }
  for (const [key, value] of Object.entries({ stream, onConnect })) {
    if (value !== undefined && typeof value !== 'function') {
      throw misplacedOption(what, `database.${key}`, 'must be a function, which is called for each connection');
    }
  }
}

export function isPostgresUrl(url: string): boolean {
  return /^postgres(ql)?:\/\//.test(url);
}

function checkedUrl(what: string, given: unknown): string {
  if (typeof given === 'string' && given.trim() !== '') return given.trim();
  throw notUnderstood(what, given);
}

function notUnderstood(what: string, given: unknown): HoldfastError {
  const problem =
    given === ''
      ? 'is missing or empty'
      : `must be a URL, a Pool of pg or its configuration, but it is ${kindOf(given)}`;
  return new HoldfastError(
    'DATABASE_URL_INVALID',
    `${what}: the option "database" ${problem}. Give { database: "postgres://..." } or { database: "sqlite:path" }.`,
  );
}

function kindOf(value: unknown): string {
  if (typeof value === 'string') return 'a blank text';
  if (value === null || typeof value !== 'object') return value === null ? 'null' : `a ${typeof value}`;
  if (value instanceof URL) return 'an object of class URL: give its href';
  if (typeof (value as Given).query === 'function') return 'a client or another library: give the Pool of pg';
  return Array.isArray(value) ? 'a list' : 'an object that is none of them';
}

function isPlain(value: object): value is Given {
  const prototype: unknown = Object.getPrototypeOf(value);
  // Of another realm (jest, vm), an object has another prototype, which has none itself.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
