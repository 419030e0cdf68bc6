import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { App } from '../app/app.js';
import { launchWith } from '../app/launch.js';
import { checkOptionNames, type LaunchOptions } from '../app/options.js';
import type { Runtime } from '../engine/runtime.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { defaultLogger, type Logger } from '../model/logger.js';
import { processWide } from '../model/process-wide.js';
import { isGone } from '../recovery/process.js';
import type { ExecutorRecord } from '../storage/contract/executors.js';
import { CrashClock, type CrashPoint } from './crash-point.js';
import { assertRecorded, type ExpectedStep, type RecordedStep, recordedSteps } from './recorded-steps.js';
import { AttemptCounts, clockHeldError, RunningSteps } from './running-steps.js';
import { Signals } from './signals.js';
import { type StepStubs, Stubs } from './stubs.js';
import { type Settling, VirtualClock } from './virtual-clock.js';

/** Options of `testApp()`: those of `launch()`, all optional, and more for tests. */
export interface TestAppOptions extends Omit<Partial<LaunchOptions>, 'database'> {
  /** URL of the database. Default: a temporary SQLite file, which `stop()` deletes. */
  readonly database?: string | undefined;
  /** Default: a virtual clock that stands still until the test moves it. `'real'`: the clock of the database. */
  readonly clock?: VirtualClock | 'real';
  /**
   * Suspends each workflow as soon as it only waits, so that every wait ends with a replay. Shows whether your
   * workflow functions are deterministic.
   */
  readonly suspendAtOnce?: boolean;
  /** Crashes the app at this database statement, as `crash()` does. */
  readonly crashAt?: CrashPoint;
  /** The target of the crash at `crashAt`: the app in memory (the default), or the whole process, by SIGKILL. */
  readonly crash?: 'app' | 'process';
  /**
   * Functions that run instead of steps and transactions, by step name. `stub()` makes one with the types of the step.
   */
  readonly stubs?: StepStubs;
  /**
   * How long, in real time, the virtual clock waits for a running step before `advance` or `runUntil` rejects with
   * `CLOCK_HELD`. Default: 4 seconds, which is less than the timeout of common test frameworks.
   */
  readonly patience?: Duration;
}

/**
 * An app for tests, with temporary storage, a virtual clock, signals, and crashes that do not kill a process.
 *
 * @example
 * const test = await testApp({ workflows: [trial] });
 * const { id } = await trial.start('Ada');
 * await test.clock.advance('30 days');
 * await test.assertSteps(id, ['welcome', 'DBOS.sleep', 'charge']);
 * await test.stop();
 */
export interface TestApp {
  /** The app, as `launch()` returns it. */
  readonly app: App;
  /** The clock of the app. The test moves it. */
  readonly clock: VirtualClock;
  /** Signals between the test and the code under test. */
  readonly signals: Signals;
  /** Names of the database statements sent so far. */
  readonly statements: readonly string[];
  /**
   * Crashes the app: its memory is lost, it hands over nothing, and it writes nothing more.
   *
   * @example
   * await test.crash();
   * const restarted = await test.restart();
   */
  crash(): Promise<void>;
  /** Resolves when the app has crashed at `crashAt`. */
  readonly crashed: Promise<void>;
  /**
   * Launches the app again on the same storage, as the same executor. If the app is running, it crashes first.
   * `options` replace the earlier options.
   *
   * @example
   * const restarted = await test.restart();
   * await restarted.clock.advance('1 day');
   */
  restart(options?: TestAppOptions): Promise<TestApp>;
  /**
   * Returns the recorded steps of a workflow, in the order in which its code called them.
   *
   * @example
   * const [welcome] = await test.steps('trial-1');
   * console.log(welcome?.name, welcome?.attempts);
   */
  steps(workflowId: string): Promise<RecordedStep[]>;
  /**
   * Rejects with an AssertionError unless the workflow has exactly these recorded steps. Each expectation is a step
   * name, or an object with some properties of the step.
   *
   * @example
   * await test.assertSteps('trial-1', ['welcome', { name: 'charge', attempts: 2 }]);
   */
  assertSteps(workflowId: string, expected: readonly ExpectedStep[]): Promise<void>;
  /**
   * Shuts down the app, and deletes its temporary storage. Rejects if no step has the name of one of the stubs.
   *
   * @example
   * afterEach(() => test.stop());
   */
  stop(): Promise<void>;
}

