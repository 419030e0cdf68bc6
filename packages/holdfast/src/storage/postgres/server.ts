import type pg from 'pg';
import { describeError, HoldfastError, isErrorNamed } from '../../model/errors.js';
import { misplacedOption } from '../../model/options.js';
import { Secrets } from '../connection-secrets.js';
import type { PostgresSettings } from '../database-option.js';

/** Settings that are no secret, and that errors may repeat. Whatever is not in this list is taken for one. */
const harmless = new Set(
  (
    'host port user database db ssl sslmode sslcert sslkey sslrootcert sslnegotiation uselibpqcompat application_name ' +
    'fallback_application_name client_encoding encoding keepAlive keepAliveInitialDelayMillis statement_timeout ' +
    'lock_timeout query_timeout idle_in_transaction_session_timeout connectionTimeoutMillis connect_timeout ' +
    'max min maxUses maxLifetimeSeconds idleTimeoutMillis allowExitOnIdle target_session_attrs channel_binding'
  ).split(' '),
);

/** A server of Postgres: opens connections, and knows what may be said of them. */
export class Server {
  /** Where it is, for messages: without the password, and the same whatever the password is. */
  readonly where: string;
  /** The database, as the driver reads the settings. Where they name none, that is the name of the user. */
  readonly database: string;
  private readonly secrets = new Secrets();

  private readonly config: Readonly<Record<string, unknown>>;
  private readonly Client: typeof pg.Client;

  constructor(
    private readonly driver: typeof pg,
    { config, Client }: PostgresSettings,
  ) {
    const url = config.connectionString;
    this.config =
      typeof config.password === 'function'
        ? { ...config, password: this.asked(config.password as () => unknown) }
        : config;
    this.Client = clientClass((Client as typeof pg.Client | undefined) ?? driver.Client, this.config);
    if (typeof url === 'string') {
      checkUrl(url);
      for (const each of secretsIn(url)) this.secrets.add(each);
    }
    for (const [name, value] of Object.entries(config)) {
      if (name !== 'connectionString' && !harmless.has(name) && typeof value !== 'function') this.secrets.add(value);
    }
    const { user, host = '', port, database } = this.probe();
    const isSocket = host.startsWith('/');
    // A user that holds a colon is, most likely, one whose password was encoded with the colon before it.
    const colon = /^(.*?)(?::|%(?:25)*3a)(.*)$/is.exec(user ?? '');
    if (colon) this.secrets.add(colon[2]);
    this.database = database ?? '';
    for (const shown of [colon ? '' : user, host, String(port), this.database]) this.secrets.addShown(shown ?? '');
    const address = isSocket ? '' : `${host.includes(':') ? `[${host}]` : host}:${port}`;
    this.where =
      `postgres://${colon ? '***' : encodeURIComponent(user ?? '')}@${address}/${encodeURIComponent(this.database)}` +
      (isSocket ? `?host=${host}` : '');
  }

  /** A connection that is yet to be opened; to another database of the server, if that is given. */
  client(more: pg.ClientConfig, database?: string): pg.Client {
    const client = this.parsed(() => new this.Client(this.merged(more)));
    if (database === undefined) return client;
    // Not among the settings, where a URL would prevail.
    const { connectionParameters } = client as unknown as { connectionParameters: { database: string } };
    connectionParameters.database = database;
    return Object.assign(client, { database });
  }

  pool(more: pg.PoolConfig): pg.Pool {
    return new this.driver.Pool({ ...this.merged(more), Client: this.Client as never });
  }

  /** What the settings have to say to a connection that has been opened. */
  async prepare(client: pg.ClientBase): Promise<void> {
    const { onConnect } = this.config;
    if (typeof onConnect !== 'function') return;
    try {
      await onConnect(client);
    } catch (error) {
      // A TypeError of the driver means a refused statement. This one means that there is no connection.
      throw isErrorNamed(error, 'TypeError', 'RangeError') ? failedFunction('onConnect', error) : error;
    }
  }

  /** One that is never opened. */
  private probe(): pg.Client {
    const client = this.client({});
    const { connection } = client as unknown as { connection?: { on?: unknown } };
    if (typeof connection?.on === 'function') return client;
    throw misplacedOption('launch(), connect()', 'database', 'must be a Pool of pg itself, and not of pg.native');
  }

  /**
   * Asks for a password, and keeps it to recognize it. Of a failure only the message is told: errors of HTTP clients carry the
   * request, with the credentials in its headers.
   */
  private asked(password: (...args: unknown[]) => unknown): (...args: unknown[]) => Promise<unknown> {
    return async (...args) => {
      let token: unknown;
      try {
        token = await password(...args);
      } catch (error) {
        throw failedFunction('password', error);
      }
      this.secrets.addPassing(token);
      return token;
    };
  }

  private merged(more: pg.ClientConfig): pg.ClientConfig {
    const { onConnect, ...config } = this.config;
    const name = config.application_name;
    return { ...config, ...more, ...(typeof name === 'string' && { application_name: name }) };
  }

