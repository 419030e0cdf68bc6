import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { App } from '../app/app.js';
import { launchWith } from '../app/launch.js';
import type { LaunchOptions } from '../app/options.js';
import type { Executions } from '../engine/executions.js';
import { defaultLogger, type Logger } from '../model/logger.js';
import { processWide } from '../model/process-wide.js';
import { isGone } from '../recovery/process.js';
import type { ExecutorRecord } from '../storage/executors.js';
import { CrashClock, type CrashPoint } from './crash-point.js';
import { Signals } from './signals.js';
import { VirtualClock } from './virtual-clock.js';

export interface TestAppOptions extends Omit<Partial<LaunchOptions>, 'database'> {
  /** A URL. Default: a temporary SQLite file. */
  readonly database?: string | undefined;
  /** Default: a virtual clock that stands still. `'real'`: the database's own. */
  readonly clock?: VirtualClock | 'real';
  /**
   * Lets go of every workflow as soon as it only waits, so that each wait ends in a replay: shows whether your code
   * repeats itself exactly.
   */
  readonly releaseAtOnce?: boolean;
  /** Crashes the app, as `crash()` does, at this statement. */
  readonly crashAt?: CrashPoint;
  /** What crashes there: the app in memory (the default), or the whole process, by SIGKILL. */
  readonly crash?: 'app' | 'process';
}

/** An app for tests: temporary storage, a clock of its own, signals, and crashes without a process to kill. */
export interface TestApp {
  readonly app: App;
  readonly clock: VirtualClock;
  readonly signals: Signals;
  /** Names of the database statements made so far. */
  readonly statements: readonly string[];
  /** Everything in memory is gone from one moment to the next; nothing is handed over, nothing more is written. */
  crash(): Promise<void>;
  /** Resolves when the app has crashed at `crashAt`. */
  readonly crashed: Promise<void>;
  /** Launches again on the same storage, as the same executor. Crashes the app first if it is still running. */
  restart(options?: TestAppOptions): Promise<TestApp>;
  /** Shuts down and removes the storage. */
  stop(): Promise<void>;
}

/** Tests provoke retries and failures on purpose: what is only a warning elsewhere would drown their own output. */
const errorsOnly: Logger = { ...defaultLogger, warn: () => {} };

/** Incarnations that have crashed. They share a process with those that have not, and are to be as dead as if they had not. */
const crashedHere = processWide('crashedApps', () => new Set<string>());

function asCrashed(engine: Executions, abandon: () => Promise<void>): Promise<void> {
  crashedHere.add(engine.owners.incarnation);
  return abandon();
}

function isGoneOrCrashed(peer: ExecutorRecord): boolean {
  return crashedHere.has(peer.incarnation) || isGone(peer);
}

interface Shared {
  readonly clock: VirtualClock;
  readonly signals: Signals;
  readonly database: string;
  readonly cleanUp: () => Promise<void>;
}

/** Launches an app on a temporary SQLite file (or on the database given), with a virtual clock. */
export async function testApp(options: TestAppOptions = {}): Promise<TestApp> {
  const clock = typeof options.clock === 'object' ? options.clock : new VirtualClock();
  const signals = new Signals();
  if (options.database) return start(options, { clock, signals, database: options.database, cleanUp: async () => {} });
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-test-'));
  const cleanUp = () => rm(folder, { recursive: true, force: true });
  return start(options, { clock, signals, database: `sqlite:${join(folder, 'test.sqlite')}`, cleanUp });
}

async function start(options: TestAppOptions, shared: Shared): Promise<TestApp> {
  const { clock: clockChoice, crashAt, crash: crashOf = 'app', releaseAtOnce, ...launchOptions } = options;
  let engine: Executions | undefined;
  let abandon = async (): Promise<void> => {};
  let over: Promise<void> | undefined;
  let reportCrash = (): void => {};
  const crashed = new Promise<void>((resolve) => {
    reportCrash = resolve;
  });
  let forget = (): void => {};
  const releasing = releaseAtOnce ? setInterval(() => releaseAll(engine), 1).unref() : undefined;
  const crash = (): Promise<void> => {
    forget();
    clearInterval(releasing);
    over ??= abandon().then(reportCrash);
    return over;
  };
  const crashApp = (phase: CrashPoint['phase']): void => {
    void crash();
    // A statement that was not sent yet must not be. In the later phases the crashed app is deaf already, and an error
    // would surface in the driver's or the event loop's code, where nobody expects one.
    if (phase === 'before-send') throw new Error('The test app crashed here.');
  };
  const crashClock = crashOf === 'process' ? new CrashClock(crashAt) : new CrashClock(crashAt, crashApp);
  const app = await launchWith(
    { name: 'test', executorId: 'test', logger: errorsOnly, ...launchOptions, database: shared.database },
    {
      ...(clockChoice !== 'real' && { clock: shared.clock }),
      probe: crashClock.probe,
      beforeResolve: crashClock.beforeResolve,
      liveness: { isGone: isGoneOrCrashed },
      onStart: (started, abandonApp) => {
        engine = started;
        abandon = () => asCrashed(started, abandonApp);
      },
    },
  );
  if (!over)
    forget = shared.clock.onMove(() =>
      atRest(() => over !== undefined || (crashClock.underWay === 0 && engine?.atRest === true)),
    );
  return {
    app,
    clock: shared.clock,
    signals: shared.signals,
    statements: crashClock.statements,
    crash,
    crashed,
    restart: async (more = {}) => {
      await crash();
      return start({ ...options, crashAt: undefined as never, ...more }, shared);
    },
    stop: async () => {
      forget();
      clearInterval(releasing);
      if (!over) await app.shutdown();
      await shared.cleanUp();
    },
  };
}

function releaseAll(engine: Executions | undefined): void {
  for (const execution of engine?.inMemory.values() ?? []) engine?.rest(execution);
}

/** At rest: no statement under way and no result on its way, for several turns of the event loop; or crashed. */
async function atRest(quiet: () => boolean): Promise<void> {
  for (let quietTurns = 0; quietTurns < 5; quietTurns++) {
    await new Promise((resolve) => setImmediate(resolve));
    if (!quiet()) quietTurns = -1;
  }
}
