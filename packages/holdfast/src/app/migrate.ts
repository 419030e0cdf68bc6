import type { DatabaseOption } from '../model/database.js';
import { checkLogger, type Logger } from '../model/logger.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { checkCompat, checkSchema, databaseOf, openStorage } from '../storage/open.js';

export interface MigrateOptions {
  /** As for `launch`, without `sqlite::memory:`. Default: HOLDFAST_DATABASE_URL, else DBOS_SYSTEM_DATABASE_URL. */
  readonly database?: DatabaseOption | undefined;
  /** Schema of the system tables on Postgres (default `dbos`). */
  readonly schema?: string;
  /** `false`, on Postgres: creates no trigger that announces messages (default true). */
  readonly triggers?: boolean;
  /**
   * Who else uses a Postgres database: with `'none'` indexes are dropped that only DBOS applications need, with `'shared'` they are
   * built again, both online. Default: the layout stays as it is.
   */
  readonly compat?: 'shared' | 'none' | undefined;
  /** Any object with debug, info, warn and error. Default: warnings and errors on standard error. */
  readonly logger?: Logger;
}

/**
 * Creates the tables, or brings them up to date, as `launch` does, and runs nothing: for a deployment whose processes launch
 * with `migrate: false` and a role that may not change tables. A database that is up to date is left as it is.
 */
export async function migrate(options: MigrateOptions = {}): Promise<void> {
  checkKnownOptions('migrate()', options, ['database', 'schema', 'triggers', 'compat', 'logger']);
  const { schema = 'dbos', triggers = true } = options;
  checkSchema('migrate()', schema);
  const logger = checkLogger('migrate()', options.logger);
  if (typeof triggers !== 'boolean') throw invalidOption('migrate()', 'triggers', triggers, 'true or false');
  const { max: _, ...source } = databaseOf('migrate()', options);
  const compat = checkCompat('migrate()', options.compat);
  const terms = { schema, triggers, logger, migrate: true, compat, mayChangeCompat: true };
  const storage = await openStorage({ ...source, ...terms, applicationName: 'migrate' });
  await storage.close();
}
