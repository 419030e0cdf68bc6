import { AsyncLocalStorage } from 'node:async_hooks';
import { currentScope, type StepScope } from '../engine/api/context.js';
import { attemptPolicy, type StepOptions } from '../engine/api/step.js';
import { once } from '../engine/execution/once.js';
import { performAttempts, performStep } from '../engine/execution/run-step.js';
import { HoldfastError } from '../model/errors.js';
import { checkOwnName } from '../model/ids.js';
import { checkKnownOptions, invalidOption, misplacedOption } from '../model/options.js';
import { processWide } from '../model/process-wide.js';
import {
  checkIntact,
  type Datasource,
  type Isolation,
  rolledBackSilently,
  type TransactionMode,
  withoutWrites,
} from '../storage/caller/datasource.js';
import { isAborted } from './failures.js';
import { TransactionRun } from './run-transaction.js';

/** Options of `transaction(datasource, name, fn, options)`. */
export interface TransactionOptions extends Pick<StepOptions, 'retries' | 'maxValueBytes'> {
  /** Default: the database's own. */
  readonly isolation?: Isolation;
  /** It changes nothing, and is run again if its outcome was not recorded in time. */
  readonly readOnly?: boolean;
}

const isolations: readonly Isolation[] = ['read committed', 'repeatable read', 'serializable'];

/** Transactions that were called outside any workflow, to tell one inside another. */
const plain = processWide('plainTransaction', () => new AsyncLocalStorage<string>());
const inTransaction = processWide('transactionScopes', () => new WeakSet<StepScope>());

/**
 * Defines a transaction: a step whose changes to the application's own database are committed together with the record
 * that it was done, so that they are made exactly once. `fn` gets the library's transaction, and then the arguments of the
 * call. What it throws rolls everything back and is the step's error. Outside a workflow it is a transaction and no more.
 */
export function transaction<Tx, Args extends unknown[], Result>(
  datasource: Datasource<Tx>,
  name: string,
  fn: (tx: Tx, ...args: Args) => Result,
  options: TransactionOptions = {},
): (...args: Args) => Promise<Awaited<Result>> {
  // Left out, so that the name is in its place.
  if (typeof datasource === 'string') throw withoutDatasource(`Transaction "${String(datasource)}"`);
  const what = `Transaction "${checkOwnName('A transaction name', name)}"`;
  checkDefinition(what, datasource, fn, options);
  const { isolation, readOnly } = options;
  const mode: TransactionMode = { ...(isolation && { isolation }), ...(readOnly && { readOnly }) };
  const policy = attemptPolicy(what, options);
  const defined = (...args: Args): Promise<Awaited<Result>> => {
    const scope = currentScope();
    const body = (tx: Tx) => fn(tx, ...args);
    if (scope?.step) return Promise.reject(misplaced(what, inTransaction.has(scope.step)));
    if (!scope) return plainly(what, datasource, mode, body) as Promise<Awaited<Result>>;
    const { execution } = scope;
    execution.engine.registry.checkStep(name, defined);
    const stub = execution.engine.registry.stepProbe?.stubOf(name);
    // A plain step then, for which no database of the application need be there.
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
        // What a step says beside its result is not in the record that this one may be answered from.
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
  return misplacedOption(what, 'datasource', 'must be one, and come first: such as pgDatasource(pool) of holdfast/pg');
}

function misplaced(what: string, within: boolean): HoldfastError {
  return new HoldfastError(
    'UNSUPPORTED_CALL',
    within
      ? `${what} cannot be called inside another transaction: it would commit by itself. Use the transaction at hand.`
      : `${what} cannot be called inside a step: only the step's own result is recorded. Call it in the workflow instead.`,
  );
}

async function plainly<Tx>(
  what: string,
  datasource: Datasource<Tx>,
  mode: TransactionMode,
  body: (tx: Tx) => unknown,
): Promise<unknown> {
  if (plain.getStore() !== undefined) throw misplaced(what, true);
  return datasource.transact(mode, (tx) =>
    plain.run(what, async () => {
      if (mode.readOnly) return withoutWrites(datasource, tx, async () => body(tx));
      const value = await body(tx);
      await checkIntact(datasource, tx).catch((error: unknown) => {
        throw isAborted(error) ? rolledBackSilently(undefined, error) : error;
      });
      return value;
    }),
  );
}
