import { closedError, HoldfastError, isHoldfastError } from '../model/errors.js';
import type { Logger } from '../model/logger.js';
import { wrongOption } from '../model/options.js';
import { storageInTransaction } from './caller/in-transaction.js';
import type { DatabaseSource } from './contract/database-source.js';
import { databaseFailedError, isDatabaseError, unusableError } from './contract/failure.js';
import type { StatementProbe } from './contract/probe.js';
import type { Storage } from './contract/storage.js';
import type { Database, Statement, Statements } from './database.js';
import { isPostgresUrl } from './database-option.js';
import type { Compat } from './migrations/compat.js';
import { SqlDeletions } from './sql/deletions.js';
import { SqlEvents } from './sql/events.js';
import { SqlExecutors } from './sql/executors.js';
import { SqlForks } from './sql/forks.js';
import { SqlMessages } from './sql/messages.js';
import { SqlQueues } from './sql/queues.js';
import { SqlRetries } from './sql/retries.js';
import { SqlSchedules } from './sql/schedules.js';
import { SqlSteps } from './sql/steps.js';
import { SqlStreams } from './sql/streams.js';
import { SqlTakeovers } from './sql/takeovers.js';
import { SqlVersions } from './sql/versions.js';
import { SqlWorkflows } from './sql/workflows.js';

export { databaseFromEnvironment } from './database-environment.js';
export { databaseOf } from './database-option.js';
export { type Compat, checkCompat } from './migrations/compat.js';
export { checkPoolSize } from './postgres/connect.js';
export { checkSchema } from './postgres/identifiers.js';
export { schemaSql } from './schema-sql.js';

export interface StorageOptions extends DatabaseSource {
  /** The schema of the system tables on Postgres; a SQLite file has no schemas. */
  readonly schema: string;
  readonly migrate: boolean;
  /** False, on Postgres: works without the trigger that announces messages. */
  readonly triggers?: boolean;
  /** True, on Postgres: the role must have every right that a process needs to run workflows. */
  readonly checksRights?: boolean;
  /** On Postgres: the layout of the tables. Absent: the layout stays as it is. */
  readonly compat?: Compat | undefined;
  /** True: a layout that was chosen before may be changed. */
  readonly mayChangeCompat?: boolean;
  readonly logger: Logger;
  readonly applicationName: string;
  /** How long to wait for the answer to a statement on Postgres, instead of the default. */
  readonly answerTimeoutMs?: number;
  /**
   * The maximum number of connections to Postgres, at least two. The connection that listens and the connection for
   * blocked statements are not counted.
   */
  readonly poolSize?: number;
  readonly probe?: StatementProbe;
}

/**
 * Opens the database of a URL or of settings. Creates or migrates its tables, or verifies them with `migrate: false`.
 */
export async function openStorage(options: StorageOptions): Promise<Storage> {
  const database = withTypedErrors(await openDatabase(options));
  const impatient: Database = { ...database, ...database.impatient };
  return {
    workflows: new SqlWorkflows(database),
    steps: new SqlSteps(database),
    versions: new SqlVersions(database),
    executors: new SqlExecutors(database),
    takeovers: new SqlTakeovers(database),
    forks: new SqlForks(database),
    retries: new SqlRetries(database),
    deletions: new SqlDeletions(database),
    queues: new SqlQueues(database),
    schedules: new SqlSchedules(database),
    messages: new SqlMessages(database),
    events: new SqlEvents(database),
    streams: new SqlStreams(database),
    impatient: {
      workflows: new SqlWorkflows(impatient),
      queues: new SqlQueues(impatient),
      steps: new SqlSteps(impatient),
      messages: new SqlMessages(impatient),
    },
    writeLanes: database.writeLanes,
    classify: (error) => database.classify(error),
    now: () => database.now(),
    changeCounter: () => database.changeCounter(),
    lostConnections: () => database.lostConnections(),
    silentMessages: database.silentMessages === true,
    announce: (topics) => database.announce(topics),
    inTransaction: (tx) => storageInTransaction(database, tx),
    listen: (callbacks) => database.listen(callbacks),
    close: () => database.close(),
  };
}

/**
 * Wraps the database so that it throws typed errors, whatever the driver throws. After `close`, every call fails with
 * APP_CLOSED. A failure that is caused by the database, and not by the data, becomes DATABASE_FAILED.
 */
