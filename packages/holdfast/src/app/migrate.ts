import type { DatabaseOption } from '../model/database.js';
import { checkLogger, type Logger } from '../model/logger.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { checkCompat, checkSchema, databaseOf, openStorage } from '../storage/open.js';

/** Options of `migrate()`. */
export interface MigrateOptions {
  /**
   * The database, as for `launch()`, except `sqlite::memory:`. Default: HOLDFAST_DATABASE_URL, else
   * DBOS_SYSTEM_DATABASE_URL.
   */
  readonly database?: DatabaseOption | undefined;
  /** Schema of the system tables on Postgres. Default: `dbos`. */
  readonly schema?: string;
  /** `false`, on Postgres: creates no trigger that announces messages. Default: true. */
  readonly triggers?: boolean;
  /**
   * On Postgres: `'none'` drops the indexes that only DBOS applications need. `'shared'` builds them again. Both run
   * online. Default: no change.
   */
  readonly compat?: 'shared' | 'none' | undefined;
  /**
   * Any object with the methods debug, info, warn and error. Default: writes warnings and errors to standard error.
   */
  readonly logger?: Logger;
}

/**
 * Creates the tables of a database, or brings them up to date, and runs no workflows. Use it in a deployment whose
 * processes launch with `migrate: false`, because their role may not change tables. It does nothing if the database is
 * up to date.
 *
 * @example
 * await migrate({ database: process.env.ADMIN_DATABASE_URL });
 * // later, in each process, with a role that may not change tables:
 * const app = await launch({ name: 'shop', workflows: [checkout], migrate: false });
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
