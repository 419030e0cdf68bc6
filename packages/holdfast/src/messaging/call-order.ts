import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { processWide } from '../model/process-wide.js';

/**
 * The calls of an execution are kept in order. The calls outside workflows that use the same app are kept in order,
 * too.
 */
type Owner = Execution | Engine;

/** The last unfinished call of each line (a topic, an event or a stream) of an owner. */
const lines = processWide('callOrder', () => new WeakMap<Owner, Map<string, Promise<void>>>());

/** Returns true if a call of this line is still being prepared. Every later call must wait, even if it is ready. */
export function hasEarlierCalls(owner: Owner, line: string): boolean {
  return lines.get(owner)?.has(line) ?? false;
}

/**
 * Prepares an operation and resolves after all earlier calls of the same line (a topic, an event, a stream). A
 * serializer or a schema may take longer for one value than for the next, and the end of a stream needs no
 * preparation. The end must still not overtake the last value.
 */
export function inCallOrder<T>(owner: Owner, line: string, prepare: () => Promise<T>): Promise<T> {
  const prepared = prepare();
  prepared.catch(() => {});
  return inLine(owner, line, (previous) => (previous === undefined ? prepared : previous.then(() => prepared)));
}

/** Like {@link inCallOrder}, for an operation with a second part: later calls also wait until `carryOut` is done. */
export function runInCallOrder<T, Result>(
  execution: Execution,
  line: string,
  prepare: () => Promise<T>,
  carryOut: (prepared: T) => Promise<Result>,
): Promise<Result> {
  const prepared = prepare();
  prepared.catch(() => {});
  return inLine(execution, line, async (previous) => {
    await previous;
    return carryOut(await prepared);
  });
}

function inLine<T>(owner: Owner, line: string, begin: (previous: Promise<void> | undefined) => Promise<T>): Promise<T> {
  const ownLines = lines.get(owner) ?? new Map<string, Promise<void>>();
  lines.set(owner, ownLines);
  const call = begin(ownLines.get(line));
  const ended = call.then(
    () => {},
    () => {},
  );
  ownLines.set(line, ended);
  void ended.then(() => ownLines.get(line) === ended && ownLines.delete(line));
  return call;
}
