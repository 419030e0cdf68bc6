import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../../src/model/ids.js';
import type { Fault, FaultProxy } from '../faults/proxy.js';
import { type SoakFleet, staleTimeoutMs } from './fleet.js';
import { pick } from './jobs.js';
import type { Witness } from './witness.js';

/** How long from one fault of a kind to the next, on average. */
const pacesMs = { kill: 2_800, stop: 17_000, restart: 48_000, cut: 4_000, deploy: 75_000 } as const;

/** In a short run each kind comes a few times all the same. */
const fewest = 3;

/** What was done, and what it led to. A kind that never landed makes a run void. */
export interface Faults {
  kills: number;
  /** Stops beyond the time to live. */
  stops: number;
  /** Workflows that others took from a stopped process before it went on. */
  takenFromStopped: number;
  restarts: number;
  cuts: number;
  deploys: number;
  /** Undefined: none was asked for. */
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
  /** Puts an older backup back, in the middle of the run. */
  readonly restore?: { save(): Promise<void>; putBack(): Promise<void> };
}

/** Brings about every kind of fault at its own pace, each drawn from its own chance, until the time is over. */
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

  /** Up to twice the time to live: others take over meanwhile, and it goes on in the middle of what it did. */
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

  /** Once, with a backup that is older by a tenth of the run, and by half a minute at most. */
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

  /** Some at a statement, in the middle of whatever is under way; some for all connections at once. */
  private async cut(random: SeededRandom): Promise<void> {
    const { proxy } = this.parts;
    const kind = pick(['sever', 'cut-before', 'cut-after', 'cut-after', 'reset', 'delay'] as const, random);
    if (kind === 'sever') return void proxy.sever();
    const nth = 1 + Math.floor(random.number() * 30);
    const fault: Fault = { kind, at: /./, nth, ms: 500 + 1_000 * random.number() };
    proxy.arm(fault);
  }

  /**
   * A second version joins, the first drains. Its last process stays until nothing of that version is unfinished: nobody
   * else would go on with it.
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
