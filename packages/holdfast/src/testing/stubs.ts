import { AsyncLocalStorage } from 'node:async_hooks';
import type { StepStub } from '../engine/execution/step-probe.js';
import { HoldfastError } from '../model/errors.js';
import { invalidOption } from '../model/options.js';
import { didYouMean } from '../model/suggest.js';

/** A function that runs instead of a step's own. `unknown` for arguments whose types it leaves out. */
export type StubFunction = { stub(...args: unknown[]): unknown }['stub'];

/** Functions that run instead of steps, by the name of the step: defined with `step` or `transaction`, or inline with `run`. */
export type StepStubs = Readonly<Record<string, StubFunction>>;

const typedStub = Symbol('holdfast.stub');

/** The steps whose stubs the calling code runs in: such a stub may call the step itself, which then is the real one. */
const stubbedAround = new AsyncLocalStorage<readonly string[]>();

/**
 * A stub with the types of the step: `testApp({ stubs: { ...stub(charge, async (order) => receipt) } })`. Its name is the
 * step's, so that it cannot be misspelt.
 */
export function stub<Args extends unknown[], Result>(
  step: (...args: Args) => Promise<Result>,
  fn: (...args: Args) => Result | Promise<Result>,
): StepStubs {
  const stubbed = (...args: Args) => fn(...args);
  return { [step.name]: Object.assign(stubbed, { [typedStub]: true }) as StubFunction };
}

/** The stubs of an app and of its restarts, and which of them any step has asked for. */
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

  /** For the same app after a restart: what ran before it, ran. */
  renewed(stubs: StepStubs | undefined): Stubs {
    const next = new Stubs(stubs ?? this.stubs, this.used);
    for (const name of this.names) next.names.add(name);
    return next;
  }

  take(stepName: string): StepStub | undefined {
    this.names.add(stepName);
    const fn = Object.hasOwn(this.stubs, stepName) ? this.stubs[stepName] : undefined;
    const around = stubbedAround.getStore() ?? [];
    if (!fn || around.includes(stepName)) return undefined;
    this.used.add(stepName);
    return (...args) => stubbedAround.run([...around, stepName], () => fn(...args));
  }

  /**
   * A stub whose name is misspelt lets the real step run. Which steps there are is known only when they run, so it is
   * found out at the end; a name that the code of a workflow mentions may be of a branch that this test did not take.
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
