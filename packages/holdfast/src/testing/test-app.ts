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
import { AttemptCounts, clockHeld, RunningSteps } from './running-steps.js';
import { Signals } from './signals.js';
import { type StepStubs, Stubs } from './stubs.js';
import { type Settling, VirtualClock } from './virtual-clock.js';

export interface TestAppOptions extends Omit<Partial<LaunchOptions>, 'database'> {
  /** A URL. Default: a temporary SQLite file. */
  readonly database?: string | undefined;
  /** Default: a virtual clock that stands still. `'real'`: the database's own. */
  readonly clock?: VirtualClock | 'real';
  /**
   * Lets go of every workflow as soon as it only waits, so that each wait ends in a replay: shows whether your code
   * repeats itself exactly.
   */
  readonly suspendAtOnce?: boolean;
  /** Crashes the app, as `crash()` does, at this statement. */
  readonly crashAt?: CrashPoint;
  /** What crashes there: the app in memory (the default), or the whole process, by SIGKILL. */
  readonly crash?: 'app' | 'process';
  /** Functions that run instead of steps and transactions, by the name of the step. */
  readonly stubs?: StepStubs;
  /**
   * How long, in real time, the clock waits for a running step before it gives up with `CLOCK_HELD` (default 4s: sooner
   * than the time limit of the common test frameworks).
   */
  readonly patience?: Duration;
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
  /** The steps that a workflow has on record, in the order in which its code called them. */
  steps(workflowId: string): Promise<RecordedStep[]>;
  /** Throws an AssertionError unless these are the steps on record: names, or as many facts of a step as matter. */
  assertSteps(workflowId: string, expected: readonly ExpectedStep[]): Promise<void>;
  /** Shuts down and removes the storage. Rejects if a stub has a name that no step has. */
  stop(): Promise<void>;
}

const defaultPatience: Duration = '4s';

/** Tests provoke retries and failures on purpose: what is only a warning elsewhere would drown their own output. */
const errorsOnly: Logger = { ...defaultLogger, warn: () => {} };

/** Also under `node --test --watch`, an edit of a workflow is a new version. */
const defaults = { name: 'test', executorId: 'test', logger: errorsOnly, dev: false };

/** Incarnations that have crashed. They share a process with those that have not, and are to be as dead as if they had not. */
const crashedHere = processWide('crashedApps', () => new Set<string>());

function asCrashed(engine: Runtime, abandon: () => Promise<void>): Promise<void> {
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
  readonly stubs: Stubs;
  readonly attempts: AttemptCounts;
  readonly cleanUp: () => Promise<void>;
}

/** Checked here with those of `launch`, which would refuse an option in its own name, and list only its own. */
const ownOptionNames = ['clock', 'suspendAtOnce', 'crashAt', 'crash', 'stubs', 'patience'];

/** Launches an app on a temporary SQLite file (or on the database given), with a virtual clock. */
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
  const { clock: clockChoice, crashAt, crash: crashOf = 'app', suspendAtOnce, stubs: _, ...rest } = options;
  const { patience = defaultPatience, ...launchOptions } = rest;
  const patienceMs = parseDuration(patience, 'testApp({ patience })');
  const { clock, signals, stubs, attempts } = shared;
  const life = new Life(suspendAtOnce === true);
  const crashClock = crashOf === 'process' ? new CrashClock(crashAt) : new CrashClock(crashAt, life.crashHere);
  const running = new RunningSteps(stubs, attempts);
  const app = await launchWith(
    { ...defaults, ...launchOptions, database: shared.database },
    {
      ...(clockChoice !== 'real' && { clock }),
      probe: crashClock.probe,
      beforeResolve: crashClock.beforeResolve,
      stepProbe: running,
      liveness: { isGone: isGoneOrCrashed },
      onStart: life.begin,
    },
  );
  life.follow(clock, (settling) => atRest({ life, crashClock, running, patienceMs }, settling));
  return {
    app,
    clock,
    signals,
    statements: crashClock.statements,
    crash: life.crash,
    crashed: life.crashed,
    restart: async (more = {}) => {
      checkOptionNames('restart()', more, ownOptionNames);
      await life.crash();
      const next = { ...shared, stubs: stubs.renewed(more.stubs) };
      return start({ ...options, crashAt: undefined as never, ...more }, next);
    },
    steps: (workflowId) => recordedSteps(app, workflowId, attempts),
    assertSteps: async (workflowId, expected) => {
      assertRecorded(await recordedSteps(app, workflowId, attempts), expected);
    },
    stop: async () => {
      const wasOver = life.over !== undefined;
      await life.end(app);
      await shared.cleanUp();
      if (!wasOver) stubs.checkKnown(life.sources());
    },
  };
}

