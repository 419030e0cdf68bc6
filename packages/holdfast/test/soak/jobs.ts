import type { StartOptions } from '../../src/index.js';
import type { SeededRandom } from '../../src/model/ids.js';

/** One workflow that a client starts, and its expected outcome (the programs are in fixtures/programs.mjs). */
export interface Job {
  readonly id: string;
  readonly name: string;
  readonly args: readonly number[];
  readonly options: StartOptions;
  /** The result if the workflow succeeds. */
  readonly expected: unknown;
  /** The ending if the workflow is not cancelled by an operator. */
  readonly ending: 'SUCCESS' | 'ERROR' | 'CANCELLED';
  /**
   * True if the workflow continues where it was when it is resumed. A workflow with children does not: they stay
   * cancelled.
   */
  readonly resumable: boolean;
}

export const queueLimits = {
  /** These limits never change. */
  limited: { concurrency: 6, workerConcurrency: 3 },
  /** The limit of each partition. */
  parted: { concurrency: 1 },
  /** The operator never sets a higher limit than this. */
  changing: { concurrency: 8 },
  /** A workflow that only waits gives its slot to another workflow. */
  shared: { concurrency: 3, workerConcurrency: 2, whileWaiting: 'release' },
} as const;

const tenants = 6;

const triangle = (n: number): number => (n * (n - 1)) / 2;

type Plan = Pick<Job, 'args' | 'expected'> & Partial<Job>;

const programs: Record<string, { readonly weight: number; plan(n: number): Plan }> = {
  ladder: { weight: 6, plan: (n) => ({ args: [n + 2], expected: triangle(n + 2) }) },
  fan: { weight: 2, plan: (n) => ({ args: [n + 1], expected: 2 * triangle(n + 1) }) },
  nap: { weight: 2, plan: (n) => ({ args: [n * 600], expected: 'rested' }) },
  vigil: { weight: 2, plan: (n) => ({ args: [n * 1_200], expected: 'all is well' }) },
  family: { weight: 2, plan: (n) => ({ args: [n], expected: n * triangle(3), resumable: false }) },
  exchange: { weight: 2, plan: (n) => ({ args: [n], expected: [n, 'echoed'], resumable: false }) },
  mailbox: { weight: 3, plan: (n) => ({ args: [n + 1], expected: n + 1 }) },
  teller: { weight: 3, plan: (n) => ({ args: [2 * n], expected: 2 * n }) },
  books: { weight: 3, plan: (n) => ({ args: [n], expected: n }) },
  late: {
    weight: 1,
    plan: () => ({ args: [], expected: null, ending: 'CANCELLED', resumable: false, options: { timeout: 500 } }),
  },
  failing: { weight: 1, plan: () => ({ args: [], expected: null, ending: 'ERROR', resumable: false }) },
};

const weighted = Object.entries(programs).flatMap(([name, { weight }]) => Array<string>(weight).fill(name));

/** The n-th job of a run: the same for the same seed. */
export function planJob(n: number, random: SeededRandom): Job {
  const name = pick(weighted, random);
  const plan = (programs[name] as (typeof programs)[string]).plan(1 + Math.floor(random.number() * 4));
  const { args, expected, ending = 'SUCCESS', resumable = true } = plan;
  const options = { ...placeOf(random), ...plan.options };
  return { id: `${name}-${String(n).padStart(6, '0')}`, name, args, options, expected, ending, resumable };
}

function placeOf(random: SeededRandom): StartOptions {
  const delay = random.number() < 0.1 ? { delay: Math.floor(random.number() * 1_500) } : {};
  const kind = random.number();
  if (kind < 0.4) return delay;
  if (kind < 0.55) return { ...delay, queue: 'limited', priority: Math.floor(random.number() * 3) };
  if (kind < 0.65) return { ...delay, queue: 'shared' };
  if (kind < 0.85) return { ...delay, queue: 'parted', partition: `tenant ${Math.floor(random.number() * tenants)}` };
  return { ...delay, queue: 'changing' };
}

export function pick<T>(from: readonly T[], random: SeededRandom): T {
  return from[Math.floor(random.number() * from.length)] as T;
}
