import { AsyncLocalStorage } from 'node:async_hooks';
import type { StepStub } from '../engine/execution/step-probe.js';
import { HoldfastError } from '../model/errors.js';
import { invalidOption } from '../model/options.js';
import { didYouMean } from '../model/suggest.js';

/**
 * A function that runs instead of the function of a step. Arguments without a declared type have the type `unknown`.
 */
export type StubFunction = { stub(...args: unknown[]): unknown }['stub'];

/**
 * Functions that run instead of steps, by step name. The steps are defined with `step` or `transaction`, or inline
 * with `run`.
 */
export type StepStubs = Readonly<Record<string, StubFunction>>;

const typedStub = Symbol('holdfast.stub');

/**
 * Names of the steps whose stubs are running around the calling code. A stub that calls its own step gets the real
 * step.
 */
const runningStubs = new AsyncLocalStorage<readonly string[]>();

/**
 * Returns a stub for a step, with the types of the step. The stub takes its name from the step, so the name cannot be
 * misspelled.
 *
 * @example
 * const charge = step('charge', async (order: Order) => bank.charge(order));
 * const test = await testApp({
 *   workflows: [checkout],
 *   stubs: { ...stub(charge, async (order) => ({ receipt: `test-${order.id}` })) },
 * });
 */
export function stub<Args extends unknown[], Result>(
  step: (...args: Args) => Promise<Result>,
  fn: (...args: Args) => Result | Promise<Result>,
): StepStubs {
  const stubbed = (...args: Args) => fn(...args);
  return { [step.name]: Object.assign(stubbed, { [typedStub]: true }) as StubFunction };
}

/** The stubs of an app and of its restarts, and the names of the stubs that were used. */
export class Stubs {
  private readonly names = new Set<string>();

  constructor(
    private stubs: StepStubs = {},
    private readonly used = new Set<string>(),
  ) {
    this.stubs = { ...stubs };
    for (const [name, fn] of Object.entries(stubs)) {
      if (typeof fn !== 'function') throw invalidOption('testApp()', `stubs.${name}`, fn, 'a function');
    }
  }

  /** Returns the stubs for the same app after a restart. The names of steps and stubs that ran before still count. */
  renewed(stubs: StepStubs | undefined): Stubs {
    const next = new Stubs(stubs ?? this.stubs, this.used);
    for (const name of this.names) next.names.add(name);
    return next;
  }

  take(stepName: string): StepStub | undefined {
    this.names.add(stepName);
    const fn = Object.hasOwn(this.stubs, stepName) ? this.stubs[stepName] : undefined;
    const running = runningStubs.getStore() ?? [];
    if (!fn || running.includes(stepName)) return undefined;
    this.used.add(stepName);
    return (...args) => runningStubs.run([...running, stepName], () => fn(...args));
  }

  /**
   * Throws if a stub has a name that no step has, because then the real step ran. Step names are known only when steps
   * run, so this check comes at the end. A name that appears in the code of a workflow is accepted: its branch may not
   * have run in this test.
   */
  checkKnown(sources: readonly string[]): void {
    const isKnown = ([name, fn]: [string, StubFunction]): boolean =>
      this.used.has(name) || typedStub in fn || sources.some((source) => source.includes(name));
    const unknown = Object.entries(this.stubs).find((each) => !isKnown(each));
    if (!unknown) return;
    const [name] = unknown;
    const ran = [...this.names];
    throw new HoldfastError(
      'INVALID_OPTION',
      `testApp({ stubs }): no step named "${name}" has run.${didYouMean(name, ran)} ` +
        `${ran.length === 0 ? 'No step has run at all.' : `Steps that have run: ${ran.join(', ')}.`} ` +
        'Correct the name, leave the stub out, or make it with stub(step, fn), which takes the name from the step.',
      { details: { stub: name, steps: ran } },
    );
  }
}