const defaultPatience: Duration = '4s';

/** Logs errors only. Tests provoke retries and failures on purpose, so warnings would hide the output of the tests. */
const errorsOnly: Logger = { ...defaultLogger, warn: () => {} };

/** `dev: false`: even under `node --test --watch`, an edit of a workflow is a new version. */
const defaults = { name: 'test', executorId: 'test', logger: errorsOnly, dev: false };

/**
 * Incarnations that have crashed. They share this process with incarnations that are alive, so their pid does not show
 * that they are dead.
 */
const crashedHere = processWide('crashedApps', () => new Set<string>());

function asCrashed(engine: Runtime, abandon: () => Promise<void>): Promise<void> {
  crashedHere.add(engine.owners.incarnation);
  return abandon();
}

function isGoneOrCrashed(executor: ExecutorRecord): boolean {
  return crashedHere.has(executor.incarnation) || isGone(executor);
}

interface Shared {
  readonly clock: VirtualClock;
  readonly signals: Signals;
  readonly database: string;
  readonly stubs: Stubs;
  readonly attempts: AttemptCounts;
  readonly cleanUp: () => Promise<void>;
}

/**
 * These names are checked together with the options of `launch()`, so that error messages name `testApp()` and list all
 * of its options.
 */
const ownOptionNames = ['clock', 'suspendAtOnce', 'crashAt', 'crash', 'stubs', 'patience'];

/**
 * Launches an app for a test, with a virtual clock, on a temporary SQLite file (or on the given database).
 *
 * @example
 * const test = await testApp({ workflows: [trial] });
 * const handle = await trial.start('Ada');
 * await test.clock.advance('30 days');
 * const result = await test.clock.runUntil(handle.result());
 * await test.stop();
 */
