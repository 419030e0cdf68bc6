import type pg from 'pg';
import { describeError, HoldfastError, isErrorNamed } from '../../model/errors.js';
import { wrongOption } from '../../model/options.js';
import { Secrets } from '../connection-secrets.js';
import type { PostgresSettings } from '../contract/database-source.js';

/** Settings that are no secrets, so errors may repeat their values. Every other setting counts as a secret. */
const publicSettings = new Set(
  (
    'host port user database db ssl sslmode sslcert sslkey sslrootcert sslnegotiation uselibpqcompat application_name ' +
    'fallback_application_name client_encoding encoding keepAlive keepAliveInitialDelayMillis statement_timeout ' +
    'lock_timeout query_timeout idle_in_transaction_session_timeout connectionTimeoutMillis connect_timeout ' +
    'max min maxUses maxLifetimeSeconds idleTimeoutMillis allowExitOnIdle target_session_attrs channel_binding'
  ).split(' '),
);

/** A Postgres server. Opens connections, and removes secrets from errors. */
export class Server {
  /** The address of the server for messages. It does not depend on the password. */
  readonly where: string;
  /** The database name, as the driver reads the settings. Without a name in the settings it is the name of the user. */
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
        ? { ...config, password: this.rememberPasswords(config.password as () => unknown) }
        : config;
    this.Client = clientKeepingPassword((Client as typeof pg.Client | undefined) ?? driver.Client, this.config);
    if (typeof url === 'string') {
      checkUrl(url);
      for (const each of secretsIn(url)) this.secrets.add(each);
    }
    for (const [name, value] of Object.entries(config)) {
      if (name !== 'connectionString' && !publicSettings.has(name) && typeof value !== 'function')
        this.secrets.add(value);
    }
    const { user, host = '', port, database } = this.unconnectedClient();
    const isSocket = host.startsWith('/');
    // If the user name contains a colon, most likely the colon before the password was percent-encoded by mistake.
    const colon = /^(.*?)(?::|%(?:25)*3a)(.*)$/is.exec(user ?? '');
    if (colon) this.secrets.add(colon[2]);
    this.database = database ?? '';
    for (const shown of [colon ? '' : user, host, String(port), this.database]) this.secrets.addShown(shown ?? '');
    const address = isSocket ? '' : `${host.includes(':') ? `[${host}]` : host}:${port}`;
    this.where =
      `postgres://${colon ? '***' : encodeURIComponent(user ?? '')}@${address}/${encodeURIComponent(this.database)}` +
      (isSocket ? `?host=${host}` : '');
  }

  /** Returns a client that is not connected yet. `database` selects another database of the server. */
  client(extra: pg.ClientConfig, database?: string): pg.Client {
    const client = this.withTypedErrors(() => new this.Client(this.merged(extra)));
    if (database === undefined) return client;
    // The database is set on the client, because in the settings a URL takes precedence.
    const { connectionParameters } = client as unknown as { connectionParameters: { database: string } };
    connectionParameters.database = database;
    return Object.assign(client, { database });
  }

  pool(extra: pg.PoolConfig): pg.Pool {
    return new this.driver.Pool({ ...this.merged(extra), Client: this.Client as never });
  }

  /** Calls the function `onConnect` of the settings with an open connection. */
  async prepare(client: pg.ClientBase): Promise<void> {
    const { onConnect } = this.config;
    if (typeof onConnect !== 'function') return;
    try {
      await onConnect(client);
    } catch (error) {
      // A TypeError of the driver means a refused statement. A TypeError of `onConnect` means a failed connection.
      throw isErrorNamed(error, 'TypeError', 'RangeError') ? failedFunction('onConnect', error) : error;
    }
  }

  /** Returns a client that is never connected. Its properties show how the driver reads the settings. */
  private unconnectedClient(): pg.Client {
    const client = this.client({});
    const { connection } = client as unknown as { connection?: { on?: unknown } };
    if (typeof connection?.on === 'function') return client;
    throw wrongOption('launch(), connect()', 'database', 'must be a Pool of pg itself, not of pg.native');
  }

  /**
   * Wraps the password function, and keeps each password to recognize it in errors. If the function fails, only the
   * message of its error is kept: an error of an HTTP client contains the request, with credentials in its headers.
   */
  private rememberPasswords(password: (...args: unknown[]) => unknown): (...args: unknown[]) => Promise<unknown> {
    return async (...args) => {
      let token: unknown;
      try {
        token = await password(...args);
      } catch (error) {
        throw failedFunction('password', error);
      }
      this.secrets.addShortLived(token);
      return token;
    };
  }

  private merged(extra: pg.ClientConfig): pg.ClientConfig {
    const { onConnect, ...config } = this.config;
    const name = config.application_name;
    return { ...config, ...extra, ...(typeof name === 'string' && { application_name: name }) };
  }

  /**
   * Returns the error itself, or a replacement without secrets if the error may contain a secret.
   * Every error of the driver or the server passes through this method.
   */
  tell(error: unknown): unknown {
    return this.secrets.redact(error);
  }

  /** Lets the driver read the settings. Throws a typed error if the driver cannot read them. */
  private withTypedErrors<T>(make: () => T): T {
    try {
      return make();
    } catch (error) {
      const { code, path } = error as { code?: unknown; path?: unknown };
      if (typeof path === 'string' && (code === 'ENOENT' || code === 'EACCES')) {
        throw new HoldfastError(
          'DATABASE_URL_INVALID',
          `A file in the settings of the database (sslrootcert, sslcert or sslkey) cannot be read (${code}). ` +
            'Check the path and the permissions of the file.',
        );
      }
      // The error of the driver may contain the whole URL with the password.
      throw this.config.connectionString === undefined ? unusableSettings() : unparsableUrl();
    }
  }
}

