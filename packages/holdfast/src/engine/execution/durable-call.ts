/**
 * The durable calls of one execution, as promises that know whether the code has looked at them. A call that fails is no
 * unhandled rejection, since in a replay everything arrives early and is taken up later; so whether anybody ever did is
 * for us to know, or a missing `await` would lose the error without a word (unawaited.ts).
 */
export class DurableCalls {
  /** Not settled yet. Made with the first call: most executions that only wait have one. */
  private open: Set<DurableCall> | undefined;
  /** Failed before anyone had looked. Whoever looks before the workflow ends takes the failure up after all. */
  private failed: FailedCall[] | undefined;

  begin<T>(name: string, stepNumber: number | undefined): DurableCall<T> {
    const call = new DurableCall<T>(this, name, stepNumber);
    this.open ??= new Set();
    this.open.add(call as DurableCall);
    return call;
  }

  /** The promise of a call that is made of others, or was refused before it became one. */
  follow<T>(name: string, stepNumber: number | undefined, promise: Promise<T>): Promise<T> {
    const call = this.begin<T>(name, stepNumber);
    promise.then(
      (value) => call.resolve(value),
      (error) => call.reject(error),
    );
    return call.promise;
  }

  /** Those that have not been answered, in their order. */
  underWay(): DurableCall[] {
    return [...(this.open ?? [])];
  }

  /** Those of them that nobody has looked at. */
  unlookedOpen(): DurableCall[] {
    return this.underWay().filter((call) => !call.wasLookedAt);
  }

  /** Those that nobody has looked at, and that failed. */
  unlookedFailed(): FailedCall[] {
    return this.failed?.filter(({ call }) => !call.wasLookedAt) ?? [];
  }

  settled(call: DurableCall): void {
    this.open?.delete(call);
  }

  failedUnseen(call: DurableCall, error: unknown): void {
    this.failed ??= [];
    this.failed.push({ call, error });
  }
}

export interface FailedCall {
  readonly call: DurableCall;
  readonly error: unknown;
}

/** One durable call: what the code was given, and how to answer it. */
export class DurableCall<T = unknown> {
  readonly promise: CallPromise<T>;
  private resolvePromise!: (value: T) => void;
  private rejectPromise!: (error: unknown) => void;

  constructor(
    private readonly calls: DurableCalls,
    readonly name: string,
    /** Undefined for what was refused before it took one. */
    readonly stepNumber: number | undefined,
  ) {
    this.promise = new CallPromise((resolve, reject) => {
      this.resolvePromise = resolve;
      this.rejectPromise = reject;
    });
  }

  get wasLookedAt(): boolean {
    return this.promise.wasLookedAt;
  }

  resolve(value: T): void {
    this.calls.settled(this as DurableCall);
    this.resolvePromise(value);
  }

  reject(error: unknown): void {
    this.calls.settled(this as DurableCall);
    if (!this.wasLookedAt) this.calls.failedUnseen(this as DurableCall, error);
    this.promise.markHandled();
    this.rejectPromise(error);
  }
}

/**
 * Whatever awaits, chains or combines a promise asks for its constructor first: `await` to see whether it must be wrapped,
 * `then`, `catch` and `finally` for what to return, `Promise.all` and the like for both. The answer makes it a promise
 * like any other, so that nothing about its timing differs.
 */
class CallPromise<T> extends Promise<T> {
  #wasLookedAt = false;

  // biome-ignore lint/complexity/useLiteralKeys: as a plain name it would be the class's own constructor, and no accessor.
  override get ['constructor'](): PromiseConstructor {
    // Whoever asks the prototype (an inspection, a codec that wants to know the class) looks at no call.
    if (#wasLookedAt in this) this.#wasLookedAt = true;
    return Promise;
  }

  get wasLookedAt(): boolean {
    return this.#wasLookedAt;
  }

  /** Without that counting as a look. */
  markHandled(): void {
    const before = this.#wasLookedAt;
    this.catch(ignore);
    this.#wasLookedAt = before;
  }
}

function ignore(): void {}
