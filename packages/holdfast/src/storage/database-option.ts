import type { DatabaseOption } from '../model/database.js';
import { HoldfastError } from '../model/errors.js';
import { checkKnownOptions, wrongOption } from '../model/options.js';
import type { DatabaseSource } from './contract/database-source.js';
import { databaseFromEnvironment, emptyDatabaseVariable } from './database-environment.js';

type Properties = Readonly<Record<string, unknown>>;

/**
 * Checks the option `database`. If the option is missing, the environment names the database, otherwise a file in the
 * working directory. Errors do not repeat the value, because it may contain a password.
 */
export function databaseOf(
  what: string,
  options: { readonly database?: DatabaseOption | undefined; readonly name?: string },
): ParsedDatabase {
  const file = options.name === undefined ? '' : `sqlite:./${options.name}.sqlite`;
  const given: unknown = options.database ?? databaseFromEnvironment() ?? file;
  if (typeof given !== 'object' || !given) return { url: checkedUrl(what, given) };
  if (isPool(given)) return fromPool(what, given);
  if (!isPlain(given) || Object.keys(given).length === 0) throw invalidDatabase(what, given);
  const isConfig = !['url', 'config', 'pool', 'listen'].some((key) => key in given);
  return isConfig ? fromConfig(what, given) : fromWrapper(what, given);
}

/**
 * `max` comes from a configuration that was made for Holdfast. The `max` of a pool is ignored, because it is the size
 * of that pool.
 */
interface ParsedDatabase extends DatabaseSource {
  readonly max?: unknown;
}

function fromWrapper(what: string, given: Properties): ParsedDatabase {
  checkKnownOptions(`${what}: "database"`, given, ['url', 'config', 'pool', 'listen']);
  const { url, config, pool, listen } = given;
  if ([url, config, pool].filter((each) => each !== undefined).length !== 1) {
    throw wrongOption(what, 'database', 'must have exactly one of "url", "config" and "pool"');
  }
  const source = url !== undefined ? { url: checkedUrl(what, url) } : fromObject(what, config, pool);
  if (listen === undefined) return source;
  if ('url' in source && !isPostgresUrl(source.url)) {
    throw wrongOption(what, 'database.listen', 'is for Postgres only: a SQLite file sends no notifications');
  }
  if (typeof listen === 'string' && isPostgresUrl(listen.trim())) return { ...source, listenUrl: listen.trim() };
  throw wrongOption(what, 'database.listen', 'must be a URL of the same database, as in "postgres://..."');
}

function fromObject(what: string, config: unknown, pool: unknown): ParsedDatabase {
  if (pool !== undefined) {
    if (typeof pool === 'object' && pool !== null && isPool(pool)) return fromPool(what, pool);
    throw wrongOption(what, 'database.pool', 'must be a Pool of pg, not a Client or the pool of another driver');
  }
  if (typeof config === 'object' && config !== null && isPlain(config)) return fromConfig(what, config);
  throw wrongOption(what, 'database.config', 'must be an object with the options of `new Pool()` of pg');
}

interface Pool {
  readonly options: Properties;
  readonly Client?: unknown;
}

/** Does not use `instanceof`: the pool may come from another copy of the package. */
function isPool(given: object): given is object & Pool {
  const { connect, query, options } = given as Properties;
  const isObject = typeof options === 'object' && options !== null;
  return isObject && typeof connect === 'function' && typeof query === 'function' && 'totalCount' in given;
}

function fromPool(what: string, { options, Client }: Pool): ParsedDatabase {
  // pg makes the password non-enumerable, so a copy of the options lacks it.
  const config = { ...options, ...('password' in options && { password: options.password }) };
  checkValues(what, config);
  return { settings: { config: connectionSettings(config), ...(typeof Client === 'function' && { Client }) } };
}

/** As in pg, null and 0 keep idle connections open. */
function isIdleTimeout(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === 'number' && value >= 0);
}

