import pg from 'pg';
import { onTestFinished } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { whileWaiting } from '../../src/engine/api/context.js';
import type { Logger } from '../../src/index.js';
import type { VirtualClock } from '../../src/testing/index.js';

/** Runs SQL that the app does not know about, like a fault or another program. Table names have no schema. */
export async function tamper(database: string, sql: string): Promise<Record<string, unknown>[]> {
  if (database.startsWith('sqlite')) {
    const db = openSqlite(database);
    try {
      return db.query(sql);
    } finally {
      db.close();
    }
  }
  const client = new pg.Client(database);
  await client.connect();
  try {
    await client.query('set search_path to dbos');
    return (await client.query(sql)).rows as Record<string, unknown>[];
  } finally {
    await client.end();
  }
}

/** A promise that the test settles. A step that awaits it waits for the test, so it does not block a virtual clock. */
export function gate<T = void>(): {
  readonly promise: Promise<T>;
  open: (value: T) => void;
  fail: (error: unknown) => void;
} {
  let open!: (value: T) => void;
  let fail!: (error: unknown) => void;
  const promise = new Promise<T>((resolve, reject) => {
    [open, fail] = [resolve, reject];
  });
  return {
    get promise() {
      return whileWaiting(promise);
    },
    open,
    fail,
  };
}

/** Returns a promise that never settles. */
export function forever(): Promise<never> {
  return whileWaiting(new Promise(() => {}));
}

export interface RecordingLogger extends Logger {
  readonly lines: string[];
  matching(pattern: RegExp): string[];
}

/** Collects warnings and errors for the test to read. */
export function recordingLogger(): RecordingLogger {
  const lines: string[] = [];
  const keep = (line: string): void => void lines.push(line);
  return {
    lines,
    debug: () => {},
    info: () => {},
    warn: keep,
    error: keep,
    matching: (pattern) => lines.filter((line) => pattern.test(line)),
  };
}

/** Returns the error that the promise rejects with. */
export async function failure(promise: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  const settled = await promise.then(
    () => ({ ok: true, error: undefined }),
    (error: unknown) => ({ ok: false, error }),
  );
  if (settled.ok) throw new Error('Expected a rejection, but the promise resolved.');
  return settled.error as Error & Record<string, unknown>;
}

/** Returns the error that a synchronous call throws. */
export function thrown(call: () => unknown): Error & Record<string, unknown> {
  try {
    call();
  } catch (error) {
    return error as Error & Record<string, unknown>;
  }
  throw new Error('Expected an exception, but the call returned.');
}

/** Advances the clock in small steps, so that services which poll at intervals run, until the promise settles. */
export async function overTime<T>(
  clock: VirtualClock,
  promise: Promise<T>,
  limitSeconds = 600,
  stepSeconds = 1,
): Promise<T> {
  let pending = true;
  const done = (): void => {
    pending = false;
  };
  promise.then(done, done);
  for (let at = 0; pending && at < limitSeconds; at += stepSeconds) await clock.advance(stepSeconds * 1_000);
  if (pending) throw new Error(`Nothing happened within ${limitSeconds} s of virtual time.`);
  return promise;
}

/** Returns true if the promise has settled by the time the app is idle. */
export async function isSettled(clock: VirtualClock, promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const done = (): void => {
    settled = true;
  };
  promise.then(done, done);
  await clock.advance(0);
  return settled;
}

/** Finds Postgres sessions that listen. Their last statement is LISTEN, or a check of their process's presence lock. */
export function listeningSessions(database: string): Promise<Record<string, unknown>[]> {
  return tamper(
    database,
    `select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
     and (query ~* '^(un)?listen ' or query ~ 'from pg_locks.*pg_backend_pid')`,
  );
}

/** Collects unhandled rejections, which would end the process, until the end of the test. */
export function watchUnhandled(): unknown[] {
  const seen: unknown[] = [];
  const others = process.listeners('unhandledRejection');
  const keep = (error: unknown): void => void seen.push(error);
  process.removeAllListeners('unhandledRejection');
  process.on('unhandledRejection', keep);
  onTestFinished(() => {
    process.removeListener('unhandledRejection', keep);
    for (const each of others) process.on('unhandledRejection', each);
  });
  return seen;
}