function withTypedErrors(database: Database): Database {
  let closed = false;
  const run = async <R>({ name }: Pick<Statement, 'name'>, work: () => Promise<R>): Promise<R> => {
    if (closed) throw closedError();
    return work().catch((error: unknown) => {
      const failure = database.classify(error);
      if (failure === 'refused' || isHoldfastError(error)) throw error;
      throw failure === 'unusable' ? unusableError(name, error) : databaseFailedError(name, failure, error);
    });
  };
  const typed = (statements: Statements): Statements => ({
    query: (statement, params) => run(statement, () => statements.query(statement, params)),
    batch: (statement, shared, rows) => run(statement, () => statements.batch(statement, shared, rows)),
    write: (statement, shared, rows) => run(statement, () => statements.write(statement, shared, rows)),
  });
  return {
    dialect: database.dialect,
    writeLanes: database.writeLanes,
    ...(database.silentMessages && { silentMessages: true }),
    ...typed(database),
    ...(database.impatient && { impatient: typed(database.impatient) }),
    classify: (error) => database.classify(isDatabaseError(error) ? error.cause : error),
    now: () => run({ name: 'now' }, () => database.now()),
    checkFile: () => database.checkFile?.(),
    changeCounter: () => database.changeCounter(),
    lostConnections: () => database.lostConnections(),
    announce: (topics, query) => run({ name: 'announce' }, () => database.announce(topics, query)),
    listen: (callbacks) => database.listen(callbacks),
    close: () => {
      closed = true;
      return database.close();
    },
  };
}

async function openDatabase(options: StorageOptions): Promise<Database> {
  const { url = '', settings } = options;
  if (settings || isPostgresUrl(url)) {
    const { openPostgres } = await import('./postgres/database.js');
    return openPostgres(options);
  }
  if (options.compat !== undefined) {
    throw wrongOption(options.applicationName, 'compat', 'is for Postgres only: a SQLite file has only one layout');
  }
  // The URL scheme of SQLAlchemy: it asks for this library instead of the SQLite of Node.
  const plain = url.replace(/^sqlite\+better-sqlite3:/, 'sqlite:');
  const path = sqlitePath(plain);
  // The URL of a server may have the scheme of SQLite by mistake. Its rest is not a path: the password must not become
  // a file name.
  if (path === undefined || path.includes('://') || /^sqlite:\/\/[^/].*@/.test(plain)) throw invalidUrl(url);
  const { openSqlite } = await import('./sqlite/database.js');
  const driver = plain === url ? undefined : 'better-sqlite3';
  return openSqlite({ ...options, path, pathHint: threeSlashesHint(plain), driver });
}

/**
 * Returns the path of `sqlite:file`, `sqlite:///absolute/file` or `sqlite::memory:`. In `sqlite:///name.sqlite` and
 * `sqlite:///./name.sqlite` the file is relative, as in DBOS and SQLAlchemy: users do not mean a file in the root
 * directory. With four slashes any path is absolute.
 */
function sqlitePath(url: string): string | undefined {
  const path = /^sqlite:(?:\/\/)?(.+)$/.exec(url)?.[1];
  return url.startsWith('sqlite:///') ? path?.replace(/^\/(?=[^/]+$|\/|\.\.?\/)/, '') : path;
}

/**
 * A hint for a file that cannot be opened: DBOS and SQLAlchemy look for `sqlite:///data/shop.sqlite` in the working
 * directory.
 */
function threeSlashesHint(url: string): string {
  const rest = /^sqlite:\/\/\/([^/].*)$/.exec(url)?.[1];
  return rest?.includes('/') ? ` For a file in the working folder, write "sqlite:${rest}".` : '';
}

/**
 * Schemes that users try. The error for an invalid URL shows only its scheme, and only if it is one of these. The rest
 * may contain a password anywhere.
 */
const otherSchemes = /^(postgres|postgresql|mysql|mariadb|mongodb|mssql|sqlserver|redis|libsql|http|https|file|jdbc):/i;

const postgresHint = ' Begin the URL with "postgres://" in lower case, with both slashes.';

/** A misspelled scheme is not shown either. */
function otherHint(url: string): string {
  return /^(?!file:)[^/]+:\/\//i.test(url) ? ' Check the part before "://".' : ' A path begins with "sqlite:".';
}

function invalidUrl(url: string): HoldfastError {
  const scheme = otherSchemes.exec(url)?.[1]?.toLowerCase();
  const isFile = scheme === undefined || scheme === 'file';
  const isPostgres = scheme?.startsWith('postgres');
  const path = isFile ? /^(?:file:(?:\/\/)?)?([\w./-]+\.(?:sqlite3?|db3?))$/i.exec(url)?.[1] : undefined;
  const hint =
    path !== undefined ? ` Did you mean "sqlite:${path}"?` : isFile ? otherHint(url) : isPostgres ? postgresHint : '';
  return new HoldfastError(
    'DATABASE_URL_INVALID',
    `The database URL ${scheme ? `with the scheme "${scheme}:" ` : ''}is not one that Holdfast understands. ` +
      `Use "postgres://user:password@host:5432/name", "sqlite:path/to/file" or "sqlite::memory:".${hint}`,
    { details: { scheme: scheme ?? null } },
  );
}
