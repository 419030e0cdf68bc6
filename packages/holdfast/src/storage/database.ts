/**
 * What the SQL of this folder needs from a database: run a statement, run a statement for many rows, say what kind
 * of failure an error was. `postgres/` and `sqlite/` implement it; nothing above `storage/` sees it.
 *
 *   query  one statement that commits by itself
 *   batch  one statement for many rows that commits by itself: all rows or none. Postgres sends the columns as arrays
 *          (`unnest`); SQLite runs it once per row inside one transaction. The text is the same but for `dialect.rows`.
 */
export interface Database extends Statements {
  readonly dialect: Dialect;
  /** The same for statements that are to wait for a lock a moment only, and one at a time. Absent: nobody locks rows. */
  readonly impatient?: Statements;
  /** Batches that can be written at the same time: one where writers wait for each other anyway. */
  readonly writeLanes: number;
  /** What a failed statement may have done, judged by SQLSTATE or result code, never by message text. */
  classify(error: unknown): Failure;
  /** Epoch milliseconds on the clock of the database. */
  now(): Promise<number>;
  /**
   * Looks whether what is open is still the database that others use. If not, this and every statement fails until it is again.
   * Absent: the server knows.
   */
  checkPlace?(): void;
  /** A number that changes when another process commits, or null where the database cannot tell cheaply. */
  changeCounter(): number | null;
  /** Whether nothing announces the messages of DBOS and of clients with SQL: they have to be polled for. */
  readonly silentMessages?: boolean;
  /** How often a connection to it was lost so far. What answers next may be another server. */
  breaks(): number;
  /** See Storage: signals to and from other processes. Sent by the given `query`, with whatever that commits with. */
  announce(topics: readonly string[], query?: Query): Promise<void>;
  listen(hearing: ListenerCallbacks): Listening;
  close(): Promise<void>;
}

export interface Statements {
  query(statement: Statement, params: readonly unknown[]): Promise<Row[]>;
  batch<T extends object>(statement: BatchStatement<T>, shared: readonly unknown[], rows: readonly T[]): Promise<Row[]>;
}

/** Hears of changes by other processes: what they announced, or null for "anything may have changed". */
export interface ListenerCallbacks {
  received(topics: readonly string[] | null): void;
  /** Whether it would hear of one at the moment. */
  state(hears: boolean): void;
  /** Channels that were asked for are open from now on. What was announced on them before this moment may be missed. */
  opened?(channels: readonly string[]): void;
  /** Held by what hears, where that is a session with a server: others see by it that this process lives. */
  readonly presence?: Presence | undefined;
}

/** A lock that goes with a session. */
export interface Presence {
  readonly key: string;
  /** Whether others see it held. Never called where sessions, or their locks, mean nothing. */
  held(isHeld: boolean): void;
}

/**
 * Channels among which what concerns few is spread: messages, events and streams. It is heard by those who follow them.
 */
export interface Channels {
  /** By which channel news of a topic comes, from Holdfast or (`byDbos`) from DBOS. */
  channelOf(topic: string, byDbos: boolean): string;
  /** Whether all that is announced on it from now on is heard. */
  isOpen(channel: string): boolean;
  /** Has it opened, if need be, and keeps it open. As often as it is followed it has to be unfollowed. */
  follow(channel: string): void;
  unfollow(channel: string): void;
}

export interface Listening {
  /** Absent: everything is heard anyway. */
  readonly channels?: Channels;
  /** It hears, or it is certain that it does not yet: from now on `heard` says what was missed. */
  readonly ready: Promise<void>;
  stop(): Promise<void>;
}

export type Row = Record<string, unknown>;
export type Query = (statement: Statement, params: readonly unknown[]) => Promise<Row[]>;

/** `name` is unique: it names the prepared statement, and identifies it in counts and at crash points. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  /** Tells several texts under one name apart. */
  readonly variant?: string;
  /** The text varies from call to call, so preparing it under its name would be wrong. */
  readonly unprepared?: true;
  /** To be planned as batches are: by index probes, whatever the planner thinks of a table that it knows nothing of. */
  readonly pinned?: true;
  /**
   * Runs on whichever connection is free, and waits a moment for one before another is opened: for what runs in the
   * background, so that an idle process needs one connection. It must be quick under any settings of the planner.
   */
  readonly shared?: true;
  /**
   * Goes before it in the same transaction, with the same parameters, to wait for locks and hold them. What others had
   * committed by then is seen by the statement itself, which begins to look only afterwards.
   */
  readonly first?: string;
}

/** A statement over `dialect.rows(columns, first)`, where `first` is the number after the shared parameters. */
export interface BatchStatement<T extends object> extends Statement {
  readonly columns: Columns<T>;
  /**
   * A change of one row, over the shared parameters, that must succeed for the batch to do anything; a row `held` then
   * says that it did. Where a query can hold a change it is part of the text instead (`dialect.exclusively`).
   */
  readonly guard?: string;
  /**
   * What else is done for a row of which the statement reports that it `landed`, in the same transaction and with the
   * same parameters. Where a query can hold changes they are part of the text instead (`dialect.together`).
   */
  readonly also?: readonly string[];
  /** It changes nothing, and each row may be answered by itself. */
  readonly reads?: true;
  /**
   * Runs after the statement in the same transaction, once for each list of rows. For rows that hold more than the server
   * can work through in the time that it gives one statement. SQLite has no such limit, and is not given this.
   */
  readonly portions?: { readonly text: string; lists(): Iterable<readonly T[]> };
}

