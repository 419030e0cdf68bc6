import { closedError, HoldfastError } from '../model/errors.js';
import type { Logger } from '../model/logger.js';
import type { Database } from './database.js';
import type { StatementProbe } from './probe.js';
import { SqlEvents } from './sql/events.js';
import { SqlMessages } from './sql/messages.js';
import { SqlQueues } from './sql/queues.js';
import { SqlSchedules } from './sql/schedules.js';
import { SqlSteps } from './sql/steps.js';
import { SqlStreams } from './sql/streams.js';
import { SqlVersions } from './sql/versions.js';
import { SqlWorkflows } from './sql/workflows.js';
import type { Storage } from './storage.js';
import { storageWithin } from './within.js';

export { checkSchema } from './postgres/identifiers.js';

export interface StorageOptions {
  readonly url: string;
  /** Schema of the system tables on Postgres; a SQLite file has none. */
  readonly schema: string;
  readonly migrate: boolean;
  readonly logger: Logger;
  readonly applicationName: string;
  /** How long an unanswered statement is waited for on Postgres, in place of the default. */
  readonly answerTimeoutMs?: number;
  readonly probe?: StatementProbe;
}

/** Opens the database behind a URL, with its schema in place (or verified, with `migrate: false`). */
export async function openStorage(options: StorageOptions): Promise<Storage> {
  const database = untilClosed(await openDatabase(options));
  return {
    workflows: new SqlWorkflows(database),
    steps: new SqlSteps(database),
    versions: new SqlVersions(database),
    queues: new SqlQueues(database),
    schedules: new SqlSchedules(database),
    messages: new SqlMessages(database),
    events: new SqlEvents(database),
    streams: new SqlStreams(database),
    writeLanes: database.writeLanes,
    classify: (error) => database.classify(error),
    now: () => database.now(),
    changeCounter: () => database.changeCounter(),
    announce: (topics) => database.announce(topics),
    within: (tx) => storageWithin(database, tx),
    hear: (hearing) => database.hear(hearing),
    close: () => database.close(),
  };
}

/** The same database; after its end each call fails with a typed error, not with whatever the driver throws then. */
function untilClosed(database: Database): Database {
  let closed = false;
  const ifOpen = <R>(work: () => Promise<R>): Promise<R> => (closed ? Promise.reject(closedError()) : work());
  return {
    dialect: database.dialect,
    writeLanes: database.writeLanes,
    query: (statement, params) => ifOpen(() => database.query(statement, params)),
    batch: (statement, shared, rows) => ifOpen(() => database.batch(statement, shared, rows)),
    classify: (error) => database.classify(error),
    now: () => ifOpen(() => database.now()),
    changeCounter: () => database.changeCounter(),
    announce: (topics, by) => ifOpen(() => database.announce(topics, by)),
    hear: (hearing) => database.hear(hearing),
    close: () => {
      closed = true;
      return database.close();
    },
  };
}

async function openDatabase(options: StorageOptions): Promise<Database> {
  const { url } = options;
  if (/^postgres(ql)?:\/\//.test(url)) {
    const { openPostgres } = await import('./postgres/database.js');
    return openPostgres(options);
  }
  const path = sqlitePath(url);
  if (path === undefined) throw invalidUrl(url);
  const { openSqlite } = await import('./sqlite/database.js');
  return openSqlite({ ...options, path });
}

/** `sqlite:file`, `sqlite:///absolute/file` or `sqlite::memory:`. */
function sqlitePath(url: string): string | undefined {
  const match = /^sqlite:(?:\/\/)?(.+)$/.exec(url);
  return match?.[1];
}

function invalidUrl(url: string): HoldfastError {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1];
  // No scheme, or `file:`: probably the path of a SQLite file.
  const path = scheme === undefined ? url : scheme === 'file' ? url.replace(/^file:(\/\/)?/, '') : undefined;
  const hint = path === undefined ? '' : ` Did you mean "sqlite:${path}"?`;
  return new HoldfastError(
    'DATABASE_URL_INVALID',
    `The database URL ${scheme ? `with the scheme "${scheme}:" ` : ''}is not one that Holdfast understands. ` +
      `Use "postgres://user:password@host:5432/name", "sqlite:path/to/file" or "sqlite::memory:".${hint}`,
    { details: { scheme: scheme ?? null } },
  );
}
