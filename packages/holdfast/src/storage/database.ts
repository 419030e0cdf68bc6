import type { Failure } from './contract/failure-kind.js';
import type { ListenerCallbacks, Listening } from './contract/listening.js';

/**
 * The operations that the SQL of this folder needs from a database: run a statement, run a statement for many rows, and
 * classify a failure. `postgres/` and `sqlite/` implement these operations; nothing above `storage/` uses them.
 *
 * - `query`: one statement that commits by itself.
 * - `batch`, `write`: one statement for many rows that commits by itself, all rows or none. Postgres receives the columns as
 *   arrays (`unnest`); SQLite runs the statement once per row inside one transaction. The texts differ only in
 *   `dialect.rows`.
 */
export interface Database extends Statements {
  readonly dialect: Dialect;
  /**
   * The same operations for statements that wait only briefly for a lock, one statement at a time. Absent if the
   * database has no row locks.
   */
  readonly impatient?: Statements;
  /** The number of batches that can be written at the same time. 1 if the database allows only one writer. */
  readonly writeLanes: number;
  /**
   * Returns what a failed statement may have done. The result depends on the SQLSTATE or result code, never on the
   * message text.
   */
  classify(error: unknown): Failure;
  /** Returns epoch milliseconds on the clock of the database. */
  now(): Promise<number>;
  /**
   * Checks that the open file is still the file that other processes use. Otherwise this call and every later statement
   * fail, until the original file is back in place. Absent if a server is responsible for this.
   */
  checkFile?(): void;
  /** Returns a number that changes when another process commits, or null if the database cannot tell cheaply. */
  changeCounter(): number | null;
  /** True: messages of DBOS and of SQL clients are not announced, so they must be found by polling. */
  readonly silentMessages?: boolean;
  /** Returns how often a connection to the database was lost so far. The next answer may come from another server. */
  lostConnections(): number;
  /**
   * Announces topics to other processes, see Storage. The given `query` sends the announcement, so it commits together
   * with the transaction of `query`.
   */
  announce(topics: readonly string[], query?: Query): Promise<void>;
  listen(callbacks: ListenerCallbacks): Listening;
  close(): Promise<void>;
}

export interface Statements {
  query(statement: Statement, params: readonly unknown[]): Promise<Row[]>;
  batch<T extends object>(statement: BatchStatement<T>, shared: readonly unknown[], rows: readonly T[]): Promise<Row[]>;
  /**
   * Like `batch`, for a statement without `returning`. Returns how many rows the statement wrote. Reading a
   * list of these rows would cost a process that records steps several percent of its time.
   */
  write<T extends object>(
    statement: BatchStatement<T>,
    shared: readonly unknown[],
    rows: readonly T[],
  ): Promise<number>;
}

/** Returns the statement with one result row for each row that it writes. The number of result rows is the count. */
export function countable<T extends object>(statement: BatchStatement<T>): BatchStatement<T> {
  return { ...statement, text: `${statement.text} returning 1 as written` };
}

export type Row = Record<string, unknown>;
export type Query = (statement: Statement, params: readonly unknown[]) => Promise<Row[]>;

/**
 * A statement. `name` is unique: it names the prepared statement and identifies the statement in counts and at crash
 * points.
 */
export interface Statement {
  readonly name: string;
  readonly text: string;
  /** Distinguishes several texts with the same name. */
  readonly variant?: string;
  /** The text differs between calls, so it cannot be prepared under its name. */
  readonly unprepared?: true;
  /** The statement is planned like a batch: with index probes, even if the planner has no statistics about a table. */
  readonly pinned?: true;
  /**
   * Runs on any free connection, and waits briefly for one before another connection is opened. Used for background
   * statements, so that an idle process needs only one connection. The statement must be fast under all planner
   * settings.
   */
  readonly shared?: true;
  /**
   * A statement that runs first in the same transaction, with the same parameters, to wait for locks and hold them. The
   * main statement starts reading afterwards, so it sees everything that other sessions committed before.
   */
  readonly first?: string;
}

/** A statement over `dialect.rows(columns, first)`, where `first` is the number after the shared parameters. */
export interface BatchStatement<T extends object> extends Statement {
  readonly columns: Columns<T>;
  /**
   * A change of one row, over the shared parameters. The batch does nothing unless this change succeeds; a result row
   * with `held` reports the success. If a query can contain a change, the guard is part of the text instead
   * (`dialect.exclusively`).
   */
  readonly guard?: string;
  /**
   * Further statements for each row that the statement reports as `landed`, in the same transaction and with the same
   * parameters. If a query can contain changes, they are part of the text instead (`dialect.together`).
   */
  readonly also?: readonly string[];
  /** The statement changes nothing, and the rows may be answered one by one. */
  readonly reads?: true;
  /**
   * Runs after the statement in the same transaction, once for each list of rows. Used for rows with more content than
   * the server can process within the time limit of one statement. SQLite has no such limit and does not receive this.
   */
  readonly portions?: { readonly text: string; lists(): Iterable<readonly T[]> };
}

