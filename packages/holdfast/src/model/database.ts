/**
 * A Pool of `pg`, from any copy of that package. Holdfast uses the settings of the pool, not its connections, and
 * never closes it.
 */
interface PostgresPool {
  readonly options: object;
  readonly totalCount: number;
  connect(...args: never[]): unknown;
  query(...args: never[]): unknown;
}

/** The options of `new Pool()` of `pg` that locate the server and authenticate. */
interface PostgresConfig {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly user?: string | undefined;
  /** A function is called for each new connection, for passwords that change, such as tokens. */
  readonly password?: string | (() => string | Promise<string>) | undefined;
  readonly database?: string | undefined;
  readonly connectionString?: string | undefined;
  readonly ssl?: boolean | object | undefined;
  readonly options?: string | undefined;
  readonly stream?: unknown;
  readonly application_name?: string | undefined;
  readonly keepAliveInitialDelayMillis?: number | undefined;
  readonly maxLifetimeSeconds?: number | undefined;
  /** The same as `poolSize`. */
  readonly max?: number | undefined;
}

interface Listening {
  /**
   * A URL that leads to the same database without a pooler. Give it if the other URL leads through a pooler in
   * transaction mode: the one connection that listens for notifications then uses this URL.
   */
  readonly listen?: string | undefined;
}

/** The database: a URL, a Pool of `pg`, or the options of such a pool. */
export type DatabaseOption =
  | string
  | PostgresPool
  | PostgresConfig
  | (Listening & { readonly url: string })
  | (Listening & { readonly config: PostgresConfig })
  | (Listening & { readonly pool: PostgresPool });
