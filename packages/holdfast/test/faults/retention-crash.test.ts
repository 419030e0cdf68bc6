import { expect, it } from 'vitest';
import { run, workflow } from '../../src/index.js';
import { type CrashPoint, crashPhases } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { report } from './child-process.js';

const child = workflow('child', async () => run('c', () => 0));
let runs = 0;
const parent = workflow('parent', async () => {
  await child();
  return run('p', () => ++runs);
});
const options = { workflows: [parent, child], retention: { after: '1d' }, version: 'v1' } as const;
const ids = ['a', 'b', 'c'];
/** HOLDFAST_FAULT_EVERYTHING=1 crashes at every statement of retention, not only at the deleting statement. */
const statements = process.env.HOLDFAST_FAULT_EVERYTHING === '1' ? /delete-expired|expired-page/ : /delete-expired/;

/** A database with three families of workflows that have ended, and a clock by which they ended long ago. */
async function plant(backend: Backend) {
  const database = await backend.newDatabase();
  const first = await backend.testApp({ ...options, database });
  for (const id of ids) await parent.with({ id })();
  await first.app.shutdown();
  await first.clock.advance('5d');
  return { database, clock: first.clock };
}

/** The number of workflows and steps in each family. */
async function families(database: string): Promise<string[]> {
  const found: string[] = [];
  for (const id of ids) {
    const of = (table: string) =>
      tamper(
        database,
        `select count(*) as n from ${table} where workflow_uuid = '${id}' or workflow_uuid like '${id}-%'`,
      );
    const counts = [await of('workflow_status'), await of('operation_outputs')];
    found.push(counts.map(([row]) => Number(row?.n)).join(' '));
  }
  return found;
}

// FAULTS 15: killed at each statement of retention, in each phase.
describeBackends('a process that dies in the middle of retention', (backend) => {
  it('leaves a whole family or none; the next process continues, and a freed ID works like a new one', async () => {
    const { database, clock } = await plant(backend);
    const clean = await backend.testApp({ ...options, database, clock });
    const launched = clean.statements.length;
    await clock.advance('2h');
    while ((await clean.app.workflows.list()).length > 0) await clock.advance(0);
    const points = clean.statements.flatMap((name, i) => (statements.test(name) ? [i + 1] : []));
    await clean.stop();
    expect(points.length).toBeGreaterThan(0);
    expect(points[0]).toBeGreaterThan(launched);
    const seen = new Set<string>();
    /** Kills the app at a deletion. On a busy machine, another statement may run before it, or after it instead. */
    const crashNear = async (wanted: number, phase: CrashPoint['phase']) => {
      for (let statement = wanted; ; ) {
        const store = await plant(backend);
        const dying = await backend.testApp({ ...options, ...store, crashAt: { statement, phase } });
        void store.clock.advance('2h');
        await dying.crashed;
        const names = dying.statements.slice(0, statement);
        if (statements.test(names.at(-1) ?? '')) return { store, dying };
        statement += names.some((name) => statements.test(name)) ? -1 : 1;
      }
    };
    // Retention hands nothing to a workflow, so there is no `before-resolve` phase.
    for (const statement of points) {
      for (const phase of crashPhases.filter((each) => each !== 'before-resolve')) {
        const { store, dying } = await crashNear(statement, phase);
        const left = await families(store.database);
        for (const each of left) seen.add(each);
        expect([
          ['2 4', '2 4', '2 4'],
          ['0 0', '0 0', '0 0'],
        ]).toContainEqual(left);
        const next = await dying.restart();
        await store.clock.advance('2h');
        while ((await next.app.workflows.list()).length > 0) await store.clock.advance(0);
        const before = runs;
        expect(await parent.with({ id: 'a' })()).toBe(before + 1);
        await next.stop();
      }
    }
    report(`retention killed (${backend.name}): at ${points.join(', ')}, found ${[...seen].join(' and ')}`);
    // Some faults landed before the deletion, and some after.
    expect(seen).toEqual(new Set(['2 4', '0 0']));
  });
});
