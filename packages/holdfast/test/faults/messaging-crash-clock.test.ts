import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { crashPhases } from '../../src/testing/index.js';
import { type Backend, describeDrivers } from '../support/backends.js';
import { countersTable } from '../support/datasources.js';
import { tamper } from '../support/faults.js';
import { report, requireBuild } from './child-process.js';
import { type CrashCase, emptyTally, Lane, type Program, Stores, type SweepPoint, type Tally } from './crash-sweep.js';
import { Ledger } from './ledger.js';
import { allSaid, countersExact, talked } from './messaging-evidence.js';

/** The test machine has two cores, so more children at a time would only wait for each other. */
const lanes = 2;
const minutes = 60_000;
/**
 * Sweeps every phase of every statement, which takes ten times as long. Otherwise `sampled` points, evenly spread,
 * starting at a different point each time.
 */
const everything = process.env.HOLDFAST_FAULT_EVERYTHING !== undefined;
const sampled = 14;
const seed = Number(process.env.HOLDFAST_FAULT_SEED ?? Date.now() % 1_000_000);

describeDrivers('crash clock of messages, events, streams, transactions and classes', (backend) => {
  const rig = crashRig(backend);

  it(
    'brings workflows that use every operation to the outcome of a run without a crash, killed at any statement',
    async () => {
      const started = performance.now();
      const cases = sample(rig.points()).map((point) => ({ workflow: 'talk', points: [point] }));
      const tally = await rig.sweep(cases);
      const { landed, kills } = tally;
      const seconds = ((performance.now() - started) / 1000).toFixed(0);
      report(
        `messaging crash clock (${backend.name}): ${kills} kills of ${rig.points().length} points, ` +
          `${tally.void.length} void, ${tally.violations.length} violations, ${seconds} s; ` +
          `HOLDFAST_FAULT_SEED=${seed}; statements: ${rig.statements().join(', ')}`,
      );
      expect(tally.violations).toEqual([]);
      // Notifications have their own timing: a run may make a statement more or less, so the last points may not be
      // reached.
      expect(landed.length).toBeGreaterThan(0.8 * cases.length);
    },
    30 * minutes,
  );
});

function sample(points: readonly SweepPoint[]): readonly SweepPoint[] {
  const stride = everything ? 1 : Math.ceil(points.length / sampled);
  return points.filter((_, i) => i % stride === seed % stride);
}

const reads = /waiting|read|endings|overview|busy/;

/**
 * A statement that changes nothing needs only one phase, because it does not matter whether it was made. For the
 * user's data, no code runs between the database and the code that receives the reply.
 */
function phasesOf(name: string): readonly SweepPoint['phase'][] {
  if (name.startsWith('data ')) return ['before-send', 'after-apply'];
  return reads.test(name) && !everything ? ['before-send'] : crashPhases;
}

/**
 * Points from the first statement after the launch on, and all statements on the user's data. The launch has its own
 * sweep.
 */
function pointsOf(made: readonly string[]): SweepPoint[] {
  const ofData = made.filter((name) => name.startsWith('data '));
  const ofApp = made.slice(0, made.length - ofData.length);
  const first = ofApp.findIndex((name) => name.startsWith('workflows.dequeue'));
  expect(first).toBeGreaterThan(0);
  const toPoints = (name: string, i: number, clock?: string): SweepPoint[] =>
    phasesOf(name).map((phase) => ({ statement: i + 1, phase, ...(clock !== undefined && { clock }) }));
  return [
    ...ofApp.flatMap((name, i) => (i >= first ? toPoints(name, i) : [])),
    ...ofData.flatMap((name, i) => toPoints(name, i, 'data')),
  ];
}

/** Both of the user's databases have a table of counters. On SQLite each case has its own database. */
function programOn(backend: Backend): Program {
  const table = backend.name === 'sqlite' ? countersTable : countersTable.replace('exists ', 'exists public.');
  let shared: Promise<string> | undefined;
  const create = async (): Promise<string> => {
    const url = await backend.emptyDatabase();
    if (backend.name === 'sqlite') await tamper(url, 'pragma journal_mode = wal');
    await tamper(url, table);
    return url;
  };
  return {
    fixture: 'messaging-worker.mjs',
    outcome: 'result',
    besides: async (database) => {
      await tamper(database, table);
      if (backend.name === 'sqlite') return { apart: await create() };
      shared ??= create();
      return { apart: await shared };
    },
    check: async (job) => [...(await allSaid(job)), ...(await countersExact(job))],
  };
}

function crashRig(backend: Backend) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-messaging-crash-'));
  const ledger = new Ledger(join(folder, 'ledger.sqlite'));
  const expected = new Map<string, string>();
  const program = programOn(backend);
  // Each lane has its own store, because any process of a store may take work from its queues.
  const newLane = (tally: Tally): Lane => new Lane(program, new Stores(backend.newDatabase), ledger, expected, tally);
  let made: readonly string[] = [];
  beforeAll(async () => {
    await requireBuild();
    const { statements, result } = await newLane(emptyTally()).clean('talk');
    expect(JSON.parse(result)).toEqual({ status: 'SUCCESS', value: talked });
    made = statements;
    expected.set('talk', result);
  });
  afterAll(() => {
    ledger.close();
    rmSync(folder, { recursive: true });
  });
  return {
    statements: () => made,
    points: () => pointsOf(made),
    sweep: async (cases: readonly CrashCase[]) => {
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
