import { deadlineOf } from '../engine/api/sleep.js';
import type { Engine } from '../engine/engine.js';
import type { Execution, Wait } from '../engine/execution/execution.js';
import type { Watch, Watcher } from '../engine/wait/watch.js';
import type { Timer } from '../model/clock.js';

/** Something that is waited for. */
export interface Awaited<Value> {
  /** Rejects when the app closes, and with `failsFast` if the role may not look. */
  readonly found: Promise<Value>;
  /** Resolves when a look that began after this call has been answered. Whether it was found then. */
  lookedNow(): Promise<boolean>;
  /** Lets go of the wait. */
  forget(): void;
  /** Goes on watching for a workflow that is let go of (`Wait.rest`). */
  rest(wake: () => void): () => void;
}

/** What an answer of a watch means to one who waits: found, or (undefined) not yet. */
export type Accept<Answer, Value> = (answer: Answer) => { readonly value: Value } | undefined;

/** Waits for one thing under some keys of a watch. */
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
  const looks = new Looks();
  const watcher: Watcher<Question, Answer> = {
    question: () => {
      looks.begin();
      return question;
    },
    answered: (answer) => {
      const accepted = accept(answer);
      if (accepted) {
        forget();
        settle.resolve(accepted.value);
      }
      looks.end(() => accepted !== undefined);
    },
    failed: (error) => settle.reject(error),
    failsFast,
  };
  const { forget } = watch.add(keys, watcher);
  const lookedNow = (): Promise<boolean> => {
    const looked = looks.next();
    watch.look(watcher);
    return looked;
  };
  return { found, lookedNow, forget, rest: restBy(watch, keys, question, accept) };
}

/** Watches for the same, and knows nobody but the one to wake. In a function of its own: a closure holds all of its scope. */
export function restBy<Question, Answer>(
  watch: Watch<Question, Answer>,
  keys: readonly string[],
  question: Question,
  accept: Accept<Answer, unknown>,
): (wake: () => void) => () => void {
  return (wake) => watch.add(keys, new RestingWatcher(question, accept, wake)).forget;
}

class RestingWatcher<Question, Answer> implements Watcher<Question, Answer> {
  constructor(
    private readonly asked: Question,
    private readonly accept: Accept<Answer, unknown>,
    private readonly wake: () => void,
  ) {}

  question(): Question {
    return this.asked;
  }

  answered(answer: Answer): void {
    if (this.accept(answer)) this.wake();
  }

  /** The app has closed: if it is another one than that which rests, its code is to see that. */
  failed(): void {
    this.wake();
  }
}

/** Tells those who want to know of a look that begins from now on when it has been answered. */
export class Looks {
  private waiting: { readonly resolve: (found: boolean) => void; began: boolean; readonly who: unknown }[] = [];

  next(who?: unknown): Promise<boolean> {
    return new Promise((resolve) => this.waiting.push({ resolve, began: false, who }));
  }

  begin(): void {
    for (const each of this.waiting) each.began = true;
  }

  end(found: (who: unknown) => boolean): void {
    const ended = this.waiting.filter((each) => each.began);
    this.waiting = this.waiting.filter((each) => !each.began);
    for (const { resolve, who } of ended) resolve(found(who));
  }
}

/**
 * Waits in a workflow, until a deadline that no restart moves: it is recorded, once it is known that there is something
 * to wait for. At the deadline the database is asked once more, so that what was there in time is not missed.
 */
export function foundBefore<Value>(
  execution: Execution,
  timer: { readonly stepNumber: number; readonly timeoutMs: number; readonly startedAt: number },
  sought: Awaited<Value>,
): Promise<Value | undefined> {
  const { clock } = execution.engine;
  return new Promise((resolve, reject) => {
    let alarm: Timer | undefined;
    let ended = false;
    const end = (settle: () => void): void => {
      ended = true;
      alarm?.cancel();
      stop();
      sought.forget();
      settle();
    };
    const wait: Wait = {
      until: timer.startedAt + timer.timeoutMs,
      cancelled: (error) => end(() => reject(error)),
      dropped: () => end(() => {}),
    };
    const stop = execution.onCancel(wait);
    const giveUp = async (): Promise<void> => {
      wait.watchWhileSuspended = undefined;
      if (!(await sought.lookedNow())) end(() => resolve(undefined));
    };
    const begin = async (): Promise<void> => {
      if (await sought.lookedNow()) return;
      if (timer.timeoutMs === 0) return end(() => resolve(undefined));
      const until = await deadlineOf(execution, timer);
      // It may have been found while the deadline was being written: nobody would cancel an alarm set now.
      if (ended || !execution.running) return;
      alarm = clock.at(until, () => void giveUp());
      // On record, perhaps by an earlier execution: then it is sooner than it looked.
      wait.until = until;
      wait.watchWhileSuspended = sought.rest;
    };
    sought.found.then(
      (value) => end(() => resolve(value)),
      (error) => end(() => reject(error)),
    );
    begin().catch((error) => end(() => reject(error)));
  });
}

/** Waits in a workflow, as long as it takes. */
export function foundEventually<Value>(execution: Execution, sought: Awaited<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void): void => {
      stop();
      sought.forget();
      settle();
    };
    const stop = execution.onCancel({ cancelled: (error) => end(() => reject(error)), dropped: () => end(() => {}) });
    sought.found.then(
      (value) => end(() => resolve(value)),
      (error) => end(() => reject(error)),
    );
  });
}

/** Waits outside a workflow, for at most this long. */
export async function foundWithin<Value>(
  engine: Engine,
  timeoutMs: number,
  sought: Awaited<Value>,
): Promise<Value | undefined> {
  const { clock } = engine;
  let alarm: Timer | undefined;
  const tooLate = new Promise<undefined>((resolve) => {
    const giveUp = async (): Promise<void> => {
      if (!(await sought.lookedNow())) resolve(undefined);
    };
    alarm = clock.at(clock.now() + timeoutMs, () => void giveUp());
  });
  try {
    return await Promise.race([sought.found, tooLate]);
  } finally {
    alarm?.cancel();
    sought.forget();
  }
}
