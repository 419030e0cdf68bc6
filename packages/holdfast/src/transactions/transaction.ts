import { AsyncLocalStorage } from 'node:async_hooks';
import { currentScope, type StepScope } from '../engine/api/context.js';
import { attemptPolicy, type StepOptions } from '../engine/api/step.js';
import { once } from '../engine/execution/once.js';
import { performAttempts, performStep } from '../engine/execution/run-step.js';
import { HoldfastError } from '../model/errors.js';
import { checkUserName } from '../model/ids.js';
import { checkKnownOptions, invalidOption, wrongOption } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import {
  checkIntact,
  type Datasource,
  type Isolation,
  rolledBackError,
  type TransactionMode,
  withoutWrites,
} from '../storage/open-datasource.js';
import { isAborted } from './failures.js';
import { TransactionRun } from './run-transaction.js';

/** Options of `transaction(datasource, name, fn, options)`. */
export interface TransactionOptions extends Pick<StepOptions, 'retries' | 'maxValueBytes'> {
  /** The isolation level. Default: the default of the database. */
  readonly isolation?: Isolation;
  /** The transaction changes nothing. It runs again if the process crashes before its outcome is stored. */
  readonly readOnly?: boolean;
}

const isolations: readonly Isolation[] = ['read committed', 'repeatable read', 'serializable'];

/** Holds the name of a transaction that was called outside a workflow, to detect nested transactions. */
const plainTransactions = processWide('plainTransaction', () => new AsyncLocalStorage<string>());
const inTransaction = processWide('transactionScopes', () => new WeakSet<StepScope>());

/**
 * Defines a transaction: a step that changes the application's own database. The changes and the outcome of the step
 * are committed together, so that the changes are made exactly once. `fn` gets the transaction of the database
 * library and the arguments of the call. An error of `fn` rolls everything back and is the error of the step. Outside
 * a workflow the call is an ordinary database transaction.
 *
 * @example
 * ```ts
 * const orders = pgDatasource(pool);
 *
 * const insertOrder = transaction(orders, 'insertOrder', async (tx, id: string, total: number) => {
 *   await tx.query('insert into orders (id, total) values ($1, $2)', [id, total]);
 * });
 *
 * const checkout = workflow('checkout', async (id: string, total: number) => {
 *   await insertOrder(id, total);
 * });
 * ```
 */
export function transaction<Tx, Args extends unknown[], Result>(
  datasource: Datasource<Tx>,
  name: string,
  fn: (tx: Tx, ...args: Args) => Result,
  options: TransactionOptions = {},
): (...args: Args) => Promise<Awaited<Result>> {
  // A string here means that the datasource was omitted and the name is the first argument.
  if (typeof datasource === 'string') throw withoutDatasource(`Transaction "${String(datasource)}"`);
  const what = `Transaction "${checkUserName('A transaction name', name)}"`;
  checkDefinition(what, datasource, fn, options);
  const { isolation, readOnly } = options;
  const mode: TransactionMode = { ...(isolation && { isolation }), ...(readOnly && { readOnly }) };
  const policy = attemptPolicy(what, options);
  const defined = (...args: Args): Promise<Awaited<Result>> => {
    const scope = currentScope();
    const body = (tx: Tx) => fn(tx, ...args);
    if (scope?.step) return Promise.reject(misplaced(what, inTransaction.has(scope.step)));
    if (!scope) return runPlain(what, datasource, mode, body) as Promise<Awaited<Result>>;
    const { execution } = scope;
    execution.engine.registry.checkStep(name, defined);
    const stub = execution.engine.registry.stepProbe?.stubOf(name);
    // With a stub of the test kit the transaction runs as an ordinary step, which needs no application database.
    const call = { name, policy, fn: () => stub?.(...args) };
    if (stub) return once(execution, name, (stepNumber) => performStep(execution, { ...call, stepNumber }));
    return once(execution, name, async (stepNumber) => {
      const run = new TransactionRun(execution, {
        datasource,
        name,
        stepNumber,
        mode,
        fn: body,
        maxBytes: policy.maxBytes,
      });
      const outcome = await performAttempts(execution, { name, stepNumber, policy }, (inside, startedAt) => {
        inTransaction.add(inside.step);
        // A transaction has no effects (events, stream values): the record from which a replay may be answered
        // contains only the result.
        inside.step.effects = null;
        return run.attempt(inside, startedAt);
      });
      return run.placed(await run.settleFailure(outcome));
    });
  };
  Object.defineProperty(defined, 'name', { value: name });
  return defined;
}

function checkDefinition(what: string, datasource: unknown, fn: unknown, options: TransactionOptions): void {
  const { transact, query } = (datasource ?? {}) as Partial<Datasource<unknown>>;
  if (typeof transact !== 'function' || typeof query !== 'function') {
    throw withoutDatasource(what);
  }
  if (typeof fn !== 'function') throw invalidOption(what, 'fn', fn, 'a function');
  checkKnownOptions(what, options, ['isolation', 'readOnly', 'retries', 'maxValueBytes']);
  const { isolation, readOnly } = options;
  if (isolation !== undefined && !isolations.includes(isolation)) {
    throw invalidOption(what, 'isolation', isolation, isolations.map((each) => `"${each}"`).join(', '));
  }
  if (readOnly !== undefined && typeof readOnly !== 'boolean') {
    throw invalidOption(what, 'readOnly', readOnly, 'true or false');
  }
}

function withoutDatasource(what: string): HoldfastError {
  return wrongOption(what, 'datasource', 'must be the first argument, such as pgDatasource(pool) of holdfast/pg');
}

function misplaced(what: string, isNested: boolean): HoldfastError {
  return new HoldfastError(
    'UNSUPPORTED_CALL',
    isNested
      ? `${what} cannot be called inside another transaction, because it would commit separately. Use the open ` +
          'transaction.'
      : `${what} cannot be called inside a step, because only the result of a step is stored. Call it in the workflow.`,
  );
}

async function runPlain<Tx>(
  what: string,
  datasource: Datasource<Tx>,
  mode: TransactionMode,
  body: (tx: Tx) => unknown,
): Promise<unknown> {
  if (plainTransactions.getStore() !== undefined) throw misplaced(what, true);
  return datasource.transact(mode, (tx) =>
    plainTransactions.run(what, async () => {
      if (mode.readOnly) return withoutWrites(datasource, tx, async () => body(tx));
      const value = await body(tx);
      await checkIntact(datasource, tx).catch((error: unknown) => {
        throw isAborted(error) ? rolledBackError(undefined, error) : error;
      });
      return value;
    }),
  );
}
