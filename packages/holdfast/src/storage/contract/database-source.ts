/**
 * The settings for connections to Postgres. `Client` is the class of the connections, if it is not the class of the
 * driver.
 */
export interface PostgresSettings {
  readonly config: Readonly<Record<string, unknown>>;
  readonly Client?: unknown;
}

/** The location of the database, given as `url` or as `settings`. */
export interface DatabaseSource {
  readonly url?: string;
  readonly settings?: PostgresSettings;
  /** The URL for listening, if it differs from the location of the database. */
  readonly listenUrl?: string;
}
