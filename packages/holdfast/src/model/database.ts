/** A Pool of `pg`, from any copy of that package. Its settings are used; its connections are not, and it is never closed. */
interface PostgresPool {
  readonly options: object;
  readonly totalCount: number;
  connect(...args: never[]): unknown;
  query(...args: never[]): unknown;
}

/** What `new Pool()` of `pg` takes, as far as it says where the server is and how to get in. */
interface PostgresConfig {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly user?: string | undefined;
  /** A function is asked for each connection: for tokens that change. */
  readonly password?: string | (() => string | Promise<string>) | undefined;
  readonly database?: string | undefined;
  readonly connectionString?: string | undefined;
  readonly ssl?: boolean | object | undefined;
  readonly options?: string | undefined;
  readonly stream?: unknown;
  readonly application_name?: string | undefined;
  readonly keepAliveInitialDelayMillis?: number | undefined;
  readonly maxLifetimeSeconds?: number | undefined;
  /** As `poolSize`. */
  readonly max?: number | undefined;
}

interface Listening {
  /**
   * A URL that leads to the same database without a pooler in between: the one connection that listens goes there, where
   * those that work go through a pooler in transaction mode.
   */
  readonly listen?: string | undefined;
}

/** Where the database is: a URL, a Pool of `pg`, or what such a pool is made of. */
export type DatabaseOption =
  | string
  | PostgresPool
  | PostgresConfig
  | (Listening & { readonly url: string })
  | (Listening & { readonly config: PostgresConfig })
  | (Listening & { readonly pool: PostgresPool });