/** One launch of an app, until it crashes or is stopped. */
class Life {
  engine: Runtime | undefined;
  /** Settles when all of a crash is over. */
  over: Promise<void> | undefined;
  readonly crashed: Promise<void>;
  private reportCrash!: () => void;
  private abandon = async (): Promise<void> => {};
  private leaveClock = (): void => {};
  private readonly releasing: NodeJS.Timeout | undefined;

  constructor(suspendAtOnce: boolean) {
    this.crashed = new Promise<void>((resolve) => {
      this.reportCrash = resolve;
    });
    if (suspendAtOnce) this.releasing = setInterval(() => releaseAll(this.engine), 1).unref();
  }

  readonly begin = (started: Runtime, abandonApp: () => Promise<void>): void => {
    this.engine = started;
    this.abandon = () => asCrashed(started, abandonApp);
  };

  /** The clock waits for the app before it moves, for as long as the app lives. */
  follow(clock: VirtualClock, settle: (settling: Settling) => Promise<void>): void {
    if (!this.over) this.leaveClock = clock.onMove(settle);
  }

  readonly crash = (): Promise<void> => {
    this.leave();
    this.over ??= this.abandon().then(this.reportCrash);
    return this.over;
  };

  readonly crashHere = (phase: CrashPoint['phase']): void => {
    void this.crash();
    // A statement that was not sent yet must not be. In the later phases the crashed app is deaf already, and an error
    // would surface in the driver's or the event loop's code, where nobody expects one.
    if (phase === 'before-send') throw new Error('The test app crashed here.');
  };

  async end(app: App): Promise<void> {
    this.leave();
    if (!this.over) await app.shutdown();
  }

  /** The code of its workflows. */
  sources(): string[] {
    return this.engine?.registry.all().map(({ source }) => source) ?? [];
  }

  private leave(): void {
    this.leaveClock();
    clearInterval(this.releasing);
  }
}

function releaseAll(engine: Runtime | undefined): void {
  for (const execution of engine?.inMemory.values() ?? []) engine?.suspend(execution);
}

interface Watched {
  readonly life: Life;
  readonly crashClock: CrashClock;
  readonly running: RunningSteps;
  readonly patienceMs: number;
}

/**
 * At rest: no statement and no step under way and no result on its way, for several turns of the event loop; or crashed. A
 * step that stays under way for too long is an error, because nothing else would say what the test waits for.
 */
async function atRest({ life, crashClock, running, patienceMs }: Watched, settling: Settling): Promise<void> {
  const since = performance.now();
  for (let quietTurns = 0, heldTurns = 0; quietTurns < 5; quietTurns++) {
    await (heldTurns < 100 ? nextTurn() : aMoment());
    if (life.over !== undefined) continue;
    const held = settling.whileRunning() ? undefined : running.atWork();
    if (held && performance.now() - Math.max(since, held.since) > patienceMs) throw clockHeld(held.facts, patienceMs);
    heldTurns = held ? heldTurns + 1 : 0;
    if (held || crashClock.underWay > 0 || life.engine?.isIdle !== true) quietTurns = -1;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A step waits for the world: the processor is to be free for that. */
function aMoment(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1));
}
