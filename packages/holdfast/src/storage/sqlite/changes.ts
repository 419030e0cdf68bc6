import type { ListenerCallbacks, Listening } from '../contract/listening.js';

/** How often the file is polled. A poll reads a number in shared memory, which takes microseconds. */
const pollMs = 10;

/**
 * The pause after a reported change. Without it, a neighbor process that commits all the time would keep this process
 * querying all the time.
 */
const pauseAfterChangeMs = 20;

/** Reports when another connection has committed. SQLite does not say what changed. */
export function watchChanges(changeCounter: () => number, callbacks: ListenerCallbacks): Listening {
  // A poll can fail, for example while another process recovers the file after a crash. A timer callback has no caller
  // that could catch the error.
  const readCounter = (): number | undefined => {
    try {
      return changeCounter();
    } catch {
      return undefined;
    }
  };
  let last = readCounter();
  let timer: NodeJS.Timeout;
  const poll = (): void => {
    const current = readCounter() ?? last;
    const changed = current !== last;
    last = current;
    timer = setTimeout(poll, changed ? pauseAfterChangeMs : pollMs).unref();
    if (changed) callbacks.received(null);
  };
  timer = setTimeout(poll, pollMs).unref();
  callbacks.state(true);
  return { ready: Promise.resolve(), stop: async () => clearTimeout(timer) };
}