/**
 * Returns the credentials of the settings, for a listen URL without credentials.
 * The TLS settings belong to them, so that the listener never connects without the TLS of the other connections.
 */
export function credentialsOf({ config }: PostgresSettings): PostgresSettings['config'] {
  const { password, ssl, sslnegotiation } = config;
  const given = Object.entries({ password, ssl, sslnegotiation }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given);
}

/**
 * Returns a client class that keeps the password of the settings. If the settings also have a `connectionString`, pg
 * ignores their password, even if the URL has no password. A user may need both: a URL from the environment, and a
 * function for tokens.
 */
function clientKeepingPassword(
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

function unparsableUrl(): HoldfastError {
  return new HoldfastError(
    'DATABASE_URL_INVALID',
    'The postgres:// URL cannot be parsed. Write it as "postgres://user:password@host:5432/name", with special ' +
      'characters in user and password percent-encoded ("@" as %40, "/" as %2F, "?" as %3F, "#" as %23, ":" as %3A).',
  );
}

function failedFunction(name: string, error: unknown): Error {
  return new Error(`the function \`${name}\` failed: ${describeError(error)}`);
}

function unusableSettings(): HoldfastError {
  return new HoldfastError(
    'DATABASE_URL_INVALID',
    'The driver (pg) cannot use the settings in the option "database". Check the settings, including the functions ' +
      '`stream` and `Client`. The error is not shown, because it may contain a password.',
  );
}

function checkUrl(url: string): void {
  if (!isUnambiguous(url)) throw unparsableUrl();
  if (!namesSeveralHosts(url)) return;
  throw new HoldfastError(
    'DATABASE_URL_INVALID',
    'The postgres:// URL names several hosts, but the driver (pg) supports only one. ' +
      'Use an address that always leads to the primary: a name or a virtual address that a failover moves, or a proxy.',
  );
}

/**
 * Returns false if the URL may contain a part of a password in an unexpected place. In
 * `postgres://user:12/34@host/name` the path begins inside the password, because the password is not percent-encoded.
 * Therefore an "@" after the host and port is allowed only in the value of a parameter that may contain one. A "#" is
 * never allowed there.
 */
function isUnambiguous(url: string): boolean {
  if (url.startsWith('/')) return !url.includes('@');
  const [, afterHost = ''] = /^(?:postgres(?:ql)?|socket):\/\/[^/?#]*(.*)$/s.exec(url) ?? [undefined, '@'];
  const [, path = '', query = ''] = /^([^?#]*)(?:\?([^#]*))?/s.exec(afterHost) ?? [];
  if (path.includes('@') || afterHost.includes('#')) return false;
  return query.split('&').every((each) => {
    const [name = '', ...value] = each.split('=');
    return (
      !name.includes('@') && (!value.join('=').includes('@') || /^(user|password|options|application_name)$/.test(name))
    );
  });
}

/** Returns true for a URL such as `postgres://a,b/name`. The driver would look for one host with the name "a,b". */
function namesSeveralHosts(url: string): boolean {
  const hosts = /^[^/]*\/\/(?:[^/?]*@)?([^/?]*)/.exec(url)?.[1] ?? '';
  return hosts.includes(',') || /[?&]host=[^&]*(,|%2C)/i.test(url);
}

/** Returns the password of the URL, and the values of all parameters that may be secrets. */
function secretsIn(url: string): string[] {
  const password = /^[^/]*\/\/[^/?#:]*:([^/?#]*)@/.exec(url)?.[1];
  const parameters = (/\?([^#]*)/.exec(url)?.[1] ?? '').split('&');
  const secret = parameters.flatMap((each) => {
    const at = each.indexOf('=');
    return publicSettings.has(each.slice(0, Math.max(at, 0))) ? [] : [each.slice(at + 1)];
  });
  return [...(password === undefined ? [] : [password]), ...secret];
}
