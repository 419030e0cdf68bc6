import { HoldfastError } from '../../model/errors.js';
import { checkKnownOptions, wrongOption } from '../../model/options.js';
import type { Row } from '../database.js';
import { wrappedSqlState } from '../postgres/failures.js';
import { checkSchema } from '../postgres/identifiers.js';

/**
 * A database of the application itself, in which `transaction()` commits. The functions of `holdfast/pg`,
 * `holdfast/knex` and so on create a datasource for a library. For any other library, implement these members.
 *
 * @example
 * ```ts
 * import type { Datasource } from 'holdfast';
 *
 * const shop: Datasource<MyTransaction> = {
 *   dialect: 'postgres',
 *   schema: 'dbos',
 *   transact: ({ isolation, readOnly }, work) => myLibrary.transaction({ isolation, readOnly }, work),
 *   query: (tx, text, params) => tx.query(text, params),
 * };
 * ```
 */
export interface Datasource<Tx> {
  readonly dialect: 'postgres' | 'sqlite';
  /**
   * The schema of the table `transaction_completion` on Postgres. Holdfast creates the table when it is first needed.
   */
  readonly schema: string;
  /**
   * Runs `work` in a new transaction. If `work` resolves, `transact` commits and resolves with the same value. If
   * `work` rejects, `transact` rolls back and rejects with the same error. If the commit fails, `transact` rejects with
   * the error of the driver, or with an error that has it as `cause`. The `code` of this error (a SQLSTATE, or a code
   * of SQLite) decides whether Holdfast retries the transaction.
   */
  transact<R>(mode: TransactionMode, work: (tx: Tx) => Promise<R>): Promise<R>;
  /**
   * Set this if `transact` rejects when the database rolls back instead of committing, as Postgres does after a failed
   * statement. If it is not set, Holdfast checks after each transaction whether its record was committed.
   */
  readonly confirmsCommit?: true;
  /** Runs one statement in the transaction, with parameters `$1`, `$2` and so on. Resolves with the rows. */
  query(tx: Tx, text: string, params: readonly unknown[]): Promise<Row[]>;
}

/** How a transaction begins. For undefined members the database uses its own defaults. */
export interface TransactionMode {
  readonly isolation?: Isolation;
  readonly readOnly?: boolean;
}

/** The isolation level of a transaction. On SQLite every transaction is serializable. */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable';

/**
 * Options of the functions that create a datasource.
 *
 * @example
 * ```ts
 * const shop = pgDatasource(pool, { schema: 'holdfast' });
 * ```
 */
export interface DatasourceOptions {
  /** The schema of the table `transaction_completion` on Postgres (default `dbos`). */
  readonly schema?: string;
}

const noTransaction = '25P01';

/**
 * Runs the work of a read-only transaction. Only SQLite needs a statement for this: on Postgres, the beginning of the
 * transaction makes it read-only.
 */
export async function withoutWrites<Tx, R>(datasource: Datasource<Tx>, tx: Tx, work: () => Promise<R>): Promise<R> {
  if (datasource.dialect === 'postgres') return work();
  await datasource.query(tx, 'pragma query_only = on', []);
  try {
    return await work();
  } finally {
    await datasource.query(tx, 'pragma query_only = off', []);
  }
}

/**
 * Rejects if a statement of the transaction has failed. In this case Postgres would roll back silently at the commit.
 */
export async function checkIntact<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<void> {
  await datasource.query(tx, 'select 1 as intact', []);
}

/**
 * Returns a function that checks later whether this transaction is still open. A user function that sends COMMIT or
 * ROLLBACK as a statement ends the transaction, and its library does not notice. On SQLite, a transaction that was
 * begun afterwards is not mistaken for this one.
 */
export async function watchOpen<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<() => Promise<boolean>> {
  const query = (text: string): Promise<Row[]> => datasource.query(tx, text, []);
  if (datasource.dialect === 'postgres') {
    // A cursor can be declared only inside a transaction, and this check does not depend on the server's clock.
    return () =>
      query('declare holdfast_open cursor for select 1').then(
        () => true,
        (error) => {
          if (wrappedSqlState(error) === noTransaction) return false;
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
 * Resolves with true if all statements of this transaction read one snapshot, taken at its first statement. The server
 * is asked, because the isolation may come from a role, a database or a pool, or from the user function itself.
 */
export async function hasOneSnapshot<Tx>(datasource: Datasource<Tx>, tx: Tx): Promise<boolean> {
  if (datasource.dialect !== 'postgres') return false;
  const [row] = await datasource.query(tx, "select current_setting('transaction_isolation') as isolation", []);
  return row?.isolation !== 'read committed' && row?.isolation !== 'read uncommitted';
}

/**
 * The error of a transaction that the database rolled back although its function returned, because one of its
 * statements had failed.
 */
export function rolledBackError(name?: string, cause?: unknown): HoldfastError {
  const what = name === undefined ? 'A transaction' : `Transaction "${name}"`;
  return new HoldfastError(
    'UNSUPPORTED_CALL',
    `${what} was rolled back by the database instead of committed, because one of its statements failed. The ` +
      'function did not await this statement, or caught its error. Await every statement. To continue after an ' +
      'error, use a savepoint.',
    { cause },
  );
}

/** Checks the arguments that the functions for creating a datasource take in addition to the object of the library. */
export function checkDatasource(
  what: string,
  dialect: Datasource<unknown>['dialect'] | undefined,
  options: DatasourceOptions,
): Pick<Datasource<unknown>, 'dialect' | 'schema'> {
  checkKnownOptions(what, options, ['schema']);
  if (dialect === undefined) throw wrongOption(what, 'db', 'must be on Postgres or SQLite');
  const { schema } = options;
  if (schema !== undefined && dialect === 'sqlite') {
    throw wrongOption(what, 'schema', 'must be left out: a SQLite database has no schemas');
  }
  if (schema !== undefined) checkSchema(what, schema);
  return { dialect, schema: schema ?? 'dbos' };
}
