import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { processWide } from '../model/process-wide.js';

/** Whose calls are kept in order: those of an execution, or those through an app that are outside workflows. */
type Owner = Execution | Engine;

/** The last call of each line of an owner that is still being made ready. */
const lines = processWide('callOrder', () => new WeakMap<Owner, Map<string, Promise<void>>>());

/** Whether calls of this line are still being made ready: one that is ready at once must wait for them all the same. */
export function isAnyBefore(owner: Owner, line: string): boolean {
  return lines.get(owner)?.has(line) ?? false;
}

/**
 * Makes an operation ready and lets it go on in its turn: after those of the same line (a topic, an event, a stream) that
 * were called before it. A serializer or a schema may take longer with one value than with the next, and a stream's end
 * needs none at all: it must not come before the last value.
 */
export function inCallOrder<T>(owner: Owner, line: string, ready: () => Promise<T>): Promise<T> {
  const made = ready();
  made.catch(() => {});
  return inLine(owner, line, (before) => (before === undefined ? made : before.then(() => made)));
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

function inLine<T>(owner: Owner, line: string, begin: (before: Promise<void> | undefined) => Promise<T>): Promise<T> {
  const own = lines.get(owner) ?? new Map<string, Promise<void>>();
  lines.set(owner, own);
  const inTurn = begin(own.get(line));
  const over = inTurn.then(
    () => {},
    () => {},
  );
  own.set(line, over);
  void over.then(() => own.get(line) === over && own.delete(line));
  return inTurn;
}
