import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { crashPhases } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { report, requireBuild } from './child-process.js';
import { type CrashCase, emptyTally, type Job, Lane, type Program, Stores } from './crash-sweep.js';
import { Ledger } from './ledger.js';

/** More children at a time would only wait for each other: there are two cores. */
const lanes = 2;
const minutes = 60_000;
/** Every phase of every statement, in about three times the time. */
const everything = process.env.HOLDFAST_FAULT_EVERYTHING !== undefined;
const reads = /waiting|read|endings|overview/;

/** The lines that each of the two workflows leaves, the end of the closed stream included. */
const written = {
  talk: ['first', 'second', 'spoken one', 'spoken two', '__DBOS_STREAM_CLOSED__'],
  listener: ['got 1,2,3', 'listened one', 'listened two'],
};

/** Each message consumed once and none beside them, streams without gap or double, events as they were last set. */
async function allSaid({ database, workflowId: id }: Job): Promise<string[]> {
  const about = (column: string): string => `where ${column} in ('${id}', '${id}.l')`;
  const texts = async (sql: string): Promise<string[]> =>
    (await tamper(database, sql)).map((row) => Object.values(row).map(plain).join(' ').replace(id, 'ID'));
  const messages = `select destination_uuid, topic, message, case when consumed then 'read' else 'unread' end as state`;
  const found = {
    messages: (await texts(`${messages} from notifications ${about('destination_uuid')}`)).sort(),
    lines: await texts(
      `select workflow_uuid, "offset", value from streams ${about('workflow_uuid')} order by workflow_uuid, "offset"`,
    ),
    events: (await texts(`select workflow_uuid, value from workflow_events ${about('workflow_uuid')}`)).sort(),
  };
  const expected = {
    messages: [...[1, 2, 3].map((n) => `ID.l numbers ${n} read`), 'ID replies 1,2,3 read'].sort(),
    lines: [
      ...written.talk.map((line, offset) => `ID ${offset} ${line}`),
      ...written.listener.map((line, offset) => `ID.l ${offset} ${line}`),
    ],
    events: ['ID talked', 'ID.l listened'],
  };
  const wrong = (Object.keys(expected) as (keyof typeof expected)[]).filter(
    (kind) => JSON.stringify(found[kind]) !== JSON.stringify(expected[kind]),
  );
  return wrong.map((kind) => `${kind} are ${JSON.stringify(found[kind])}, not ${JSON.stringify(expected[kind])}`);
}

/** What a stored text says, in whichever of our formats it is. */
function plain(value: unknown): string {
  try {
    const parsed = JSON.parse(String(value));
    return String(parsed?.json ?? parsed);
  } catch {
    return String(value);
  }
}

const program: Program = { fixture: 'crash-worker.mjs', outcome: 'result', check: allSaid };

describeBackends('crash clock of messages, events and streams', (backend) => {
  const rig = crashRig(backend);

  it(
    'brings two workflows that talk to the end of a run without a crash, killed at any statement',
    async () => {
      const cases = rig.points().map((point) => ({ workflow: 'talk', points: [point] }));
      const tally = await rig.sweep(cases);
      const { landed, kills } = tally;
      report(
        `crash clock of talking (${backend.name}): ${kills} kills, ${tally.void.length} void; ` +
          `statements: ${rig.statements().join(', ')}`,
      );
      expect(tally.violations).toEqual([]);
      // Announcements take their own time: a run may make a statement more or less, and the last points may not come.
      expect(landed.length).toBeGreaterThan(0.8 * cases.length);
    },
    5 * minutes,
  );
});

/**
 * Of a statement that changes nothing it is all the same whether it was made. Of one that does, the phases in which it is
 * committed take turns.
 */
function phasesOf(name: string, n: number): readonly (typeof crashPhases)[number][] {
  if (everything) return crashPhases;
  const [unsent, ...later] = crashPhases;
  const one = later[n % later.length];
  return reads.test(name) || one === undefined ? [unsent] : [unsent, one];
}

function crashRig(backend: Backend) {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-talk-crash-'));
  const ledger = new Ledger(join(folder, 'ledger.sqlite'));
  const stores = new Stores(backend.newDatabase);
  const expected = new Map<string, string>();
  let made: readonly string[] = [];
  beforeAll(async () => {
    await requireBuild();
    const { statements, result } = await new Lane(program, stores, ledger, expected, emptyTally()).clean('talk');
    made = statements;
    expected.set('talk', result);
  });
  afterAll(() => {
    ledger.close();
    rmSync(folder, { recursive: true });
  });
  return {
    statements: () => made,
    /** From the start of the workflow on: what a launch does is taken apart elsewhere. */
    points: () => {
      const first = made.indexOf('workflows.insert');
      const own = made.flatMap((name, i) => (i >= first && name !== 'signals.announce' ? [{ name, n: i + 1 }] : []));
      return own.flatMap(({ name, n }) => phasesOf(name, n).map((phase) => ({ statement: n, phase })));
    },
    sweep: async (cases: readonly CrashCase[]) => {
      const tally = emptyTally();
      const waiting = [...cases];
      const runLane = async (): Promise<void> => {
        const lane = new Lane(program, stores, ledger, expected, tally);
        for (let next = waiting.shift(); next; next = waiting.shift()) await lane.run(next);
        await lane.end();
      };
      await Promise.all(Array.from({ length: lanes }, runLane));
      return tally;
    },
  };
}
