import type { ListenerCallbacks, Listening } from '../database.js';

/** How often the file is looked at: a number in shared memory, read in microseconds. */
const lookMs = 10;

/** Between two reports: a neighbour that commits all the time would otherwise keep this process looking all the time. */
const restMs = 20;

/** SQLite does not say what changed, only that another connection has committed. */
export function watchChanges(changeCounter: () => number, hearing: ListenerCallbacks): Listening {
  // A look can fail (an I/O error, another process that recovers the file after a crash), and nobody is there to catch that.
  const count = (): number | undefined => {
    try {
      return changeCounter();
    } catch {
      return undefined;
    }
  };
  let last = count();
  let timer: NodeJS.Timeout;
  const look = (): void => {
    const now = count() ?? last;
    const changed = now !== last;
    last = now;
    timer = setTimeout(look, changed ? restMs : lookMs).unref();
    if (changed) hearing.received(null);
  };
  timer = setTimeout(look, lookMs).unref();
  hearing.state(true);
  return { ready: Promise.resolve(), stop: async () => clearTimeout(timer) };
}