export type Columns<T extends object> = { readonly [K in keyof T]-?: ColumnType };
export type ColumnType = 'text' | 'int' | 'bigint' | 'double' | 'bool' | 'json';

/** The differences between the SQL of the two databases. */
export interface Dialect {
  readonly name: 'postgres' | 'sqlite';
  /** A system table, with its schema, quoted. */
  table(name: string): string;
  /** A row source named `alias` with these columns. Its parameters start at number `first`. */
  rows<T extends object>(alias: string, columns: Columns<T>, first: number): string;
  /** A condition: `expression` is one of the texts in the list parameter, e.g. `anyOf('name', '$1')`. */
  anyOf(expression: string, parameter: string): string;
  /** A row source named `alias` over one parameter that contains a JSON array of objects with these keys. */
  jsonRows(alias: string, columns: Readonly<Record<string, ColumnType>>, parameter: string): string;
  /** Converts a list to the parameter value for `anyOf`. */
  list(values: readonly string[]): unknown;
  /**
   * A join that keeps only rows whose workflow is still PENDING under the given owner, and holds the row of this
   * workflow until commit. Both arguments are column expressions of the row source.
   *
   * Without the lock, or with the weaker lock of a foreign key, a former owner could commit a checkpoint after the new
   * owner has read the history. The new owner would not know the step and would run it twice. With a shared lock, the
   * parallel steps of one owner commit in parallel, while takeover and checkpoint wait for each other.
   */
  fence(workflowId: string, owner: string): string;
  /**
   * A query for the same rows. The planner expects only a thousandth of their number. Without statistics, the planner
   * assumes that every workflow has thousands of children, and multiplies these numbers. A server that compiles
   * expensive statements (JIT) would then spend seconds on a statement that takes a millisecond.
   */
  few(select: string): string;
  /** A join to the children, as alias `c`, of the workflow whose ID the expression gives. */
  children(parentId: string): string;
  /** A condition: the row of this alias is PENDING. For statements that find the row by its primary key. */
  stillPending(alias: string): string;
  /**
   * A condition: the row is PENDING and counts against the limits of its queue. The text matches the index over such
   * rows.
   */
  holdsSlot(alias: string): string;
  /**
   * A condition: the row is PENDING and suspended, so it does not count against the limits of its queue. The text
   * matches the index over such rows.
   */
  isSuspendedRow(alias: string): string;
  /**
   * A condition: these columns equal their values, and another column is greater than its value. The text matches the
   * index over all these columns.
   */
  equalAndAfter(equal: readonly (readonly [string, string])[], after: readonly [string, string]): string;
  /** The order for a SELECT that locks workflows, with this column for their ID; see sql/lock-order.ts. */
  lockOrder(workflowId: string): string;
  /** An expression for a random text that is unique to each row. */
  readonly token: string;
  /** A condition for `together`: the row of a batch of one landed. */
  readonly landed: string;
  /** Row locks for a SELECT that selects rows to change. Empty if the database allows only one writer. */
  readonly forUpdate: string;
  readonly forUpdateSkipLocked: string;
  /** Prevents changes of the rows that a SELECT reads, until commit. */
  readonly forShare: string;
  /** A query with one row if the queue has this lock version and is not paused. Neither changes until commit. */
  holdLockVersion(queue: string, lockVersion: string): string;
  /**
   * A query for the names of existing queues, among those of the given query or among all. These queues are not deleted
   * until commit.
   */
  holdQueues(names?: string): string;
  /**
   * A query by which the deletion of a queue waits for the sessions that hold the queue. Absent if the database allows
   * only one writer.
   */
  readonly closeQueue?: (name: string) => string;
  /** True: the database locks single rows, so two statements can block each other. */
  readonly locksRows: boolean;
  /** The order number of the row at this position of an enqueuing statement, and the query that must precede it. */
  readonly enqueueSeq: { readonly before: string; value(position: string): string };
  /** A guard that is itself a change of one row, and reports in a column `held` whether it succeeded. */
  exclusively(change: string): Guard;
  /**
   * The row source `per_row`. For each row of a batch, whose parameters start at `first`, it contains the first rows of
   * two index ranges, merged. It contains at most as many rows as the column `n` says. The rows are locked; rows that
   * other sessions have locked are skipped.
   */
  perRow<T extends { readonly n: number }>(
    columns: Columns<T>,
    first: number,
    merge: (column: (name: keyof T & string) => string) => Merge,
  ): string;
  /** For RETURNING of an update from `per_row`: whether both index ranges contained waiting rows. */
  mixed(perRow: string): string;
  /**
   * A join, as `alias`, to a SELECT for each row of a batch, over the columns of the row. `each` keeps rows of the
   * batch for which the SELECT finds nothing.
   */
  joined<T extends object>(
    join: { readonly alias: string; readonly each?: true; readonly columns: Columns<T>; readonly first: number },
    select: (column: (name: keyof T & string) => string) => string,
  ): string;
  /** A statement, combined with further statements for those rows of a batch that it reports as `landed`. */
  together(main: string, also: readonly string[]): Pick<BatchStatement<object>, 'text' | 'also'>;
  /** The row source `e` for the statements that `together` adds: {@link EffectList}. */
  effects<T extends object>(list: EffectList<T>): string;
  /** The order in which messages were sent. The text matches the index over unread messages. */
  readonly messageOrder: string;
  /** Epoch milliseconds on the database's clock, at the moment when the expression is evaluated. */
  readonly now: string;
  /**
   * The later of an instant and the database's time. If the two are far apart, the instant comes from another clock (a
   * virtual one) and is used.
   */
  notBeforeNow(instant: string): string;
  /**
   * For RETURNING of an update of workflows `w`: whether the workflow never ran before. The argument is its start time
   * before the update.
   */
  neverRan(startedBefore: string): string;
  /**
   * An expression (`of`): whether a session holds the lock with this key, or null if there are no such locks. `before`
   * is the query that must precede it.
   */
  readonly presence: { readonly before: string; of(key: string): string };
}

