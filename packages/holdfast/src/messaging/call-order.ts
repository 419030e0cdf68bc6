import type { Execution } from '../engine/execution.js';

/** The last call of each line of an execution that is still being made ready. */
const lines = new WeakMap<Execution, Map<string, Promise<void>>>();

/**
 * Makes an operation ready and lets it go on in its turn: after those of the same line (a topic, an event, a stream) that
 * were called before it. A serializer or a schema may take longer with one value than with the next, and a stream's end
 * needs none at all: it must not come before the last value.
 */
export function inCallOrder<T>(execution: Execution, line: string, ready: () => Promise<T>): Promise<T> {
  const made = ready();
  made.catch(() => {});
  return inLine(execution, line, (before) => (before === undefined ? made : before.then(() => made)));
}

/** The same for an operation that is not over when it is ready: those after it wait until it is carried out, too. */
export function doneInCallOrder<T, Result>(
  execution: Execution,
  line: string,
  ready: () => Promise<T>,
  carryOut: (made: T) => Promise<Result>,
): Promise<Result> {
  const made = ready();
  made.catch(() => {});
  return inLine(execution, line, async (before) => {
    await before;
    return carryOut(await made);
  });
}

function inLine<T>(
  execution: Execution,
  line: string,
  begin: (before: Promise<void> | undefined) => Promise<T>,
): Promise<T> {
  const own = lines.get(execution) ?? new Map<string, Promise<void>>();
  lines.set(execution, own);
  const inTurn = begin(own.get(line));
  const over = inTurn.then(
    () => {},
    () => {},
  );
  own.set(line, over);
  void over.then(() => own.get(line) === over && own.delete(line));
  return inTurn;
}
