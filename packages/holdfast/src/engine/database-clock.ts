import { DatabaseClock } from '../model/clock.js';
import type { Logger } from '../model/logger.js';
import type { Storage } from '../storage/contract/storage.js';
import { Loop } from './loop.js';

const everyMs = 30_000;

/** Returns a clock that was set to the clock of the database once. */
export async function databaseClock(storage: Storage): Promise<DatabaseClock> {
  const clock = new DatabaseClock();
  await read(storage, clock);
  return clock;
}

/** Returns the loop that keeps the clock close to the clock of the database. */
export function clockSync(storage: Storage, clock: DatabaseClock, logger: Logger): Loop {
  return new Loop({ name: 'Reading the database clock', everyMs, clock, logger, runOnce: () => read(storage, clock) });
}

async function read(storage: Storage, clock: DatabaseClock): Promise<void> {
  const requestedAt = performance.now();
  const serverNow = await storage.now();
  clock.sync(serverNow, requestedAt, performance.now());
}