export type Columns<T extends object> = { readonly [K in keyof T]-?: ColumnType };
export type ColumnType = 'text' | 'int' | 'bigint' | 'double' | 'bool' | 'json';

/**
 * - `lost`: the connection broke, or the disk failed, so the statement may or may not have been applied. Read back, or repeat what is
 *   idempotent.
 * - `retry`: certainly not applied, and worth repeating after a pause (deadlock, busy, too many clients, read-only
 *   after a failover).
 * - `held-up`: the same, because another session holds a lock on one of the rows and does not let go of it.
 * - `slow`: the same, because it took longer than the server gives a statement.
 * - `refused`: certainly not applied, and a repeat would fail alike: the data itself is at fault.
 * - `unusable`: certainly not applied, and a repeat would fail alike, whatever the data: the role lacks a right, or a table,
 *   column or function is missing. Only a person can change that.
 */
export type Failure = 'lost' | 'retry' | 'locked' | 'slow' | 'refused' | 'unusable';

/** The places where the two databases' SQL differs. */
export interface Dialect {
  readonly name: 'postgres' | 'sqlite';
  /** A system table, with its schema, quoted. */
  table(name: string): string;
  /** A row source named `alias` with these columns, fed by parameters from number `first` on. */
  rows<T extends object>(alias: string, columns: Columns<T>, first: number): string;
  /** A condition: `expression` is one of the texts in the list parameter, e.g. `anyOf('name', '$1')`. */
  anyOf(expression: string, parameter: string): string;
  /** A row source named `alias` over one parameter that holds a JSON array of objects with these keys. */
  jsonRows(alias: string, columns: Readonly<Record<string, ColumnType>>, parameter: string): string;
  /** The list that goes with `anyOf`, as a parameter value. */
  list(values: readonly string[]): unknown;
  /**
   * A join that keeps only rows whose workflow is still PENDING under the given owner, and holds that owner's row
   * until commit. Both are column expressions of the row source.
   *
   * Without the lock (or with the weaker one that a foreign key takes) an old owner could commit a checkpoint after
   * the new owner had loaded the history: the step would be lost to the new owner and run twice. A shared lock lets
   * one owner's parallel steps commit in parallel and makes takeover and checkpoint wait for each other.
   */
  fence(workflowId: string, owner: string): string;
  /**
   * A query for the same rows, of which the planner expects a thousandth. Without statistics it takes every workflow for the
   * parent of thousands, and multiplies that; a server that compiles expensive statements (JIT) then takes seconds to
   * compile what it answers in a millisecond.
   */
  few(select: string): string;
  /** A join to the children, as alias `c`, of the workflow whose ID the expression gives. */
  children(parentId: string): string;
  /** That the row of this alias is PENDING, for statements that find it by its primary key. */
  stillPending(alias: string): string;
  /** That it is PENDING and counts for the limits of its queue: in the words of the index over such rows. */
  holdsSlot(alias: string): string;
  /** That it is PENDING and does not, because its owner has let go of it while it waits. Likewise. */
  rests(alias: string): string;
  /** That columns equal these values and another is beyond its own: in the words of the index over all of them. */
  equalAndAfter(equal: readonly (readonly [string, string])[], after: readonly [string, string]): string;
  /** What to order a SELECT by that locks workflows, with this column for their ID; see sql/lock-order.ts. */
  lockOrder(workflowId: string): string;
  /** A text that no other row will get. */
  readonly token: string;
  /** That the row of a batch of one landed, for what goes with it (`together`). */
  readonly landed: string;
  /** Row locks for a SELECT that picks rows to change. Empty where a writer is alone anyway. */
  readonly forUpdate: string;
  readonly forUpdateSkipLocked: string;
  /** Holds what a SELECT reads against change until commit. */
  readonly forShare: string;
  /** A query with a row if the queue is under this turn and not paused: then it stays so until commit. */
  heldTurn(queue: string, turn: string): string;
  /** A query for the names, of those that the given query has or of all, under which there are queues: they stay until commit. */
  heldQueues(names?: string): string;
  /** What a deletion of the queue waits by for those who hold it; absent where a writer is alone anyway. */
  readonly closedQueue?: (name: string) => string;
  /** Whether rows are locked one by one, so that two statements can meet in them. */
  readonly locksRows: boolean;
  /** The order number of the row at this position of what one statement enqueues, and what it needs before it. */
  readonly enqueueSeq: { readonly before: string; value(position: string): string };
  /** A guard that is itself a change of one row, and reports whether it succeeded in a column `held`. */
  exclusively(change: string): Guard;
  /**
   * The source `per_row`: for each row of a batch, whose parameters begin at `first`, the first rows of two stretches of
   * an index taken together, at most as many as its column `n` says, locked, passing over those that others hold.
   */
  perRow<T extends { readonly n: number }>(
    columns: Columns<T>,
    first: number,
    merge: (column: (name: keyof T & string) => string) => Merge,
  ): string;
  /** For RETURNING of an update from `per_row`: whether rows were waiting in several stretches. */
  mixed(perRow: string): string;
  /**
   * A join, as `alias`, to a SELECT for each row of a batch, over the row's columns: `each` keeps a row of the batch even
   * if the SELECT finds nothing for it.
   */
  joined<T extends object>(
    join: { readonly alias: string; readonly each?: true; readonly columns: Columns<T>; readonly first: number },
    select: (column: (name: keyof T & string) => string) => string,
  ): string;
  /** A statement, and what else is to be done for the rows of a batch of which it reports that they `landed`. */
  together(main: string, also: readonly string[]): Pick<BatchStatement<object>, 'text' | 'also'>;
  /** The row source `e` for the statements that go with another: {@link EffectList}. */
  effects<T extends object>(list: EffectList<T>): string;
  /** The order in which messages were sent, in the words of the index over unread ones. */
  readonly messageOrder: string;
  /** Epoch milliseconds on the database's clock, at the moment at which the expression is evaluated. */
  readonly now: string;
  /**
   * An instant, or the database's time if that is later by now. Where the instant is far from it, it is of another clock
   * (a virtual one), and stays.
   */
  notBeforeNow(instant: string): string;
  /** For RETURNING of an update of workflows `w`: whether it never ran before, given its start before the update. */
  neverRan(startedBefore: string): string;
  /** Whether the lock of this key is held by some session, null where there are none; and a query that it needs before it. */
  readonly presence: { readonly before: string; of(key: string): string };
}