export async function testApp(options: TestAppOptions = {}): Promise<TestApp> {
  checkOptionNames('testApp()', options, ownOptionNames);
  const clock = typeof options.clock === 'object' ? options.clock : new VirtualClock();
  const common = { clock, signals: new Signals(), stubs: new Stubs(options.stubs), attempts: new AttemptCounts() };
  if (options.database) return start(options, { ...common, database: options.database, cleanUp: async () => {} });
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-test-'));
  const cleanUp = () => rm(folder, { recursive: true, force: true });
  try {
    return await start(options, { ...common, database: `sqlite:${join(folder, 'test.sqlite')}`, cleanUp });
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

async function start(options: TestAppOptions, shared: Shared): Promise<TestApp> {
  const { clock: clockChoice, crashAt, crash: crashTarget = 'app', suspendAtOnce, stubs: _, ...rest } = options;
  const { patience = defaultPatience, ...launchOptions } = rest;
  const patienceMs = parseDuration(patience, 'testApp({ patience })');
  const { clock, signals, stubs, attempts } = shared;
  const lifetime = new Lifetime(suspendAtOnce === true);
  const crashClock = crashTarget === 'process' ? new CrashClock(crashAt) : new CrashClock(crashAt, lifetime.crashHere);
  const running = new RunningSteps(stubs, attempts);
  const app = await launchWith(
    { ...defaults, ...launchOptions, database: shared.database },
    {
      ...(clockChoice !== 'real' && { clock }),
      probe: crashClock.probe,
      beforeResolve: crashClock.beforeResolve,
      stepProbe: running,
      liveness: { isGone: isGoneOrCrashed },
      onStart: lifetime.begin,
    },
  );
  lifetime.follow(clock, (settling) => untilIdle({ lifetime, crashClock, running, patienceMs }, settling));
  return {
    app,
    clock,
    signals,
    statements: crashClock.statements,
    crash: lifetime.crash,
    crashed: lifetime.crashed,
    restart: async (more = {}) => {
      checkOptionNames('restart()', more, ownOptionNames);
      await lifetime.crash();
      const next = { ...shared, stubs: stubs.renewed(more.stubs) };
      return start({ ...options, crashAt: undefined as never, ...more }, next);
    },
    steps: (workflowId) => recordedSteps(app, workflowId, attempts),
    assertSteps: async (workflowId, expected) => {
      assertRecorded(await recordedSteps(app, workflowId, attempts), expected);
    },
    stop: async () => {
      const hadCrashed = lifetime.crashEnd !== undefined;
      await lifetime.end(app);
      await shared.cleanUp();
      if (!hadCrashed) stubs.checkKnown(lifetime.sources());
    },
  };
}

/** One launch of an app, until it crashes or is stopped. */
class Lifetime {
  engine: Runtime | undefined;
  /** Settles when the crash is complete. Undefined: the app has not crashed. */
  crashEnd: Promise<void> | undefined;
  readonly crashed: Promise<void>;
  private reportCrash!: () => void;
  private abandon = async (): Promise<void> => {};
  private leaveClock = (): void => {};
  private readonly suspending: NodeJS.Timeout | undefined;

  constructor(suspendAtOnce: boolean) {
    this.crashed = new Promise<void>((resolve) => {
      this.reportCrash = resolve;
    });
    if (suspendAtOnce) this.suspending = setInterval(() => suspendAll(this.engine), 1).unref();
  }

  readonly begin = (started: Runtime, abandonApp: () => Promise<void>): void => {
    this.engine = started;
    this.abandon = () => asCrashed(started, abandonApp);
  };

  /** Makes the clock wait for the app before each move, as long as the app lives. */
  follow(clock: VirtualClock, settle: (settling: Settling) => Promise<void>): void {
    if (!this.crashEnd) this.leaveClock = clock.onMove(settle);
  }

  readonly crash = (): Promise<void> => {
    this.stopFollowing();
    this.crashEnd ??= this.abandon().then(this.reportCrash);
    return this.crashEnd;
  };

  readonly crashHere = (phase: CrashPoint['phase']): void => {
    void this.crash();
    // The error prevents the statement from being sent. In the later phases the crashed app ignores all results. An
    // error would surface there in code of the driver or the event loop, which does not handle it.
    if (phase === 'before-send') throw new Error('The test app crashed here.');
  };

  async end(app: App): Promise<void> {
    this.stopFollowing();
    if (!this.crashEnd) await app.shutdown();
  }

  /** Returns the source code of the workflows. */
  sources(): string[] {
    return this.engine?.registry.all().map(({ source }) => source) ?? [];
  }

  private stopFollowing(): void {
    this.leaveClock();
    clearInterval(this.suspending);
  }
}

function suspendAll(engine: Runtime | undefined): void {
  for (const execution of engine?.executions.inMemory.values() ?? []) engine?.executions.suspend(execution);
}

interface Observed {
  readonly lifetime: Lifetime;
  readonly crashClock: CrashClock;
  readonly running: RunningSteps;
  readonly patienceMs: number;
}

/**
 * Resolves when the app is idle: no statement, step or delivery is in progress for five event loop turns, or the app
 * has crashed. Rejects if a step runs for too long, because otherwise nothing would say what the test waits for.
 */
async function untilIdle({ lifetime, crashClock, running, patienceMs }: Observed, settling: Settling): Promise<void> {
  const since = performance.now();
  for (let quietTurns = 0, busyTurns = 0; quietTurns < 5; quietTurns++) {
    await (busyTurns < 100 ? nextTurn() : shortPause());
    if (lifetime.crashEnd !== undefined) continue;
    const busy = settling.whileRunning() ? undefined : running.atWork();
    if (busy && performance.now() - Math.max(since, busy.since) > patienceMs)
      throw clockHeldError(busy.facts, patienceMs);
    busyTurns = busy ? busyTurns + 1 : 0;
    if (busy || crashClock.underWay > 0 || lifetime.engine?.isIdle !== true) quietTurns = -1;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Pauses for 1 ms while a step waits for I/O, so that the processor is free for it. */
function shortPause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1));
}
