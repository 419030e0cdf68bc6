import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { DBOSClient } from 'dbos-sdk-4';
import { afterEach } from 'vitest';
import { Signals } from '../../src/testing/index.js';

/** A value with one of each type that both sides store and read in the same way. */
export const richValue = {
  at: new Date('2026-11-15T10:20:30.456Z'),
  missing: undefined,
  none: null,
  nested: { list: [1, [2.5, { deep: [true, undefined, ''] }]], empty: {} },
  text: 'Grüße, 世界 \u{1F680} "quoted" \\ \n',
  large: 'ü'.repeat(300_000),
  count: 12345678901234567890n,
  set: new Set(['a', 'b']),
  map: new Map([['k', { v: 1 }]]),
};

/** The rich value after a round trip in the portable format, on either side. */
export const portableValue = {
  at: '2026-11-15T10:20:30.456Z',
  none: null,
  nested: { list: [1, [2.5, { deep: [true, null, ''] }]], empty: {} },
  text: richValue.text,
  large: richValue.large,
  count: '12345678901234567890',
  set: ['a', 'b'],
  map: { k: { v: 1 } },
};

/** Options for waits of a DBOS client: it has no notifications, and polls once a second by default. */
export const often = { pollingIntervalMs: 20 };

export interface DbosWorker {
  /** The warnings and errors that the worker has logged. */
  readonly complaints: readonly string[];
  /** Resolves when a wait of the worker has found nothing: `<workflow id>::<topic or key>`. */
  looked(wait: string): Promise<void>;
  /** Runs the worker's workflow `visit` without a queue, as an application starts its own workflows. */
  visit(id: string, workflowId: string, value: unknown): Promise<void>;
  stop(): Promise<void>;
}

/** Starts DBOS clients and workers for the tests of a suite, and stops them after each test. */
export function dbosSide() {
  const ends: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    await Promise.all(ends.splice(0).map((end) => end()));
  });
  return {
    async client(database: string): Promise<DBOSClient> {
      const client = await DBOSClient.create({ systemDatabaseUrl: database, logger: quiet });
      ends.push(() => client.destroy());
      return client;
    },
    async worker(database: string, options: { readonly name?: string; readonly queue?: string } = {}) {
      const worker = await launchWorker({ database, name: 'dbos-shop', ...options });
      ends.push(() => worker.stop());
      return worker;
    },
  };
}

const quiet = { info() {}, debug() {}, warn() {}, error() {} };
const fixture = fileURLToPath(new URL('./fixtures/dbos-worker.mjs', import.meta.url));

async function launchWorker(options: object): Promise<DbosWorker> {
  const child = fork(fixture, [JSON.stringify(options)], { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
  const signals = new Signals();
  const complaints: string[] = [];
  let output = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    output += chunk;
  });
  child.on('message', ({ event, content }: { event: string; content?: string }) => {
    if (event === 'warn' || event === 'error') complaints.push(`${event}: ${content}`);
    else signals.emit(content === undefined ? event : `${event} ${content}`);
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const died = ended.then(() => Promise.reject(new Error(`The worker of DBOS has ended: ${output}${complaints}`)));
  died.catch(() => {});
  const alive = <T>(promise: Promise<T>): Promise<T> => Promise.race([promise, died]);
  await alive(signals.wait('launched'));
  return {
    complaints,
    looked: (wait) => alive(signals.wait(`looked ${wait}`)),
    visit: (id, workflowId, value) => {
      child.send({ command: 'visit', id, args: [workflowId, value] });
      return alive(signals.wait(`started ${id}`));
    },
    stop: () => stop(child, ended),
  };
}

async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  if (child.connected) child.send({ command: 'stop' });
  await ended;
}
