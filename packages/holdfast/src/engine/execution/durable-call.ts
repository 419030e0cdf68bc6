/**
 * The durable calls of one execution, as promises that know whether the code has observed them (awaited, chained or
 * combined). A failed call must not be an unhandled rejection: in a replay, results arrive early and the code awaits
 * them later. Therefore this class tracks whether the code ever observes a failed call. Otherwise a missing `await`
 * would lose the error silently (unawaited.ts).
 */
export class DurableCalls {
  /** Calls without a result. Created at the first call. */
  private open: Set<DurableCall> | undefined;
  /**
   * Calls that failed before the code observed them. Code that observes such a call before the workflow ends still
   * handles the failure.
   */
  private failed: FailedCall[] | undefined;

  begin<T>(name: string, stepNumber: number | undefined): DurableCall<T> {
    const call = new DurableCall<T>(this, name, stepNumber);
    this.open ??= new Set();
    this.open.add(call as DurableCall);
    return call;
  }

  /**
   * Tracks the promise of a call that consists of several durable calls, or that was refused before it became a durable
   * call.
   */
  follow<T>(name: string, stepNumber: number | undefined, promise: Promise<T>): Promise<T> {
    const call = this.begin<T>(name, stepNumber);
    promise.then(
      (value) => call.resolve(value),
      (error) => call.reject(error),
    );
    return call.promise;
  }

  /** Returns the unanswered calls, in call order. */
  unanswered(): DurableCall[] {
    return [...(this.open ?? [])];
  }

  /** Returns the unanswered calls that the code has not observed. */
  unobservedOpen(): DurableCall[] {
    return this.unanswered().filter((call) => !call.isObserved);
  }

  /** Returns the failed calls that the code has not observed. */
  unobservedFailed(): FailedCall[] {
    return this.failed?.filter(({ call }) => !call.isObserved) ?? [];
  }

  settled(call: DurableCall): void {
    this.open?.delete(call);
  }

  failedUnobserved(call: DurableCall, error: unknown): void {
    this.failed ??= [];
    this.failed.push({ call, error });
  }
}

export interface FailedCall {
  readonly call: DurableCall;
  readonly error: unknown;
}

/** One durable call: the promise for the code, and the methods that settle it. */
export class DurableCall<T = unknown> {
  readonly promise: CallPromise<T>;
  private resolvePromise!: (value: T) => void;
  private rejectPromise!: (error: unknown) => void;

  constructor(
    private readonly calls: DurableCalls,
    readonly name: string,
    /** Undefined for a call that was refused before it took a step number. */
    readonly stepNumber: number | undefined,
  ) {
    this.promise = new CallPromise((resolve, reject) => {
      this.resolvePromise = resolve;
      this.rejectPromise = reject;
    });
  }

  get isObserved(): boolean {
    return this.promise.wasLookedAt;
  }

  resolve(value: T): void {
    this.calls.settled(this as DurableCall);
    this.resolvePromise(value);
  }

  reject(error: unknown): void {
    this.calls.settled(this as DurableCall);
    if (!this.isObserved) this.calls.failedUnobserved(this as DurableCall, error);
    this.promise.markHandled();
    this.rejectPromise(error);
  }
}

/**
 * A promise that notes whether the code observes it. Every operation that awaits, chains or combines a promise first
 * reads its `constructor`: `await` to decide whether to wrap it, `then`, `catch` and `finally` to choose the class of
 * their result, `Promise.all` and similar functions for both. The getter notes the read and returns Promise. Therefore
 * the promise behaves, and is timed, like any other promise.
 */
class CallPromise<T> extends Promise<T> {
  #wasLookedAt = false;

  // biome-ignore lint/complexity/useLiteralKeys: a plain name declares the constructor of the class, not an accessor.
  override get ['constructor'](): PromiseConstructor {
    // Code may also read the getter of the prototype, for example to inspect an object or to check its class. Then
    // `this` is not a call, and nothing is observed.
    if (#wasLookedAt in this) this.#wasLookedAt = true;
    return Promise;
  }

  get wasLookedAt(): boolean {
    return this.#wasLookedAt;
  }

  /** Marks a rejection as handled. This does not count as an observation. */
  markHandled(): void {
    const before = this.#wasLookedAt;
    this.catch(ignore);
    this.#wasLookedAt = before;
  }
}

function ignore(): void {}
