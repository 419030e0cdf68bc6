import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { launchWith } from '../../src/app/launch.js';
import type { Runtime } from '../../src/engine/runtime.js';
import { isHoldfastError } from '../../src/index.js';
import { SeededRandom } from '../../src/model/ids.js';
import type { VirtualClock } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { type RecordingLogger, recordingLogger, tamper } from '../support/faults.js';
import { type Backup, backUp } from '../support/time-machine.js';
import { report } from './child-process.js';
import { theEnd, World } from './interpreter.js';
import { allows } from './model.js';
import { type Outcome, type Plan, plans } from './programs.js';
import { isCompleted, openRows, type RowReader } from './rows.js';

const seed = Number(process.env.HOLDFAST_FAULT_SEED ?? 1);
const programCounts = { sqlite: 30, postgres: 14 };

/** The statements by which an execution writes. A backup is made or restored before one of them. */
const writes = {
  workflows: ['insertMany', 'insertChildren', 'finishMany'],
  steps: ['recordMany', 'recordEffects', 'completeMany'],
} as const;

describeBackends('random programs over a database that goes back in time', (backend) => {
  it('repeat only what the record lacks, and replay exactly', async () => {
    const programs = Number(process.env.HOLDFAST_FAULT_PROGRAMS ?? programCounts[backend.name]);
    const store = await openStore(backend);
    const wrong: string[] = [];
    let restored = 0;
    for (const [n, plan] of fc.sample(plans, { seed, numRuns: programs }).entries()) {
      // In every third program only refused rows reveal the restore, not heartbeats.
      const trial = new Trial(store, `program-${n}`, plan, n % 3 !== 0);
      const found = await trial.run();
      restored += trial.restored;
      if (found.length > 0) wrong.push(`program ${n}: ${found.join('; ')} ${JSON.stringify(plan)}`.slice(0, 2000));
    }
    const { logger } = store;
    const noticed = [/gone back in time/, /lost steps that were/].map((each) => logger.matching(each).length);
    report(
      `random restores (${backend.name}): ${programs} programs, ${restored} restores, noticed by heartbeats and refusals ` +
        `${noticed.join(', ')}, ${wrong.length} wrong; HOLDFAST_FAULT_SEED=${seed}`,
    );
    expect(wrong.slice(0, 3)).toEqual([]);
    expect(restored).toBeGreaterThan(programs / 2);
    expect(noticed.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(programs / 4);
  }, 480_000);
});

interface Store {
  readonly database: string;
  readonly rows: RowReader;
  readonly logger: RecordingLogger;
}

async function openStore(backend: Backend): Promise<Store> {
  const database = await backend.newDatabase();
  const rows = await openRows(database);
  onTestFinished(rows.close);
  return { database, rows, logger: recordingLogger() };
}

/** One program: it is counted, run across a restore, run to its end, and replayed from its finished history. */
class Trial {
  restored = 0;
  private engine!: Runtime;
  private readonly world = new World();
  private written = 0;
  private before: (nth: number) => Promise<void> = async () => {};

  constructor(
    private readonly store: Store,
    private readonly name: string,
    private readonly plan: Plan,
    private readonly beats: boolean,
  ) {
    this.world.latencySeed = plan.latencySeed;
  }

  async run(): Promise<string[]> {
    const { database, logger } = this.store;
    const { world } = this;
    const options = { name: 'test', version: 'faults', workflows: [world.root, world.child], database, logger };
    const onStart = (engine: Runtime): void => {
      this.engine = engine;
    };
    // In programs that must detect the restore by a refused row, heartbeats are too rare to reveal it.
    const liveness = { ttlMs: this.beats ? 3_000 : 3_600_000 };
    const app = await launchWith(options, { onStart, liveness, reclaimEveryMs: 50 });
    world.clock = this.engine.clock as VirtualClock;
    this.watchWrites();
    try {
      return await this.tried(() => world.root.with({ id: this.name, app }).start(this.plan.program));
    } finally {
      await app.shutdown();
    }
  }

  private async tried(start: () => ReturnType<World['root']['start']>): Promise<string[]> {
    const { world, name } = this;
    const counted = await outcomeOf(() => world.root.with({ app: this.engine.app as object }).start(this.plan.program));
    const found = this.judge(counted);
    this.planRestore();
    world.launches++;
    const told = await outcomeOf(start);
    if (!isGone(told)) found.push(...this.judge(told));
    // If the program ended before the restore, the restore happens now, after its end.
    await this.restore();
    this.before = async () => {};
    // If no row was refused, the test reports the restore: in reality a failover breaks connections, or a heartbeat
    // detects it.
    if (!this.beats) this.engine.startGate.rollbackCount++;
    // An earlier answer may be lost with its record, and the program may then have ended differently. Only an answer
    // from after the restore is compared with the replay. A caller that finds no record starts the program again.
    let outcome = await outcomeOf(start);
    for (let tries = 0; tries < 3 && (await this.status()) !== 'SUCCESS'; tries++) outcome = await outcomeOf(start);
    if (!isGone(outcome)) found.push(...this.judge(outcome));
    if (isGone(outcome)) found.push('it is still gone');
    const status = await this.status();
    if (status !== 'SUCCESS') found.push(`its status is ${status}`);
    await this.unfinish();
    world.launches++;
    const replayed = await outcomeOf(start);
    if (JSON.stringify(replayed) !== JSON.stringify(outcome)) {
      found.push(`the outcome was ${JSON.stringify(outcome)}, and in a replay ${JSON.stringify(replayed)}`);
    }
    const ended = (world.traces.get(name) ?? []).filter((trace) => trace.includes(theEnd));
    const [last, replay] = ended.slice(-2).map((trace) => trace.slice(0, trace.indexOf(theEnd)).join());
    if (last !== replay) found.push(`its replay saw ${replay}, and it saw ${last}`);
    return [...found, ...world.violations];
  }

  private judge(outcome: Outcome): string[] {
    return allows(this.plan.program, outcome) ? [] : [`the model does not allow ${JSON.stringify(outcome)}`];
  }

  private backup: Backup | undefined;

  private planRestore(): void {
    const random = new SeededRandom(`restore ${this.plan.latencySeed}`);
    const total = this.written;
    this.written = 0;
    const saveAt = Math.floor(random.number() * (total - 1));
    const restoreAt = saveAt + 1 + Math.floor(random.number() * (total - saveAt));
    this.before = async (nth) => {
      if (nth === saveAt) this.backup = await backUp(this.store.database);
      if (nth === restoreAt) await this.restore();
    };
  }

  private restoring: Promise<void> | undefined;

  /**
   * Restores once. A write of a losing branch may have begun the restore, and later callers must wait until it is
   * over.
   */
  private async restore(): Promise<void> {
    if (this.backup) this.restoring ??= this.putBack(this.backup);
    await this.restoring;
  }

  private async putBack(backup: Backup): Promise<void> {
    if (this.beats) await this.beaten();
    await backup.restore();
    this.restored++;
    // From now on no recorded step may begin again. Steps that were only on the lost record may.
    const { steps } = await this.store.rows.read(this.name);
    this.world.forgetCommitted();
    for (const step of steps.filter(isCompleted)) {
      this.world.noteCommitted(String(step.workflow_uuid), String(step.function_name));
    }
  }

  /** Waits until this process has had a later heartbeat answered than the one in the backup. */
  private async beaten(): Promise<void> {
    const of = `where incarnation = '${this.engine.owners.incarnation}'`;
    const beats = async () =>
      Number((await tamper(this.store.database, `select beats from executors ${of}`))[0]?.beats);
    const before = await beats();
    await expect.poll(beats, { interval: 20, timeout: 20_000 }).toBeGreaterThan(before + 2);
  }

  private watchWrites(): void {
    for (const [noun, names] of Object.entries(writes)) {
      const statements = this.engine.storage[noun as 'steps'] as unknown as Record<string, Statement>;
      for (const name of names) {
        const real = statements[name]?.bind(statements) as Statement;
        statements[name] = async (...args) => {
          await this.before(this.written++);
          return real(...args);
        };
      }
    }
  }

  private async status(): Promise<unknown> {
    const { workflows } = await this.store.rows.read(this.name);
    return workflows.find((row) => row.workflow_uuid === this.name)?.status;
  }

  /** Turns a finished workflow into one that was handed over just before its outcome was written. */
  private async unfinish(): Promise<void> {
    const set = "status = 'ENQUEUED', queue_name = '_dbos_internal_queue', owner_xid = null, output = null";
    await tamper(
      this.store.database,
      `update workflow_status set ${set}, completed_at = null where workflow_uuid = '${this.name}'`,
    );
    this.engine.news.announce('queues');
  }
}

type Statement = (...args: unknown[]) => Promise<unknown>;

const gone = 'WORKFLOW_NOT_FOUND';
const isGone = (outcome: Outcome): boolean => 'error' in outcome && outcome.error === gone;

async function outcomeOf(start: () => ReturnType<World['root']['start']>): Promise<Outcome> {
  try {
    return await (await start()).result({ timeout: '60s' });
  } catch (error) {
    return { error: isHoldfastError(error, gone) ? gone : `no outcome: ${error}` };
  }
}
