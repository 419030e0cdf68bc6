import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../../src/model/ids.js';
import type { Fault, FaultProxy } from '../faults/proxy.js';
import { type SoakFleet, staleTimeoutMs } from './fleet.js';
import { pick } from './jobs.js';
import type { Witness } from './witness.js';

/** The average time between two faults of a kind. */
const pacesMs = { kill: 2_800, stop: 17_000, restart: 48_000, cut: 4_000, deploy: 75_000 } as const;

/** Even in a short run each kind of fault comes a few times. */
const fewest = 3;

/** The injected faults and their effects. A run is void if one kind never landed. */
export interface Faults {
  kills: number;
  /** Stops that lasted longer than the stale timeout. */
  stops: number;
  /** Workflows that other executors took over from a stopped process before it continued. */
  takenFromStopped: number;
  restarts: number;
  cuts: number;
  deploys: number;
  /** Undefined if no restore was requested. */
  restores?: number;
}

export interface FaultParts {
  readonly fleet: SoakFleet;
  readonly witness: Witness;
  readonly proxy: FaultProxy;
  readonly restart: () => Promise<void>;
  readonly seed: string;
  readonly runMs: number;
  readonly isOver: () => boolean;
  /** Restores an older backup in the middle of the run. */
  readonly restore?: { save(): Promise<void>; putBack(): Promise<void> };
}

/** Injects every kind of fault at its own pace, each with its own random sequence, until the time is over. */
export class FaultPlan {
  private readonly done: Faults = { kills: 0, stops: 0, takenFromStopped: 0, restarts: 0, cuts: 0, deploys: 0 };
  private version = 1;

  constructor(private readonly parts: FaultParts) {}

  async run(): Promise<void> {
    await Promise.all([
      this.repeat('kill', (random) => this.kill(random)),
      this.repeat('stop', (random) => this.stop(random)),
      this.repeat('restart', () => this.restart()),
      this.repeat('cut', (random) => this.cut(random)),
      this.repeat('deploy', () => this.deploy()),
      this.restore(),
    ]);
  }

  landed(): Faults {
    return { ...this.done, cuts: landedCuts(this.parts.proxy) };
  }

  private async repeat(kind: keyof typeof pacesMs, act: (random: SeededRandom) => Promise<unknown>): Promise<void> {
    const { seed, runMs, isOver } = this.parts;
    const random = new SeededRandom(`${kind} ${seed}`);
    const paceMs = Math.min(pacesMs[kind], runMs / (fewest + 1));
    for (;;) {
      const waitMs = paceMs * (0.5 + random.number());
      const by = performance.now() + waitMs;
      while (performance.now() < by && !isOver()) await delay(50);
      if (isOver()) return;
      await act(random);
    }
  }

  private async kill(random: SeededRandom): Promise<void> {
    if (await this.parts.fleet.kill(random.number())) this.done.kills++;
  }

  /**
   * Stops a worker for up to twice the stale timeout. Others take over meanwhile, and the worker then continues its
   * work.
   */
  private async stop(random: SeededRandom): Promise<void> {
    const { fleet, witness } = this.parts;
    const stopMs = staleTimeoutMs * (1.4 + 0.6 * random.number());
    await fleet.stopDuring(random.number(), async ({ executorId }) => {
      const owned = await witness.owned(executorId);
      await delay(stopMs);
      this.done.takenFromStopped += await witness.taken(owned);
      this.done.stops++;
    });
  }

  /** Restores once, with a backup that is older by a tenth of the run, but by half a minute at most. */
  private async restore(): Promise<void> {
    const { restore, runMs, isOver } = this.parts;
    if (!restore) return;
    this.done.restores = 0;
    const waitUntil = async (at: number): Promise<void> => {
      while (performance.now() < at && !isOver()) await delay(50);
    };
    await waitUntil(performance.now() + runMs * 0.45);
    await restore.save();
    await waitUntil(performance.now() + Math.min(30_000, runMs * 0.1));
    if (isOver()) return;
    await restore.putBack();
    this.done.restores++;
  }

  private async restart(): Promise<void> {
    await this.parts.restart();
    this.done.restarts++;
  }

  /** Some cuts hit one statement in the middle of the work, and some hit all connections at once. */
  private async cut(random: SeededRandom): Promise<void> {
    const { proxy } = this.parts;
    const kind = pick(['sever', 'cut-before', 'cut-after', 'cut-after', 'reset', 'delay'] as const, random);
    if (kind === 'sever') return void proxy.sever();
    const nth = 1 + Math.floor(random.number() * 30);
    const fault: Fault = { kind, at: /./, nth, ms: 500 + 1_000 * random.number() };
    proxy.arm(fault);
  }

  /**
   * A second version joins, and the first drains. The last process of the old version stays until no workflow of that
   * version is unfinished, because no other process would continue them.
   */
  private async deploy(): Promise<void> {
    const { fleet, witness } = this.parts;
    const old = `v${this.version}`;
    const next = `v${++this.version}`;
    for (let slot = 0; slot < fleet.size - 1; slot++) await fleet.replace(slot, next);
    while ((await witness.unfinished(old)) > 0) await delay(100);
    await fleet.replace(fleet.size - 1, next);
    this.done.deploys++;
  }
}

function landedCuts({ counts }: FaultProxy): number {
  return counts.sever + counts['cut-before'] + counts['cut-after'] + counts.reset + counts.delay;
}

/** The kinds of faults that never landed. */
export function neverLanded(done: Faults): string[] {
  return Object.entries(done)
    .filter(([, count]) => count === 0)
    .map(([kind]) => kind);
}
