import { deadlineOf } from '../engine/api/sleep.js';
import type { Engine } from '../engine/engine.js';
import type { Execution, Wait } from '../engine/execution/execution.js';
import type { Watch, Watcher } from '../engine/wait/watch.js';
import type { Timer } from '../model/clock.js';

/** A value that a caller waits for. */
export interface Awaited<Value> {
  /** Rejects when the app closes. With `failsFast` it also rejects if the database role may not run the query. */
  readonly found: Promise<Value>;
  /** Resolves when a query that began after this call has returned: true if the value was found. */
  queryNow(): Promise<boolean>;
  /** Ends the wait. */
  forget(): void;
  /**
   * Continues to watch for a suspended workflow (`Wait.watchWhileSuspended`). Returns a function that ends the watch.
   */
  rest(wake: () => void): () => void;
}

/**
 * Checks the answer of a watch: returns the value if the answer ends the wait, and undefined if the wait continues.
 */
export type Accept<Answer, Value> = (answer: Answer) => { readonly value: Value } | undefined;

/** Waits for one value under some keys of a watch. */
export function waitFor<Question, Answer, Value>(
  watch: Watch<Question, Answer>,
  keys: readonly string[],
  question: Question,
  accept: Accept<Answer, Value>,
  failsFast = false,
): Awaited<Value> {
  let settle!: { resolve(value: Value): void; reject(error: unknown): void };
  const found = new Promise<Value>((resolve, reject) => {
    settle = { resolve, reject };
  });
  found.catch(() => {});
  const queries = new QueryWaiters();
  const watcher: Watcher<Question, Answer> = {
    question: () => {
      queries.begin();
      return question;
    },
    answered: (answer) => {
      const accepted = accept(answer);
      if (accepted) {
        forget();
        settle.resolve(accepted.value);
      }
      queries.end(() => accepted !== undefined);
    },
    failed: (error) => settle.reject(error),
    failsFast,
  };
  const { forget } = watch.add(keys, watcher);
  const queryNow = (): Promise<boolean> => {
    const isFound = queries.next();
    watch.query(watcher);
    return isFound;
  };
  return { found, queryNow, forget, rest: suspendedWatch(watch, keys, question, accept) };
}

/**
 * Returns the watch function for a suspended workflow. The watch refers only to `wake`. It has a function of its own,
 * because a closure keeps its whole scope in memory, and a suspended execution must be freed.
 */
export function suspendedWatch<Question, Answer>(
  watch: Watch<Question, Answer>,
  keys: readonly string[],
  question: Question,
  accept: Accept<Answer, unknown>,
): (wake: () => void) => () => void {
  return (wake) => watch.add(keys, new SuspendedWatcher(question, accept, wake)).forget;
}

class SuspendedWatcher<Question, Answer> implements Watcher<Question, Answer> {
  constructor(
    private readonly fixedQuestion: Question,
    private readonly accept: Accept<Answer, unknown>,
    private readonly wake: () => void,
  ) {}

  question(): Question {
    return this.fixedQuestion;
  }

  answered(answer: Answer): void {
    if (this.accept(answer)) this.wake();
  }

  /** The watched app has closed. If the workflow belongs to another app, its code must see the error. */
  failed(): void {
    this.wake();
  }
}

/** Announces the end of a query to callers that asked before the query began. */
export class QueryWaiters {
  private waiting: { readonly resolve: (found: boolean) => void; began: boolean; readonly caller: unknown }[] = [];

  /** Resolves at the end of the next query to begin. */
  next(caller?: unknown): Promise<boolean> {
    return new Promise((resolve) => this.waiting.push({ resolve, began: false, caller }));
  }

  begin(): void {
    for (const each of this.waiting) each.began = true;
  }

  end(isFound: (caller: unknown) => boolean): void {
    const ended = this.waiting.filter((each) => each.began);
    this.waiting = this.waiting.filter((each) => !each.began);
    for (const { resolve, caller } of ended) resolve(isFound(caller));
  }
}

/**
 * Waits in a workflow until a deadline that no restart moves. The deadline is stored after a first query has found
 * nothing. At the deadline the database is queried once more, so that a value that arrived in time is not missed.
 */
export function waitUntilDeadline<Value>(
  execution: Execution,
  timer: { readonly stepNumber: number; readonly timeoutMs: number; readonly startedAt: number },
  awaited: Awaited<Value>,
): Promise<Value | undefined> {
  const { clock } = execution.engine;
  return new Promise((resolve, reject) => {
    let alarm: Timer | undefined;
    let ended = false;
    const end = (settle: () => void): void => {
      ended = true;
      alarm?.cancel();
      stop();
      awaited.forget();
      settle();
    };
    const wait: Wait = {
      until: timer.startedAt + timer.timeoutMs,
      cancelled: (error) => end(() => reject(error)),
      abandoned: () => end(() => {}),
    };
    const stop = execution.onCancel(wait);
    const giveUp = async (): Promise<void> => {
      wait.watchWhileSuspended = undefined;
      if (!(await awaited.queryNow())) end(() => resolve(undefined));
    };
    const begin = async (): Promise<void> => {
      if (await awaited.queryNow()) return;
      if (timer.timeoutMs === 0) return end(() => resolve(undefined));
      const until = await deadlineOf(execution, timer);
      // The value may have been found while the deadline was written. An alarm set now would never be canceled.
      if (ended || !execution.running) return;
      alarm = clock.at(until, () => void giveUp());
      // The stored deadline is earlier than assumed if an earlier execution has stored it.
      wait.until = until;
      wait.watchWhileSuspended = awaited.rest;
    };
    awaited.found.then(
      (value) => end(() => resolve(value)),
      (error) => end(() => reject(error)),
    );
    begin().catch((error) => end(() => reject(error)));
  });
}

/** Waits in a workflow without a deadline. */
export function waitWithoutDeadline<Value>(execution: Execution, awaited: Awaited<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void): void => {
      stop();
      awaited.forget();
      settle();
    };
    const stop = execution.onCancel({ cancelled: (error) => end(() => reject(error)), abandoned: () => end(() => {}) });
    awaited.found.then(
      (value) => end(() => resolve(value)),
      (error) => end(() => reject(error)),
    );
  });
}

/** Waits outside a workflow for at most `timeoutMs`. */
export async function waitOutsideWorkflow<Value>(
  engine: Engine,
  timeoutMs: number,
  awaited: Awaited<Value>,
): Promise<Value | undefined> {
  const { clock } = engine;
  let alarm: Timer | undefined;
  const tooLate = new Promise<undefined>((resolve) => {
    const giveUp = async (): Promise<void> => {
      if (!(await awaited.queryNow())) resolve(undefined);
    };
    alarm = clock.at(clock.now() + timeoutMs, () => void giveUp());
  });
  try {
    return await Promise.race([awaited.found, tooLate]);
  } finally {
    alarm?.cancel();
    awaited.forget();
  }
}