/** Two stretches of one index, each a FROM with its conditions, that are worked off as if they were one. */
export interface Merge {
  readonly columns: string;
  readonly stretches: readonly string[];
  /** What a row must fulfil besides being of a stretch. */
  readonly condition: string;
  readonly order: string;
  /** The order of the index. */
  readonly orderOfStretch: string;
  /** The order is not that of the index: priorities, which come first there, do not count. */
  readonly firstCome: boolean;
}

/**
 * The things that rows of a batch list in a JSON column, for those rows that landed: with the columns of the things,
 * their `position` in the list, and some columns of the row.
 */
export interface EffectList<T extends object> {
  readonly rows: Columns<T>;
  readonly first: number;
  readonly list: keyof T & string;
  readonly columns: Readonly<Record<string, ColumnType>>;
  readonly carry: readonly (keyof T & string)[];
  /** Columns by which a row is found again in what the main statement reports, and their names there. */
  readonly keys: readonly (readonly [keyof T & string, string])[];
}

/** What must hold for a statement to do anything. */
export interface Guard {
  /** A query named `guard`, which has a row only if it holds. */
  readonly before: string;
  /** The change that it depends on, as a statement of its own where a query cannot hold one. */
  readonly guard?: string;
  /** Puts the statement together from the queries before it and the change that they lead to. */
  wrap(before: string, change: string): string;
}

/** How many order numbers one statement takes: more than it can enqueue. */
export const enqueueBlock = 2 ** 20;

/**
 * Of a PENDING row: whether its owner has let go of it, and given its slot back. The mark names the owner token, so that
 * it is void as soon as anybody takes the workflow over, also one who does not know of marks (an older Holdfast, DBOS).
 */
export const isAtRest = (alias: string): string => `(${alias}.resting_owner = ${alias}.owner_xid)`;

/**
 * That a row waits on a queue, in the words of the index for the whole queue and of the one for a partition. On Postgres each
 * fits one index only: of several the planner may take, on a table that it knows nothing of, one that leads to all that waits.
 */
export const waitingRows = {
  postgres: { onQueue: "status || '' = 'ENQUEUED'", inPartition: "'' || status = 'ENQUEUED'" },
  sqlite: { onQueue: "status = 'ENQUEUED'", inPartition: "status = 'ENQUEUED'" },
} as const;

/** That it waits and has been tried before. Likewise, on both. */
export const retriedRows = {
  onQueue: "coalesce(status, '') = 'ENQUEUED' and recovery_attempts > 0",
  inPartition: "coalesce(status, '-') = 'ENQUEUED' and recovery_attempts > 0",
} as const;

/**
 * True of every row, in words that an index over this text answers. Our connections forbid Postgres to scan tables: without a
 * condition for an index it scans a small one all the same, and adds 10^10 to the estimated cost, for which a server with
 * JIT compiles the statement at each execution.
 */
export const everyRow = (key: string): string => `${key} >= ''`;

/** What a statement is called where it is kept prepared. */
export function preparedName({ name, variant }: Statement): string {
  return variant === undefined ? name : `${name}.${variant}`;
}
