import { whileWaiting } from '../../src/engine/api/context.js';
import { context, run, sleep, type Workflow, workflow } from '../../src/index.js';
import { delay } from '../../src/model/clock.js';
import { SeededRandom } from '../../src/model/ids.js';
import type { VirtualClock } from '../../src/testing/index.js';
import type { Outcome, Program } from './programs.js';

/** What the code of one execution saw, in order: each operation that it called, and each result. */
export type Trace = string[];

/**
 * Marks in a trace that the root has its outcome. Later entries of losing branches depend on when the engine stops
 * them.
 */
export const theEnd = 'ends';

/**
 * Runs programs as workflows and records what their code sees. One World watches all executions of a program, across
 * all its crashes.
 */
export class World {
  /** By workflow: the traces of its executions, oldest first. */
  readonly traces = new Map<string, Trace[]>();
  readonly violations: string[] = [];
  /** The number of this launch. Latencies differ between launches, as in production. */
  launches = 0;
  clock!: VirtualClock;
  latencySeed = 0;
  private readonly committed = new Set<string>();

  readonly root: Workflow<[Program], Outcome>;
  readonly child: Workflow<[Program], unknown>;

  constructor() {
    this.root = workflow('root', async (program: Program): Promise<Outcome> => this.toItsEnd(program));
    this.child = workflow('child', async (program: Program): Promise<unknown> => this.interpret(program, this.begin()));
  }

  /** Notes that the step's checkpoint is in the database, so its body must not begin again. */
  noteCommitted(workflowId: string, stepName: string): void {
    this.committed.add(`${workflowId}/${stepName}`);
  }

  /** Called when the database has gone back to before some checkpoints. */
  forgetCommitted(): void {
    this.committed.clear();
  }

  private async toItsEnd(program: Program): Promise<Outcome> {
    const trace = this.begin();
    const outcome = await settle(this.interpret(program, trace));
    trace.push(theEnd);
    return outcome;
  }

  private begin(): Trace {
    const { workflowId } = context();
    const trace: Trace = [];
    this.traces.set(workflowId, [...(this.traces.get(workflowId) ?? []), trace]);
    return trace;
  }

  private async interpret(program: Program, trace: Trace): Promise<unknown> {
    switch (program.op) {
      case 'step':
        return traced(trace, program.name, () => run(program.name, () => this.body(program.name, program.fails)));
      case 'sleep':
        return traced(trace, program.name, () => sleep(program.ms).then(() => program.name));
      case 'sequence': {
        const values: unknown[] = [];
        for (const part of program.parts) values.push(await this.interpret(part, trace));
        return values;
      }
      case 'try': {
        const tried = await settle(this.interpret(program.body, trace));
        if ('ok' in tried) return { tried: tried.ok };
        return { caught: tried.error, handled: await this.interpret(program.handler, trace) };
      }
      case 'child':
        return traced(trace, program.name, () => this.runChild(program.program, program.called));
      case 'allSettled':
        return Promise.all(program.parts.map((part) => settle(this.interpret(part, trace))));
      default:
        return combine(
          program.op,
          program.parts.map((part) => this.interpret(part, trace)),
        );
    }
  }

  private async runChild(program: Program, called: boolean): Promise<unknown> {
    if (called) return this.child(program);
    const handle = await this.child.start(program);
    return handle.result();
  }

  private async body(name: string, fails: boolean): Promise<string> {
    const { workflowId } = context();
    if (this.committed.has(`${workflowId}/${name}`)) this.violations.push(`${name} began after its checkpoint`);
    const random = new SeededRandom(`${this.latencySeed} ${this.launches} ${name}`);
    const ms = Math.floor(random.number() * 4);
    // The body waits for the clock, so the clock must not wait for the body.
    if (ms > 0) await whileWaiting(delay(this.clock, ms));
    if (fails) throw new Error(name);
    return name;
  }
}

function combine(op: 'all' | 'race' | 'any', branches: Promise<unknown>[]): Promise<unknown> {
  if (op === 'all') return Promise.all(branches);
  return op === 'race' ? Promise.race(branches) : Promise.any(branches);
}

async function traced(trace: Trace, name: string, operation: () => Promise<unknown>): Promise<unknown> {
  trace.push(`calls ${name}`);
  const outcome = await settle(operation());
  trace.push(`${name}: ${JSON.stringify(outcome)}`);
  if ('ok' in outcome) return outcome.ok;
  throw toError(outcome.error);
}

async function settle(promise: Promise<unknown>): Promise<Outcome> {
  try {
    return { ok: await promise };
  } catch (error) {
    return { error: describe(error) };
  }
}

/** Describes an error as plain JSON: the name of a failed step, or the list of errors of Promise.any. */
function describe(error: unknown): unknown {
  if (error instanceof AggregateError) return { any: error.errors.map(describe) };
  return error instanceof Error ? error.message : String(error);
}

function toError(described: unknown): Error {
  if (typeof described === 'string') return new Error(described);
  return new AggregateError((described as { any: unknown[] }).any.map(toError));
}
