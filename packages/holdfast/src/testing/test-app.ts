import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { App } from '../app/app.js';
import { launchWith } from '../app/launch.js';
import type { LaunchOptions } from '../app/options.js';
import type { Executions } from '../engine/executions.js';
import { CrashClock, type CrashPoint } from './crash-point.js';
import { Signals } from './signals.js';
import { VirtualClock } from './virtual-clock.js';

export interface TestAppOptions extends Partial<LaunchOptions> {
  /** Default: a virtual clock that stands still. `'real'`: the database's own. */
  readonly clock?: VirtualClock | 'real';
  /** Crashes the app, as `crash()` does, at this statement. */
  readonly crashAt?: CrashPoint;
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

interface Shared {
  readonly clock: VirtualClock;
  readonly signals: Signals;
  readonly database: string;
  readonly cleanUp: () => Promise<void>;
}

/** Launches an app on a temporary SQLite file (or on the database given), with a virtual clock. */
export async function testApp(options: TestAppOptions = {}): Promise<TestApp> {
  const clock = options.clock instanceof VirtualClock ? options.clock : new VirtualClock();
  const signals = new Signals();
  if (options.database) return start(options, { clock, signals, database: options.database, cleanUp: async () => {} });
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-test-'));
  const cleanUp = () => rm(folder, { recursive: true, force: true });
  return start(options, { clock, signals, database: `sqlite:${join(folder, 'test.sqlite')}`, cleanUp });
}

async function start(options: TestAppOptions, shared: Shared): Promise<TestApp> {
  const { clock: clockChoice, crashAt, ...launchOptions } = options;
  let engine: Executions | undefined;
  let abandon = async (): Promise<void> => {};
  let over: Promise<void> | undefined;
  let reportCrash = (): void => {};
  const crashed = new Promise<void>((resolve) => {
    reportCrash = resolve;
  });
  const crash = (): Promise<void> => {
    over ??= abandon().then(reportCrash);
    return over;
  };
  const crashClock = new CrashClock(crashAt, () => {
    void crash();
    throw new Error('The test app crashed here.');
  });
  const app = await launchWith(
    { name: 'test', executorId: 'test', ...launchOptions, database: shared.database },
    {
      ...(clockChoice !== 'real' && { clock: shared.clock }),
      probe: crashClock.probe,
      beforeResolve: crashClock.beforeResolve,
      onStart: (started, abandonApp) => {
        engine = started;
        abandon = abandonApp;
      },
    },
  );
  shared.clock.onMove(() => atRest(crashClock, engine));
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
      if (!over) await app.shutdown();
      await shared.cleanUp();
    },
  };
}

/** At rest: no statement under way and no result on its way, for several turns of the event loop. */
async function atRest(crashClock: CrashClock, engine: Executions | undefined): Promise<void> {
  for (let quietTurns = 0; quietTurns < 5; quietTurns++) {
    await new Promise((resolve) => setImmediate(resolve));
    if (crashClock.underWay > 0 || !engine?.atRest) quietTurns = -1;
  }
}
