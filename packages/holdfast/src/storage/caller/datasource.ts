import { HoldfastError } from '../../model/errors.js';
import { checkKnownOptions, misplacedOption } from '../../model/options.js';
import type { Row } from '../database.js';
import { stateOf } from '../postgres/failures.js';
import { checkSchema } from '../postgres/identifiers.js';

/**
 * A database of the application itself, in which `transaction()` commits. The modules in `adapters/` make one from
 * what a library gives; for any other library it is these few members.
 */
export interface Datasource<Tx> {
  readonly dialect: 'postgres' | 'sqlite';
  /** Where on Postgres the table `transaction_completion` lives; it is created there when it is first needed. */
  readonly schema: string;
  /**
   * Runs `work` in a transaction of its own: commits when it resolves, and resolves with the same value; rolls back when
   * it rejects, and rejects with the same error. When the commit itself fails, it rejects with that error as the driver
   * gave it, or with one whose `cause` it is: by its `code` (a SQLSTATE, or SQLite's) it is told whether to try again.
   */
  transact<R>(mode: TransactionMode, work: (tx: Tx) => Promise<R>): Promise<R>;
  /**
   * `transact` rejects if the database answered the commit by a rollback, as Postgres does after a statement that failed.
   * Without it, what was committed is looked for after each transaction.
   */
  readonly confirmsCommit?: true;
  /** Runs one statement in that transaction, with `$1`, `$2` and so on for parameters. Resolves with the rows. */
  query(tx: Tx, text: string, params: readonly unknown[]): Promise<Row[]>;
}

/** How a transaction is to be begun. What is undefined is left to the database's own default. */
export interface TransactionMode {
  readonly isolation?: Isolation;
  readonly readOnly?: boolean;
}

/** On SQLite every transaction is serializable. */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable';

/** Options of the functions that make a datasource. */
export interface DatasourceOptions {
  /** Schema of the table `transaction_completion` on Postgres (default `dbos`). */
  readonly schema?: string;
}

const noTransaction = '25P01';

/** Runs the work of a transaction that is to change nothing, where beginning it does not say so already. */
export async function withoutWrites<Tx, R>(datasource: Datasource<Tx>, tx: Tx, work: () => Promise<R>): Promise<R> {
  if (datasource.dialect === 'postgres') return work();
  await datasource.query(tx, 'pragma query_only = on', []);
  try {
    return await work();
  } finally {
    await datasource.query(tx, 'pragma query_only = off', []);
  }
}

/** Fails if a statement of the transaction has failed: Postgres would answer its commit by a silent rollback. */
export async function checkIntact<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<void> {
  await datasource.query(tx, 'select 1 as intact', []);
}

/**
 * How to find out later whether this transaction is still open. A function that sends COMMIT or ROLLBACK as a statement
 * ends it, and its library does not notice. On SQLite another one that was begun since does not pass for it.
 */
export async function openness<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<() => Promise<boolean>> {
  const query = (text: string): Promise<Row[]> => datasource.query(tx, text, []);
  if (datasource.dialect === 'postgres') {
    // There are cursors only in transactions, whatever the server's clock does meanwhile.
    return () =>
      query('declare holdfast_open cursor for select 1').then(
        () => true,
        (error) => {
          if (stateOf(error) === noTransaction) return false;
          throw error;
        },
      );
  }
  await query('savepoint holdfast_transaction');
  return () =>
    query('release holdfast_transaction').then(
      () => true,
      () => false,
    );
}

/**
 * Whether all statements of this transaction see what was committed when its first one began. By the server, because the isolation
 * may be the default of a role, a database or a pool, or be set by the function itself.
 */
export async function hasOneSnapshot<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<boolean> {
  if (datasource.dialect !== 'postgres') return false;
  const [row] = await datasource.query(tx, "select current_setting('transaction_isolation') as isolation", []);
  return row?.isolation !== 'read committed' && row?.isolation !== 'read uncommitted';
}

/** Of a transaction in which a statement has failed nothing remains, although its function has returned. */
export function rolledBackSilently(name?: string, cause?: unknown): HoldfastError {
  const what = name === undefined ? 'A transaction' : `Transaction "${name}"`;
  return new HoldfastError(
    'UNSUPPORTED_CALL',
    `${what} was rolled back by the database although it was to be committed: a statement has failed that its function did not ` +
      'await, or whose failure it caught. Await every statement; to go on after a failure, use a savepoint.',
    { cause },
  );
}

/** What the functions that make datasources are given beside their library's own object, checked. */
export function checkDatasource(
  what: string,
  dialect: Datasource<unknown>['dialect'] | undefined,
  options: DatasourceOptions,
): Pick<Datasource<unknown>, 'dialect' | 'schema'> {
  checkKnownOptions(what, options, ['schema']);
  if (dialect === undefined) throw misplacedOption(what, 'db', 'must be on Postgres or SQLite');
  const { schema } = options;
  if (schema !== undefined && dialect === 'sqlite') {
    throw misplacedOption(what, 'schema', 'must be left out: a SQLite database has no schemas');
  }
  if (schema !== undefined) checkSchema(what, schema);
  return { dialect, schema: schema ?? 'dbos' };
}
