import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SeededRandom } from '../../src/model/ids.js';
import { type CrashPoint, crashPhases } from '../../src/testing/index.js';
import { type Backend, describeDrivers } from '../support/backends.js';
import { report, requireBuild } from './child-process.js';
import { type CrashCase, emptyTally, everyPoint, Lane, Stores, type Tally } from './crash-sweep.js';
import { Ledger } from './ledger.js';

const canonicalNames = ['sequential', 'branches', 'parent'] as const;
type CanonicalName = (typeof canonicalNames)[number];
const canonical = { fixture: 'crash-worker.mjs', outcome: 'result' };

/** The test machine has two cores, so more children at a time would only wait for each other. */
const lanes = 2;
const seed = process.env.HOLDFAST_FAULT_SEED ?? '1';
/** Number of crashes during recovery. HOLDFAST_FAULT_PAIRS=1000 takes a whole night. */
const pairs = Number(process.env.HOLDFAST_FAULT_PAIRS ?? 6);
const minutes = 60_000;
/**
 * Sweeps all four phases of every statement, which takes several times as long. Otherwise the sweep covers the first
 * phase of every statement of the plainest program, and of every second statement of the others. For every fourth
 * statement it adds one later phase, which rotates. Every program launches with the same statements, so only the
 * launch of the plainest program is swept.
 */
const everything = process.env.HOLDFAST_FAULT_EVERYTHING !== undefined;
const laterPhases = crashPhases.filter((phase) => phase !== 'before-send');

function isSwept(name: CanonicalName, launch: number, { statement, phase }: CrashPoint): boolean {
  if (everything) return true;
  if (statement <= launch && name !== canonicalNames[0]) return false;
  const turn = statement + Number(seed);
  if (phase === 'before-send') return name === canonicalNames[0] || turn % 2 === 1;
  return turn % 4 === 0 && phase === laterPhases[(turn / 4) % laterPhases.length];
}

describeDrivers('crash clock', (backend) => {
  const rig = crashRig(backend);

  it(
    'finishes every killed workflow with the outcome of a run without a crash, for each swept statement and phase',
    async () => {
      const cases = canonicalNames.flatMap((workflow) =>
        everyPoint(rig.statements(workflow))
          .filter((point) => isSwept(workflow, rig.launch(workflow), point))
          .map((point) => ({ workflow, points: [point] })),
      );
      const tally = await rig.sweep(cases);
      const counts = canonicalNames.map((name) => `${name} ${rig.statements(name)}`).join(', ');
      report(`crash clock (${backend.name}): ${tally.kills} kills, ${tally.void.length} void; statements: ${counts}`);
      expect(tally.violations).toEqual([]);
      expect(tally.void).toEqual([]);
      expect(tally.landed).toHaveLength(cases.length);
    },
    5 * minutes,
  );

  it(
    'finishes workflows whose recovery was also killed',
    async () => {
      const tally = await rig.sweepPairs(new SeededRandom(`pairs ${backend.name} ${seed}`));
      report(
        `crash during recovery (${backend.name}): ${tally.landed.length} pairs, ${tally.kills} kills, ` +
          `${tally.void.length} void and redrawn; HOLDFAST_FAULT_SEED=${seed}`,
      );
      expect(tally.violations).toEqual([]);
      expect(tally.landed).toHaveLength(pairs);
    },
    5 * minutes,
  );
});

function crashRig(backend: Backend) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-crash-'));
  const ledger = new Ledger(join(folder, 'ledger.sqlite'));
  const stores = new Stores(backend.newDatabase);
  const counts = new Map<CanonicalName, number>();
  const launches = new Map<CanonicalName, number>();
  const expected = new Map<CanonicalName, string>();
  const inLanes = async (work: (lane: Lane, tally: Tally) => Promise<void>): Promise<Tally> => {
    const tally = emptyTally();
    const runLane = async (): Promise<void> => {
      const lane = new Lane(canonical, stores, ledger, expected, tally);
      await work(lane, tally);
      await lane.end();
    };
    await Promise.all(Array.from({ length: lanes }, runLane));
    return tally;
  };
  beforeAll(async () => {
    await requireBuild();
    const lane = new Lane(canonical, stores, ledger, expected, emptyTally());
    for (const name of canonicalNames) {
      const { statements, result } = await lane.clean(name);
      expect(statements.at(-1)).toBe('workflows.finish');
      counts.set(name, statements.length);
      launches.set(name, statements.indexOf('workflows.insert'));
      expected.set(name, result);
    }
  });
  afterAll(() => {
    ledger.close();
    rmSync(folder, { recursive: true });
  });
  const statements = (name: CanonicalName): number => counts.get(name) ?? 0;
  return {
    statements,
    /** How many statements come before the program begins. */
    launch: (name: CanonicalName): number => launches.get(name) ?? 0,
    sweep: (cases: readonly CrashCase[]) => {
      const waiting = [...cases];
      return inLanes(async (lane) => {
        for (let next = waiting.shift(); next; next = waiting.shift()) await lane.run(next);
      });
    },
    /** Draws pairs of points until enough pairs have landed. */
    sweepPairs: (random: SeededRandom) => {
      let wanted = pairs;
      return inLanes(async (lane, tally) => {
        while (wanted-- > 0) {
          if (!(await lane.run(drawPair(random, statements)))) wanted++;
          expect(tally.void.length).toBeLessThan(pairs);
        }
      });
    },
  };
}

/** A recovery makes about as many statements as were left, plus a few to find the unfinished work. */
function drawPair(random: SeededRandom, statements: (name: CanonicalName) => number): CrashCase {
  const upTo = (n: number): number => 1 + Math.floor(random.number() * n);
  const workflow = canonicalNames[upTo(canonicalNames.length) - 1] as CanonicalName;
  const point = (last: number): CrashPoint => {
    return { statement: upTo(last), phase: crashPhases[upTo(crashPhases.length) - 1] as CrashPoint['phase'] };
  };
  const first = point(statements(workflow) - 1);
  return { workflow, points: [first, point(statements(workflow) - first.statement + 5)] };
}