/** The settings that `new Pool()` and `new Client()` of pg know. */
const knownSettings = (
  'host port user password database connectionString ssl sslnegotiation options stream application_name ' +
  'fallback_application_name client_encoding keepAlive keepAliveInitialDelayMillis enableChannelBinding ' +
  'scramMaxIterations maxLifetimeSeconds idleTimeoutMillis max onConnect Client ' +
  // Holdfast chooses the values of these settings itself.
  'min maxUses allowExitOnIdle connectionTimeoutMillis query_timeout statement_timeout ' +
  'lock_timeout idle_in_transaction_session_timeout types binary pipeline replication parseInputDatesAsUTC verify ' +
  'log Promise'
).split(' ');

const chosenByHoldfast = new Set(['max', 'Client', ...knownSettings.slice(knownSettings.indexOf('min'))]);

function fromConfig(what: string, config: Properties): ParsedDatabase {
  checkKnownOptions(`${what}: "database"`, config, knownSettings);
  checkValues(what, config);
  const { max, Client } = config;
  return {
    settings: { config: connectionSettings(config), ...(Client !== undefined && { Client }) },
    ...(max !== undefined && { max }),
  };
}

function connectionSettings(config: Properties): Properties {
  return Object.fromEntries(
    Object.entries(config).filter(([key, value]) => value !== undefined && !chosenByHoldfast.has(key)),
  );
}

/**
 * The driver would ignore values of another type or convert them to texts, and could then connect to the wrong server.
 */
function checkValues(what: string, config: Properties): void {
  for (const key of ['host', 'user', 'database', 'connectionString', 'options', 'application_name']) {
    const value = config[key];
    if (value !== undefined && value !== null && typeof value !== 'string') {
      throw wrongOption(what, `database.${key}`, 'must be a string');
    }
  }
  const { host, port, password, stream, onConnect } = config;
  if (typeof host === 'string' && /@|:\/\//.test(host)) {
    throw wrongOption(what, 'database.host', 'must be a host name, an address or the directory of a socket, not a URL');
  }
  const isPort = port === undefined || port === null || /^\d{1,5}$/.test(String(port));
  if (!isPort) throw wrongOption(what, 'database.port', 'must be a number');
  if (password !== undefined && password !== null && !['string', 'function'].includes(typeof password)) {
    throw wrongOption(what, 'database.password', 'must be a string, or a function that returns a string');
  }
  if (!isIdleTimeout(config.idleTimeoutMillis)) {
    throw wrongOption(what, 'database.idleTimeoutMillis', 'must be a number of milliseconds');
  }
  for (const [key, value] of Object.entries({ stream, onConnect })) {
    if (value !== undefined && typeof value !== 'function') {
      throw wrongOption(what, `database.${key}`, 'must be a function that is called for each connection');
    }
  }
}

export function isPostgresUrl(url: string): boolean {
  return /^postgres(ql)?:\/\//.test(url);
}

function checkedUrl(what: string, given: unknown): string {
  if (typeof given === 'string' && given.trim() !== '') return given.trim();
  throw invalidDatabase(what, given);
}

function invalidDatabase(what: string, given: unknown): HoldfastError {
  const problem =
    given === ''
      ? `is missing or empty${emptyVariable()}`
      : `must be a URL, a Pool of pg or its configuration, but it is ${kindOf(given)}`;
  return new HoldfastError(
    'DATABASE_URL_INVALID',
    `${what}: the option "database" ${problem}. Give { database: "postgres://..." } or { database: "sqlite:path" }.`,
  );
}

function emptyVariable(): string {
  const name = emptyDatabaseVariable();
  return name === undefined ? '' : `, and the environment variable ${name} is set, but empty`;
}

function kindOf(value: unknown): string {
  if (typeof value === 'string') return 'a blank string';
  if (value === null || typeof value !== 'object') return value === null ? 'null' : `a ${typeof value}`;
  if (value instanceof URL) return 'an object of class URL: give its href';
  if (typeof (value as Properties).query === 'function')
    return 'a client or an object of another library: give the Pool of pg';
  return Array.isArray(value) ? 'a list' : 'a different object';
}

function isPlain(value: object): value is Properties {
  const prototype: unknown = Object.getPrototypeOf(value);
  // An object of another realm (jest, vm) has a different prototype, which itself has no prototype.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
