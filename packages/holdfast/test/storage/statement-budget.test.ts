import { expect, it } from 'vitest';
import { now, random, run, sleep, uuid, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { gate } from '../support/faults.js';
import { openWire, type Wire } from './wire.js';

/**
 * The exact cost of a workflow. On Postgres both statements and commits are counted on the wire; on SQLite a
 * statement is a transaction. The clock stands still, so background services send nothing.
 */
describeBackends('the statement budget of a workflow', (backend) => {
  const steps = workflow('steps', async (count: number) => {
    for (let i = 0; i < count; i++) await run('work', () => i);
    return count;
  });
  let asked = gate();
  const child = workflow('child', () => asked.promise);
  const parent = workflow('parent', async () => {
    const handle = await child.start();
    const result = handle.result();
    asked.open();
    return result;
  });
  // Shorter than the interval of any background service.
  const sleeper = workflow('sleeper', () => sleep('100ms'));
  const free = workflow('free', async () => [now(), uuid(), random()].length);
  const parallel = workflow('parallel', async () => {
    await Promise.all([0, 1, 2, 3, 4].map((i) => run('work', () => i)));
  });
  const careful = workflow('careful', () => run('work', () => 1, { retries: 5, timeout: '10s' }));
  const workflows = [careful, steps, child, parent, sleeper, free, parallel];

  it.each([0, 1, 5])(
    'a first run with %i steps costs two statements and two commits, plus one of each per step',
    async (count) => {
      const meter = await launchMetered(backend, workflows);
      const cost = await meter.measure(() => steps(count));
      expect(cost.statements).toEqual(['workflows.insert', ...Array(count).fill('steps.record'), 'workflows.finish']);
      expect(cost.commits).toBe(2 + count);
    },
  );

  it('a step that may be retried but succeeds costs the same as any other step', async () => {
    const meter = await launchMetered(backend, workflows);
    const cost = await meter.measure(() => careful());
    expect(cost).toEqual({ statements: ['workflows.insert', 'steps.record', 'workflows.finish'], commits: 3 });
  });

  it('steps that end together share one statement', async () => {
    const meter = await launchMetered(backend, workflows);
    const cost = await meter.measure(() => parallel());
    expect(cost).toEqual({ statements: ['workflows.insert', 'steps.record', 'workflows.finish'], commits: 3 });
  });

  it('deterministic time and random values cost nothing', async () => {
    const meter = await launchMetered(backend, workflows);
    expect(await meter.measure(() => free())).toEqual({
      statements: ['workflows.insert', 'workflows.finish'],
      commits: 2,
    });
  });

  it('a sleep costs two statements: its beginning and its end', async () => {
    const meter = await launchMetered(backend, workflows);
    const cost = await meter.measure(() => sleeper());
    const statements = ['workflows.insert', 'steps.record', 'steps.complete', 'workflows.finish'];
    expect(cost).toEqual({ statements, commits: 4 });
  });

  it('a child costs its own two statements and two steps of its parent', async () => {
    const meter = await launchMetered(backend, workflows);
    asked = gate();
    const cost = await meter.measure(() => parent());
    const start = ['workflows.insert', 'workflows.insertChild', 'steps.record'];
    const statements = [...start, 'workflows.finish', 'steps.record', 'workflows.finish'];
    expect(cost).toEqual({ statements, commits: 6 });
  });

  it('a start under a taken ID costs one more statement, which reads the existing workflow', async () => {
    const meter = await launchMetered(backend, workflows);
    await steps.with({ id: 'once' })(0);
    const cost = await meter.measure(() => steps.with({ id: 'once' }).start(0));
    expect(cost.statements).toEqual(['workflows.insert', 'workflows.get']);
  });
});

describeBackends('the statement budget of a recovery', (backend) => {
  it('is the same for 1, 10 and 100 recorded steps', async () => {
    const costs = [];
    for (const count of [1, 10, 100]) costs.push(await recoveryCost(backend, count));
    expect(costs[1]).toEqual(costs[0]);
    expect(costs[2]).toEqual(costs[0]);
    const { launch, rest } = costs[0] as Recovered;
    expect(launch.filter((name) => name === 'steps.history')).toHaveLength(1);
    expect(launch.filter((name) => name.startsWith('takeovers.putBack'))).toHaveLength(2);
    expect(rest).toEqual(['steps.record', 'workflows.finish']);
  });
});

interface Cost {
  readonly statements: string[];
  readonly commits: number;
}

interface Recovered {
  /** The statements of the launch, with the schema check: sorted, because two services start at the same time. */
  readonly launch: string[];
  /** The statements that the workflow then sent until its end, without the settings of a new connection. */
  readonly rest: string[];
}

/** Crashes a workflow with this many recorded steps, and counts the statements of the next process to finish it. */
async function recoveryCost(backend: Backend, count: number): Promise<Recovered> {
  const [blocked, open] = [gate(), gate()];
  const long = workflow('long', async () => {
    for (let i = 0; i < count; i++) await run('work', () => i);
    await run('last', () => {
      blocked.open();
      return open.promise;
    });
    return 'done';
  });
  const meter = await launchMetered(backend, [long]);
  const { id } = await long.start();
  await blocked.promise;
  await meter.t.crash();
  meter.reset();
  const again = await meter.t.restart();
  await again.clock.advance(0);
  const launch = meter.cost(again).statements.sort();
  const result = again.app.workflows.handle(id).result();
  await again.clock.advance(0);
  meter.reset();
  const before = again.statements.length;
  open.open();
  expect(await again.clock.runUntil(result)).toBe('done');
  return { launch, rest: meter.cost(again, before).statements.filter((text) => !text.startsWith('set ')) };
}

interface Meter {
  readonly t: TestApp;
  /** Resets the counters of the wire. */
  reset(): void;
  cost(t: TestApp, since?: number): Cost;
  /** Returns the statements that this work sends to the database until the app is idle again. */
  measure(work: () => Promise<unknown>): Promise<Cost>;
}

async function launchMetered(
  backend: Backend,
  workflows: NonNullable<Parameters<Backend['testApp']>[0]>['workflows'] & object,
): Promise<Meter> {
  const url = await backend.newDatabase();
  const wire = backend.name === 'postgres' ? await openWire(url) : undefined;
  const warmUp = workflow('warm-up', async () => {});
  const list = [...(workflows as readonly never[]), warmUp];
  const t = await backend.testApp({ database: wire?.url ?? url, workflows: list });
  // The first write opens a connection and sets it up.
  await warmUp();
  await t.clock.advance(0);
  const cost = (app: TestApp, since = 0): Cost => countOf(wire, app.statements.slice(since));
  return {
    t,
    reset: () => wire?.reset(),
    cost,
    measure: async (work) => {
      wire?.reset();
      const before = t.statements.length;
      await t.clock.runUntil(work());
      await t.clock.advance(0);
      const measured = cost(t, before);
      // The statements that the engine reports must equal the statements on the wire.
      expect(t.statements.slice(before)).toEqual(measured.statements);
      return measured;
    },
  };
}

function countOf(wire: Wire | undefined, probed: readonly string[]): Cost {
  if (!wire) return { statements: [...probed], commits: probed.length };
  // The first batch on another lane opens a connection and sets it up.
  const settings = wire.statements.filter((text) => text.startsWith('set ')).length;
  return { statements: wire.statements.filter((text) => !text.startsWith('set ')), commits: wire.commits - settings };
}
