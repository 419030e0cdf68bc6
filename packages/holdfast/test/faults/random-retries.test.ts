import fc from 'fast-check';
import { expect, it } from 'vitest';
import { context, isHoldfastError, run, sleep, workflow } from '../../src/index.js';
import { delay } from '../../src/model/clock.js';
import { SeededRandom } from '../../src/model/ids.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { report } from './child-process.js';
import { type Program, plans } from './programs.js';

const seed = Number(process.env.HOLDFAST_FAULT_SEED ?? 1);
const programCounts = { sqlite: 150, postgres: 100 };

/** How long a workflow waits before its end. The test crashes it there, when everything else of it is recorded. */
const waitMs = 100_000;

/**
 * Failed programs are repaired and retried, from any step that this takes, until they succeed. Then all of them crash
 * and must replay to the end. No step that a retry kept may run again.
 */
describeBackends('random retries', (backend) => {
  it('keep the steps they promise to keep, and replay exactly', async () => {
    const world = new World();
    const t = await backend.testApp({ workflows: [world.root, world.child], version: 'faults' });
    world.app = t;
    const programs = fc.sample(plans, { seed, numRuns: programCounts[backend.name] }).map(({ program }) => program);
    const ids = programs.map((_, n) => `program-${n}`);
    await Promise.all(programs.map((program, n) => world.root.with({ id: ids[n] as string }).start(program)));
    await t.clock.advance(1000);
    world.isRepaired = true;
    const failed = (await world.statuses(ids, 'ERROR')).length;
    const problems: string[] = [];
    let retries = 0;
    for (let round = 0; round < 12; round++) {
      for (const id of await world.statuses(ids, 'ERROR')) {
        retries++;
        problems.push(...(await world.retry(id)));
      }
      await t.clock.advance(1000);
    }
    expect(await world.statuses(ids, 'ERROR')).toEqual([]);
    const before = new Map(world.traces);
    world.traces.clear();
    const bodies = world.bodies;
    const again = await t.restart();
    world.app = again;
    for (let at = 0; at <= waitMs + 60_000; at += 20_000) await again.clock.advance(20_000);
    for (const id of ids) {
      if ((await again.app.workflows.get(id))?.status !== 'SUCCESS') problems.push(`${id} did not end`);
      const replayed = world.traces.get(id)?.at(-1)?.join();
      const first = before.get(id)?.at(-1)?.join();
      if (replayed !== undefined && replayed !== first) problems.push(`${id}: ${first} became ${replayed}`);
    }
    expect(world.bodies).toBe(bodies);
    expect(problems).toEqual([]);
    report(`random retries (${backend.name}): ${failed} of ${ids.length} programs failed, ${retries} retries`);
    expect(failed).toBeGreaterThan(ids.length / 5);
  }, 120_000);
});

class World {
  app!: TestApp;
  isRepaired = false;
  bodies = 0;
  /** By workflow: what the code of each of its executions saw. */
  readonly traces = new Map<string, string[][]>();
  private readonly runs = new Map<string, number>();
  private readonly latencies = new SeededRandom(String(seed));

  readonly root = workflow('root', async (program: Program) => {
    const value = await this.interpret(program, this.begin());
    await sleep(waitMs);
    return value;
  });
  readonly child = workflow('child', (program: Program) => this.interpret(program, this.begin()));

  async statuses(ids: readonly string[], status: 'ERROR'): Promise<string[]> {
    const found = await this.app.app.workflows.list({ status });
    return found.map(({ workflowId }) => workflowId).filter((id) => ids.includes(id));
  }

  /** Retries the workflow, from the advised step if necessary. Returns the kept steps that have run again. */
  async retry(id: string): Promise<string[]> {
    const { workflows } = this.app.app;
    const kept = async () => (await workflows.steps(id)).map(({ name }) => `${id}/${name}`);
    await workflows.retry(id).catch((error: unknown) => {
      const isAdvised =
        isHoldfastError(error, 'WORKFLOW_NOT_RETRYABLE') && typeof error.details.failedStep === 'number';
      // If a child failed, the child must be retried first.
      if (!isAdvised) throw error;
      const { workflowId, failedStep } = error.details as { workflowId: string; failedStep: number };
      return workflows.retry(workflowId, { fromStep: failedStep });
    });
    const before = (await kept()).map((name) => [name, this.runs.get(name)] as const);
    await this.app.clock.advance(1000);
    return before.filter(([name, runs]) => this.runs.get(name) !== runs).map(([name]) => `${name} ran again`);
  }

  private begin(): string[] {
    const trace: string[] = [];
    const { workflowId } = context();
    this.traces.set(workflowId, [...(this.traces.get(workflowId) ?? []), trace]);
    return trace;
  }

  private async interpret(program: Program, trace: string[]): Promise<unknown> {
    switch (program.op) {
      case 'step':
        return traced(trace, program.name, () => run(program.name, () => this.body(program.name, program.fails)));
      case 'sleep':
        return traced(trace, program.name, () => sleep(program.ms));
      case 'child':
        return traced(trace, program.name, () =>
          program.called
            ? this.child(program.program)
            : this.child.start(program.program).then((handle) => handle.result()),
        );
      case 'sequence':
        for (const part of program.parts) await this.interpret(part, trace);
        return undefined;
      case 'try':
        return this.interpret(program.body, trace).catch(async (error) => {
          await this.interpret(program.handler, trace);
          // Every other handler only reacts to the failure, for example with a refund, and then fails too.
          if (JSON.stringify(program).length % 2 === 0) throw error;
        });
      default: {
        const parts = program.parts.map((part) => this.interpret(part, trace));
        const combine = Promise[program.op].bind(Promise) as (parts: readonly Promise<unknown>[]) => Promise<unknown>;
        await combine(parts);
        return undefined;
      }
    }
  }

  private async body(name: string, fails: boolean): Promise<string> {
    const { workflowId } = context();
    const key = `${workflowId}/${name}`;
    this.bodies++;
    this.runs.set(key, (this.runs.get(key) ?? 0) + 1);
    await delay(this.app.clock, Math.floor(this.latencies.number() * 8));
    if (fails && !this.isRepaired) throw new Error(`${name} fails`);
    return name;
  }
}

async function traced<T>(trace: string[], name: string, work: () => Promise<T>): Promise<T> {
  trace.push(`${name}?`);
  const result = work();
  await result.catch(() => {});
  trace.push(name);
  return result;
}
