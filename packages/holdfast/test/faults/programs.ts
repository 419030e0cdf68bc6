import fc from 'fast-check';
import { type CrashPoint, crashPhases } from '../../src/testing/index.js';

/** A workflow as data: random-programs.test.ts generates it and interpreter.ts runs it. */
export type Program =
  | { readonly op: 'step'; readonly name: string; readonly fails: boolean }
  | { readonly op: 'sleep'; readonly name: string; readonly ms: number }
  | { readonly op: 'sequence'; readonly parts: readonly Program[] }
  | { readonly op: Combinator; readonly parts: readonly Program[] }
  | { readonly op: 'try'; readonly body: Program; readonly handler: Program }
  | { readonly op: 'child'; readonly name: string; readonly called: boolean; readonly program: Program };

type Combinator = 'all' | 'race' | 'any' | 'allSettled';

/** The outcome of a program. Values and errors are plain JSON: see interpreter.ts. */
export type Outcome = { readonly ok: unknown } | { readonly error: unknown };

/**
 * A program, its crash points in the first run and in the first recovery, and the seed for how long its steps take.
 */
export interface Plan {
  readonly program: Program;
  /** `at`: a number from 0 to 1, the position among the statements of the run. */
  readonly crashes: readonly [PlannedCrash, PlannedCrash];
  readonly latencySeed: number;
}

export interface PlannedCrash {
  readonly at: number;
  readonly phase: CrashPoint['phase'];
}

const combinators: readonly Combinator[] = ['all', 'race', 'any', 'allSettled'];

const oneIn = (n: number): fc.Arbitrary<boolean> => fc.nat(n - 1).map((drawn) => drawn === 0);

const unnamed = fc.letrec<{ program: Program; leaf: Program; branch: Program }>((tie) => ({
  leaf: fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({ op: fc.constant('step' as const), name: fc.constant(''), fails: oneIn(4) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        op: fc.constant('sleep' as const),
        name: fc.constant(''),
        ms: fc.integer({ min: 0, max: 4 }),
      }),
    },
  ),
  branch: fc.record({
    op: fc.constant('sequence' as const),
    parts: fc.array(tie('program'), { minLength: 1, maxLength: 3 }),
  }),
  program: fc.oneof(
    { maxDepth: 2 },
    { weight: 3, arbitrary: tie('leaf') },
    fc.record({
      op: fc.constantFrom(...combinators),
      parts: fc.array(tie('branch'), { minLength: 2, maxLength: 4 }),
    }),
    fc.record({ op: fc.constant('try' as const), body: tie('branch'), handler: tie('leaf') }),
    fc.record({
      op: fc.constant('child' as const),
      name: fc.constant(''),
      called: fc.boolean(),
      program: tie('branch'),
    }),
  ),
}));

const crash = fc.record({ at: fc.nat(999).map((n) => n / 1000), phase: fc.constantFrom(...crashPhases) });

/** Programs have concurrent parts near their top, with steps before and after them. */
export const plans: fc.Arbitrary<Plan> = fc.record({
  program: fc
    .tuple(
      fc.constantFrom(...combinators),
      fc.array(unnamed.branch, { minLength: 2, maxLength: 4 }),
      fc.array(unnamed.program, { maxLength: 3 }),
    )
    .map(([op, parts, rest]): Program => named({ op: 'sequence', parts: [{ op, parts }, ...rest] })),
  crashes: fc.tuple(crash, crash),
  latencySeed: fc.integer(),
});

/** Gives every operation its own name, so that a trace of names shows exactly what was done. */
function named(program: Program): Program {
  let count = 0;
  const visit = (node: Program): Program => {
    switch (node.op) {
      case 'step':
      case 'sleep':
        return { ...node, name: `${node.op} ${count++}` };
      case 'try':
        return { ...node, body: visit(node.body), handler: visit(node.handler) };
      case 'child':
        return { ...node, name: `child ${count++}`, program: visit(node.program) };
      default:
        return { ...node, parts: node.parts.map(visit) };
    }
  };
  return visit(program);
}
