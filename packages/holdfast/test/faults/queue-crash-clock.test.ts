import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SeededRandom } from '../../src/model/ids.js';
import { type CrashPoint, crashPhases } from '../../src/testing/index.js';
import { type Backend, describeDrivers } from '../support/backends.js';
import { report, requireBuild } from './child-process.js';
import {
  type CrashCase,
  emptyTally,
  everyPoint,
  type Job,
  Lane,
  type Program,
  Stores,
  type Tally,
} from './crash-sweep.js';
import { Ledger } from './ledger.js';
import { installGauge, openGauge } from './queue-gauge.js';

const seed = process.env.HOLDFAST_FAULT_SEED ?? '1';
/**
 * Sweeps every statement in every phase, which takes ten minutes. Otherwise one statement of each kind of write, in
 * one phase.
 */
const everything = process.env.HOLDFAST_QUEUE_SWEEP === 'all';
/** Number of cases that are killed once more while they recover. */
const again = 2;
const lanes = 2;
const minutes = 60_000;
const names = ['starts', 'family', 'rests'];

/** Checks the limits of the case's own queues, counting only executions that can commit. */
async function limitsHeld({ database, workflowId }: Job): Promise<string[]> {
  const gauge = await openGauge(database);
  const { queues, partitions } = await gauge.peaks();
  await gauge.close();
  const own = Object.entries({ ...queues, ...partitions }).filter(([key]) => key.includes(workflowId));
  const most = (key: string): number => (key.startsWith('parted') && key.endsWith(workflowId) ? 3 : 1);
  if (own.length === 0) return ['nothing was claimed from a queue'];
  return own.filter(([key, peak]) => peak > most(key)).map(([key, peak]) => `${peak} ran at once on ${key}`);
}

const program: Program = { fixture: 'queue-crash-worker.mjs', outcome: 'summary', check: limitsHeld };

describeDrivers('crash clock of queues', (backend) => {
  const rig = crashRig(backend);

  it(
    'brings all acknowledged work to the outcome of a run without a crash, within the limits',
    async () => {
      const random = new SeededRandom(`queue points ${backend.name} ${seed}`);
      const cases = names.flatMap((workflow) => {
        const made = rig.statements(workflow);
        const points = everything ? everyPoint(made.length) : writePoints(backend, { workflow, made }, random);
        return points.map((point) => ({ workflow, points: [point] }));
      });
      const twice = cases
        .slice(0, everything ? 0 : again)
        .map((each) => ({ ...each, points: [...each.points, late(random)] }));
      const tally = await rig.sweep([...cases, ...twice]);
      const counts = names.map((name) => `${name} ${rig.statements(name).length}`).join(', ');
      report(
        `crash clock of queues (${backend.name}): ${tally.kills} kills, ${tally.landed.length} of ${cases.length + twice.length} cases, ` +
          `${tally.void.length} void; statements: ${counts}; HOLDFAST_FAULT_SEED=${seed}`,
      );
      expect(tally.violations).toEqual([]);
      // Notifications have their own timing: a run may make a statement more or less, so the last points may not be
      // reached.
      expect(tally.landed.length).toBeGreaterThan(0.7 * cases.length);
    },
    20 * minutes,
  );
});

function late(random: SeededRandom): CrashPoint {
  const phase = crashPhases[Math.floor(random.number() * crashPhases.length)] as CrashPoint['phase'];
  return { statement: 1 + Math.floor(random.number() * 40), phase };
}

/**
 * Returns one statement of each kind of write. For the program that suspends, only the writes that the other programs
 * do not make.
 */
function writePoints(
  backend: Backend,
  { workflow, made }: { readonly workflow: string; readonly made: readonly string[] },
  random: SeededRandom,
): CrashPoint[] {
  const kinds = [...new Set(made)].filter((name) => (workflow === 'rests' ? slotWrites : writes).test(name));
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random.number() * from.length)] as T;
  return kinds.flatMap((kind) => {
    const places = made.flatMap((name, i) => (name === kind ? [i + 1] : []));
    const phases = backend.name === 'sqlite' && slotWrites.test(kind) ? crashPhases : [pick(crashPhases)];
    return phases.map((phase) => ({ statement: pick(places), phase }));
  });
}

const writes =
  /register|enqueue|debounce|promoteDue|dequeue|record|insert|finish|putBack|markSuspended|release|announce/;
/**
 * Writes that give a slot back and ask for it again. They are killed in every phase if each run makes the same
 * statements.
 */
const slotWrites = /markSuspended|putBack|release/;

function crashRig(backend: Backend) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-queue-crash-'));
  const ledger = new Ledger(join(folder, 'ledger.sqlite'));
  const made = new Map<string, readonly string[]>();
  const expected = new Map<string, string>();
  const gauged = async (): Promise<string> => {
    const database = await backend.newDatabase();
    await (await installGauge(database)).close();
    return database;
  };
  // Each lane has its own store, so that a dead process of one lane cannot block the other lane.
  const newLane = (tally: Tally): Lane => new Lane(program, new Stores(gauged), ledger, expected, tally);
  beforeAll(async () => {
    await requireBuild();
    const lane = newLane(emptyTally());
    for (const name of names) {
      const { statements, result } = await lane.clean(name);
      made.set(name, statements);
      expected.set(name, result);
    }
  });
  afterAll(() => {
    ledger.close();
    rmSync(folder, { recursive: true });
  });
  return {
    statements: (name: string): readonly string[] => made.get(name) ?? [],
    sweep: async (cases: readonly CrashCase[]): Promise<Tally> => {
      const tally = emptyTally();
      const waiting = [...cases];
      const runLane = async (): Promise<void> => {
        const lane = newLane(tally);
        for (let next = waiting.shift(); next; next = waiting.shift()) await lane.run(next);
        await lane.end();
      };
      await Promise.all(Array.from({ length: lanes }, runLane));
      return tally;
    },
  };
}
