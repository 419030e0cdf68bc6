import type { Execution } from '../engine/execution.js';

/** The last call of each line of an execution that is still being made ready. */
const lines = new WeakMap<Execution, Map<string, Promise<void>>>();

/**
 * Makes an operation ready and lets it go on in its turn: after those of the same line (a topic, an event, a stream) that
 * were called before it. A serializer or a schema may take longer with one value than with the next, and a stream's end
 * needs none at all: it must not come before the last value.
 */
export function inCallOrder<T>(execution: Execution, line: string, ready: () => Promise<T>): Promise<T> {
  const own = lines.get(execution) ?? new Map<string, Promise<void>>();
  lines.set(execution, own);
  const before = own.get(line);
  const made = ready();
  made.catch(() => {});
  const inTurn = before ? before.then(() => made) : made;
  const over = inTurn.then(
    () => {},
    () => {},
  );
  own.set(line, over);
  void over.then(() => own.get(line) === over && own.delete(line));
  return inTurn;
}
