import { context, run, workflow } from '../../src/index.js';
import { Signals, type TestApp, type TestAppOptions } from '../../src/testing/index.js';
import type { Backend } from './backends.js';
import { gate, tamper } from './faults.js';

/**
 * Workflows that start when the engine lets them and end when the test lets them. The bodies themselves measure
 * the limits, independently of what the database records.
 */
export class Stage {
  /** Labels in the order in which their bodies started. */
  readonly begun: string[] = [];
  private readonly signals = new Signals();
  private readonly running = new Map<string, { readonly keys: readonly string[]; readonly end: () => void }>();
  private readonly counts = new Map<string, number>();
  private readonly peaks = new Map<string, number>();

  /** Returns its label as soon as the test ends it. Limits are counted by `group` and for all. */
  readonly wf = workflow('staged', async (label: string, group: string = '') => {
    const { executorId, workflowId } = context();
    const hold = gate();
    this.enter(
      workflowId,
      label,
      ['all', `group ${group}`, `on ${executorId}`, `${group} on ${executorId}`],
      hold.open,
    );
    try {
      await run('work', () => hold.promise);
    } finally {
      this.leave(workflowId);
    }
    return label;
  });

  /** How many run now: `all`, `group a`, `on e1`, `a on e1`. */
  now(key = 'all'): number {
    return this.counts.get(key) ?? 0;
  }

  /** The highest number that ever ran at once. */
  peak(key = 'all'): number {
    return this.peaks.get(key) ?? 0;
  }

  /** Resolves when that many bodies have started, counted from the beginning. */
  begins(count: number): Promise<void> {
    return this.signals.wait('begun', count);
  }

  /** Ends some of the running workflows, oldest first. */
  end(count = this.running.size): void {
    for (const { end } of [...this.running.values()].slice(0, count)) end();
  }

  /** Ends the workflow with this ID. */
  endOf(workflowId: string): void {
    this.running.get(workflowId)?.end();
  }

  /** Removes what ran in a process that crashed. */
  crashed(): void {
    for (const workflowId of [...this.running.keys()]) this.leave(workflowId);
  }

  private enter(workflowId: string, label: string, keys: readonly string[], end: () => void): void {
    this.begun.push(label);
    this.running.set(workflowId, { keys, end });
    for (const key of keys) {
      const count = this.now(key) + 1;
      this.counts.set(key, count);
      this.peaks.set(key, Math.max(count, this.peak(key)));
    }
    this.signals.emit('begun');
  }

  private leave(workflowId: string): void {
    for (const key of this.running.get(workflowId)?.keys ?? []) this.counts.set(key, this.now(key) - 1);
    this.running.delete(workflowId);
  }
}

/** Ends every workflow that starts, round by round, until that many have started, without moving the clock. */
export async function playOut(stage: Stage, count: number): Promise<void> {
  while (stage.begun.length < count) {
    const seen = stage.begun.length;
    stage.end();
    await stage.begins(seen + 1);
  }
  stage.end();
}

/** Launches several apps on one database and one clock, like several processes. The first is e0, the next e1, ... */
export async function launchFleet(backend: Backend, size: number, options: TestAppOptions): Promise<TestApp[]> {
  const database = options.database ?? (await backend.newDatabase());
  const apps = [await backend.testApp({ ...options, database, executorId: 'e0' })];
  const clock = options.clock ?? (apps[0] as TestApp).clock;
  while (apps.length < size) {
    apps.push(await backend.testApp({ ...options, database, clock, executorId: `e${apps.length}` }));
  }
  return apps;
}

/** Counts the rows, to show that a call has written nothing. */
export async function rowCounts(database: string): Promise<Record<string, number>> {
  const [row] = await tamper(
    database,
    'select (select count(*) from workflow_status) as workflows, (select count(*) from queues) as queues',
  );
  return { workflows: Number(row?.workflows), queues: Number(row?.queues) };
}