  /** The error itself, or what may be told of it: everything that a driver or server says passes here. */
  tell(error: unknown): unknown {
    return this.secrets.tell(error);
  }

  /** The driver has read the settings, or a typed error says why it could not. */
  private parsed<T>(make: () => T): T {
    try {
      return make();
    } catch (error) {
      const { code, path } = error as { code?: unknown; path?: unknown };
      if (typeof path === 'string' && (code === 'ENOENT' || code === 'EACCES')) {
        throw new HoldfastError(
          'DATABASE_URL_INVALID',
          `A file that the settings of the database name (sslrootcert, sslcert or sslkey) cannot be read (${code}).`,
        );
      }
      // What the driver threw may have the whole URL in it, with the password.
      throw this.config.connectionString === undefined ? unusable() : unparsable();
    }
  }
}

/** How to get into the database, where the URL to listen at says nothing of it: never without the TLS of the others. */
export function credentialsOf({ config }: PostgresSettings): PostgresSettings['config'] {
  const { password, ssl, sslnegotiation } = config;
  const given = Object.entries({ password, ssl, sslnegotiation }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given);
}

/**
 * Beside a `connectionString` pg forgets the password of its settings, for want of one in the URL as well. Whoever gives
 * both (a URL from the environment, and a function for its tokens) means both.
 */
function clientClass(
  Client: typeof pg.Client,
  { connectionString, password }: Record<string, unknown>,
): typeof pg.Client {
  const isForgotten = password !== undefined && typeof connectionString === 'string' && !hasPassword(connectionString);
  if (!isForgotten) return Client;
  return class extends Client {
    constructor(config?: string | pg.ClientConfig) {
      super(config);
      const { connectionParameters } = this as unknown as { connectionParameters: object };
      for (const each of [this, connectionParameters]) Object.assign(each, { password });
    }
  };
}

function hasPassword(url: string): boolean {
  return /^[^/]*\/\/[^/?#:]*:[^/?#]+@/.test(url) || /[?&]password=./.test(url);
}

function unparsable(): HoldfastError {
  return new HoldfastError(
    'DATABASE_URL_INVALID',
    'The postgres:// URL cannot be parsed. Write it as "postgres://user:password@host:5432/name", with special ' +
      'characters in user and password percent-encoded ("@" as %40, "/" as %2F, "?" as %3F, "#" as %23, ":" as %3A).',
  );
}

function failedFunction(name: string, error: unknown): Error {
  return new Error(`the function \`${name}\` failed: ${describeError(error)}`);
}

function unusable(): HoldfastError {
  return new HoldfastError(
    'DATABASE_URL_INVALID',
    'The driver (pg) cannot use the settings in the option "database". Check them, and the functions among them (`stream`, ' +
      '`Client`): the error is not shown, because it may repeat a password.',
  );
}

function checkUrl(url: string): void {
  if (!isClear(url)) throw unparsable();
  if (!namesSeveralHosts(url)) return;
  throw new HoldfastError(
    'DATABASE_URL_INVALID',
    'The postgres:// URL names several hosts, and the driver (pg) knows one at a time. Give it an address that always leads to ' +
      'the primary: a name or a virtual address that a failover moves, or a proxy.',
  );
}

/**
 * Behind host and port of `postgres://user:12/34@host/name` begins a path, and with it the rest of a password that was not
 * encoded: an "@" there belongs in the value of a parameter that may have one, or nowhere. So does a blank.
 */
function isClear(url: string): boolean {
  if (url.startsWith('/')) return !url.includes('@');
  const [, rest = ''] = /^(?:postgres(?:ql)?|socket):\/\/[^/?#]*(.*)$/s.exec(url) ?? [undefined, '@'];
  const [, path = '', query = ''] = /^([^?#]*)(?:\?([^#]*))?/s.exec(rest) ?? [];
  if (path.includes('@') || rest.includes('#')) return false;
  return query.split('&').every((each) => {
    const [name = '', ...value] = each.split('=');
    return (
      !name.includes('@') && (!value.join('=').includes('@') || /^(user|password|options|application_name)$/.test(name))
    );
  });
}

/** Of `postgres://a,b/name` the driver would look for one host of that name. */
function namesSeveralHosts(url: string): boolean {
  const hosts = /^[^/]*\/\/(?:[^/?]*@)?([^/?]*)/.exec(url)?.[1] ?? '';
  return hosts.includes(',') || /[?&]host=[^&]*(,|%2C)/i.test(url);
}

/** The password, and the values of all parameters that are not known to be harmless. */
function secretsIn(url: string): string[] {
  const password = /^[^/]*\/\/[^/?#:]*:([^/?#]*)@/.exec(url)?.[1];
  const parameters = (/\?([^#]*)/.exec(url)?.[1] ?? '').split('&');
  const secret = parameters.flatMap((each) => {
    const at = each.indexOf('=');
    return harmless.has(each.slice(0, Math.max(at, 0))) ? [] : [each.slice(at + 1)];
  });
  return [...(password === undefined ? [] : [password]), ...secret];
}
