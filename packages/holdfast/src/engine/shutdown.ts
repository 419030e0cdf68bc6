import { delay } from '../model/clock.js';
import { closedError } from '../model/errors.js';
import type { Claims } from './claims.js';
import type { Engine } from './engine.js';
import type { Executions } from './executions.js';
import { flushed, handOver, waitsBeyond } from './write/hand-over.js';

/** How long the shutdown waits for open writes and claims. An unreachable database never confirms them. */
const maxFlushMs = 5_000;

/** The parts of an engine that a shutdown needs. */
type Closing = Engine & { readonly executions: Executions; readonly claims: Claims };

/**
 * Refuses new starts, and waits until all workflows have ended or only wait, but not longer than `drainMs`. First waits
 * for the services that are being stopped, but not forever: a claim retries until the database answers or the app
 * closes.
 */
export async function drain(engine: Closing, drainMs: number, stopping: Promise<unknown>): Promise<void> {
  const { lifecycle, clock, executions } = engine;
  lifecycle.refuseStarts();
  await Promise.race([stopping, flushTime()]);
  const until = clock.now() + drainMs;
  const timeUp = new AbortController();
  const timer = clock.at(until, () => timeUp.abort());
  const isDone = (): boolean =>
    executions.nextDueAt > until && [...executions.inMemory.values()].every((each) => waitsBeyond(each, until));
  while (!timeUp.signal.aborted && !isDone()) {
    await Promise.race([executions.nextEnd(), delay(clock, 100, timeUp.signal)]);
    // The end of a child reaches its waiting parent one event loop turn later.
    await new Promise((resolve) => setImmediate(resolve));
  }
  timer.cancel();
}

/** Parks unfinished workflows and puts them back on a queue, so that another process continues them. */
export async function closeAndHandOver(engine: Closing, stopping?: Promise<unknown>): Promise<void> {
  const { lifecycle, claims, executions, checkpoints, enqueueWriter, messageWriter } = engine;
  lifecycle.close();
  claims.stop();
  const { parked, owned } = executions.close();
  const writes = [flushed(checkpoints, parked), enqueueWriter.idle(), messageWriter.idle()];
  await Promise.race([Promise.all([...writes, stopping]), flushTime()]);
  for (const each of [checkpoints, enqueueWriter, messageWriter]) each.close(closedError());
  closeWaits(engine);
  await handOver(engine, owned(), maxFlushMs);
}

function flushTime(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, maxFlushMs).unref());
}

/** Stops everything like a crash: nothing is handed over, and nothing more is written. For tests. */
export function crash(engine: Closing): void {
  const { lifecycle, claims, executions, checkpoints, enqueueWriter, messageWriter } = engine;
  lifecycle.close();
  claims.stop();
  for (const each of [checkpoints, enqueueWriter, messageWriter]) each.close();
  executions.close();
  closeWaits(engine);
}

function closeWaits({ executions, completionWaiters, watches }: Closing): void {
  executions.clear();
  completionWaiters.close();
  watches.close();
}