/** Two ranges of one index, which are read as if they were one. Each range is a FROM clause with its conditions. */
export interface Merge {
  readonly columns: string;
  readonly stretches: readonly string[];
  /** An additional condition for the rows of both ranges. */
  readonly condition: string;
  readonly order: string;
  /** The order of the index. */
  readonly orderOfStretch: string;
  /** True: the order differs from the index order, because priorities, which come first in the index, do not count. */
  readonly firstCome: boolean;
}

/**
 * The items that rows of a batch list in a JSON column, for the rows that landed. Each item has its own columns, its
 * `position` in the list, and some columns of the row.
 */
export interface EffectList<T extends object> {
  readonly rows: Columns<T>;
  readonly first: number;
  readonly list: keyof T & string;
  readonly columns: Readonly<Record<string, ColumnType>>;
  readonly carry: readonly (keyof T & string)[];
  /** The columns that identify a row in the result of the main statement, and their names in that result. */
  readonly keys: readonly (readonly [keyof T & string, string])[];
}

/** A condition for a statement to do anything. */
export interface Guard {
  /** A query named `guard`, which has a row only if the condition holds. */
  readonly before: string;
  /** The change on which the condition depends, as a separate statement. Used if a query cannot contain a change. */
  readonly guard?: string;
  /** Builds the statement from the preceding queries and the change. */
  wrap(before: string, change: string): string;
}

/** The number of order numbers that one statement reserves: more than it can enqueue. */
export const enqueueBlock = 2 ** 20;

/**
 * A condition on a PENDING row: its owner has suspended the workflow and released its slot. The mark contains the owner
 * token. Therefore the mark is void as soon as another executor takes the workflow over, even one that does not know
 * marks (an older Holdfast, DBOS).
 */
export const isMarkedSuspended = (alias: string): string => `(${alias}.resting_owner = ${alias}.owner_xid)`;

/**
 * A condition: the row waits on a queue. The texts match the index for the whole queue and the index for a partition.
 * On Postgres each text fits only one index. Otherwise the planner, without statistics about the table, could choose an
 * index that leads to all waiting rows.
 */
export const waitingRows = {
  postgres: { onQueue: "status || '' = 'ENQUEUED'", inPartition: "'' || status = 'ENQUEUED'" },
  sqlite: { onQueue: "status = 'ENQUEUED'", inPartition: "status = 'ENQUEUED'" },
} as const;

/** A condition: the row waits and was tried before. As above, the texts match one index each, on both databases. */
export const retriedRows = {
  onQueue: "coalesce(status, '') = 'ENQUEUED' and recovery_attempts > 0",
  inPartition: "coalesce(status, '-') = 'ENQUEUED' and recovery_attempts > 0",
} as const;

/**
 * A condition that is true for every row and that an index over this text column can answer. Holdfast's connections
 * forbid table scans on Postgres. Without a condition for an index, Postgres still scans a small table, but adds 10^10
 * to the estimated cost. A server with JIT then compiles the statement at each execution.
 */
export const everyRow = (key: string): string => `${key} >= ''`;

/** Returns the name under which a prepared statement is kept. */
export function preparedName({ name, variant }: Statement): string {
  return variant === undefined ? name : `${name}.${variant}`;
}
