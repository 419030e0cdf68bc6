import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { isHoldfastError } from '../../src/index.js';
import { type CrashPoint, type TestApp, testApp, VirtualClock } from '../../src/testing/index.js';
import { type Backend, describeBackends, silent } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { report } from './child-process.js';
import { World } from './interpreter.js';
import { allows } from './model.js';
import { type Outcome, type Plan, type PlannedCrash, plans } from './programs.js';
import { isCompleted, openRows, type RowReader } from './rows.js';
import { divergencesOf } from './traces.js';

const seed = Number(process.env.HOLDFAST_FAULT_SEED ?? 1);
/** A launch costs several times more on Postgres. HOLDFAST_FAULT_PROGRAMS=5000 takes a whole night. */
const programCounts = { sqlite: 70, postgres: 24 };
/**
 * Each lane has its own store, because a launch recovers what another lane has crashed with. SQLite calls block, so it
 * has one lane.
 */
const lanes = { sqlite: 1, postgres: 3 };

describeBackends('random programs', (backend) => {
  it('replay exactly, wherever they crash', async () => {
    const programs = Number(process.env.HOLDFAST_FAULT_PROGRAMS ?? programCounts[backend.name]);
    const divergences: string[] = [];
    let crashes = 0;
    const waiting = [...fc.sample(plans, { seed, numRuns: programs }).entries()];
    const runLane = async (): Promise<void> => {
      const store = await openStore(backend);
      onTestFinished(store.rows.close);
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        const [n, plan] = next;
        // In every third program each wait ends in a replay, as if memory were scarce.
        const trial = new Trial(
          store,
          `program-${n}`,
          plan,
          n % 3 === 0 || process.env.HOLDFAST_SUSPEND_AT_ONCE === '1',
        );
        const found = await trial.run();
        crashes += trial.crashes;
        if (found.length > 0) divergences.push(`program ${n}: ${found.join('; ')} ${JSON.stringify(plan)}`);
      }
    };
    await Promise.all(Array.from({ length: lanes[backend.name] }, runLane));
    report(
      `random programs (${backend.name}): ${programs} programs, ${crashes} crashes, ${divergences.length} diverged; ` +
        `HOLDFAST_FAULT_SEED=${seed}`,
    );
    expect(divergences.map((each) => each.slice(0, 2000)).slice(0, 3)).toEqual([]);
    // Every program crashed once. Most must also have crashed in their recovery.
    expect(crashes).toBeGreaterThan(programs * 1.5);
  }, 240_000);
});

interface Store {
  readonly database: string;
  readonly rows: RowReader;
}

async function openStore(backend: Backend): Promise<Store> {
  const database = await backend.newDatabase();
  await (await testApp({ database, logger: silent, version: 'faults' })).stop();
  return { database, rows: await openRows(database) };
}

/**
 * The number of statements of a launch without work, and of a launch that recovers. Crashes come after these
 * statements.
 */
const idleLaunch = 9;
const recoveringLaunch = 15;

/** A point between the launch and the last statement. */
function crashPoint({ at, phase }: PlannedCrash, launch: number, statements: number): CrashPoint {
  return { statement: launch + 1 + Math.floor(at * Math.max(0, statements - launch - 1)), phase };
}

/**
 * One program: it is counted, crashed, crashed again in recovery, finished, and replayed from its finished history.
 */
class Trial {
  crashes = 0;
  /** The workflow that is crashed and replayed. */
  private id = '';
  private attempts = 0;
  private readonly world = new World();
  private readonly outcomes = new Map<string, Outcome[]>();

  constructor(
    private readonly store: Store,
    private readonly name: string,
    private readonly plan: Plan,
    private readonly releases: boolean,
  ) {
    this.world.latencySeed = plan.latencySeed;
  }

  async run(): Promise<string[]> {
    const [first, second] = this.plan.crashes;
    const statements = await this.execute(`${this.name}-counted`);
    let made = 0;
    // With other latencies a run may make fewer statements. A fault that did not land moves to an earlier point until
    // it lands.
    for (let at = first.at; this.crashes === 0; at /= 2) {
      this.id = `${this.name}-${this.attempts++}`;
      made = await this.execute(this.id, crashPoint({ ...first, at }, idleLaunch, statements));
    }
    await this.noteCommitted();
    await this.execute(this.id, crashPoint(second, recoveringLaunch, recoveringLaunch + statements - made));
    await this.noteCommitted();
    await this.execute(this.id);
    await this.noteCommitted();
    await this.unfinish();
    await this.execute(this.id);
    return [...this.world.violations, ...this.wrongOutcomes(), ...divergencesOf(this.world.traces, this.id)];
  }

  /**
   * Launches, starts the program (or finds it already started) and advances the clock until it has ended or crashed.
   */
  private async execute(id: string, crashAt?: CrashPoint): Promise<number> {
    const { world } = this;
    world.launches++;
    world.clock = new VirtualClock();
    const launched = testApp({
      suspendAtOnce: this.releases,
      database: this.store.database,
      workflows: [world.root, world.child],
      version: 'faults',
      logger: silent,
      clock: world.clock,
      ...(crashAt && { crashAt }),
    });
    const t = await launched.catch((error) => {
      // The app crashed during its launch.
      if (!crashAt) throw error;
    });
    if (!t) {
      this.crashes++;
      return crashAt?.statement ?? 0;
    }
    const outcome = await t.clock.runUntil(withWatchdog(Promise.race([this.outcome(t, id), t.crashed])));
    if (!outcome) this.crashes++;
    else this.outcomes.set(id, [...(this.outcomes.get(id) ?? []), outcome]);
    const statements = t.statements.length;
    await t.crash();
    return statements;
  }

  /** Never settles in an app that has crashed. */
  private async outcome({ app }: TestApp, id: string): Promise<Outcome> {
    try {
      const handle = await this.world.root.with({ id, app }).start(this.plan.program);
      return await handle.result();
    } catch (error) {
      if (isHoldfastError(error, 'APP_CLOSED') || isHoldfastError(error, 'NOT_LAUNCHED')) return new Promise(() => {});
      return { error: `no outcome: ${error}` };
    }
  }

  private async noteCommitted(): Promise<void> {
    const { steps } = await this.store.rows.read(this.id);
    for (const step of steps.filter(isCompleted)) {
      this.world.noteCommitted(String(step.workflow_uuid), String(step.function_name));
    }
  }

  /** Turns a finished workflow into one that crashed just before its outcome was written. */
  private async unfinish(): Promise<void> {
    await tamper(
      this.store.database,
      `update workflow_status set status = 'PENDING', output = null, completed_at = null where workflow_uuid = '${this.id}'`,
    );
  }

  private wrongOutcomes(): string[] {
    const all = [...this.outcomes.values()].flat();
    const own = new Set(this.outcomes.get(this.id)?.map((outcome) => JSON.stringify(outcome)));
    return [
      ...all
        .filter((outcome) => !allows(this.plan.program, outcome))
        .map((outcome) => `the model does not allow ${JSON.stringify(outcome)}`),
      ...(own.size === 1 ? [] : [`the outcomes are ${[...own].join(' and ')}`]),
    ];
  }
}

/** A program takes milliseconds of real time. One that hangs must not hide the results of the others. */
async function withWatchdog<T>(promise: Promise<T>): Promise<T | Outcome> {
  let timer: NodeJS.Timeout | undefined;
  const hung = new Promise<Outcome>((resolve) => {
    timer = setTimeout(() => resolve({ error: 'no outcome: it hangs' }), 10_000);
  });
  return Promise.race([promise, hung]).finally(() => clearTimeout(timer));
}
