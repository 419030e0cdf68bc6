import { afterEach } from 'vitest';
import { createCodecs } from '../../src/codec/codec.js';
import { Registry } from '../../src/engine/registry.js';
import { Runtime } from '../../src/engine/runtime.js';
import type { Clock } from '../../src/model/clock.js';
import { Liveness, type LivenessOptions } from '../../src/recovery/liveness.js';
import { openStorage } from '../../src/storage/open.js';
import { VirtualClock } from '../../src/testing/index.js';
import { silent } from './backends.js';

export interface MemberOptions<C extends Clock> extends LivenessOptions {
  readonly clock?: C;
  readonly executorId?: string;
}

/** An executor that does nothing but live, and look at the others. */
export interface Member<C extends Clock = VirtualClock> {
  readonly liveness: Liveness;
  readonly incarnation: string;
  readonly clock: C;
  /** Names of the statements it has made. */
  readonly statements: readonly string[];
  /** How often it was told of deaths. */
  readonly reports: () => number;
  /** Ends its session with the server, if it has one. */
  endSession(): Promise<void>;
}

/** Of another host: nothing is known of such a process but what the database tells. */
export const elsewhere = { host: 'elsewhere', pid: 1, processStart: null };

/** Executors of one database, each with a clock of its own unless they are given one. */
export function fleet(): {
  join<C extends Clock = VirtualClock>(url: string, options?: MemberOptions<C>): Promise<Member<C>>;
  /** Ends all, as the end of a test does. */
  end(): Promise<void>;
} {
  const endings: (() => Promise<unknown>)[] = [];
  const end = async (): Promise<void> => {
    for (const each of endings.splice(0).reverse()) await each();
  };
  afterEach(end);
  return {
    end,
    join: async <C extends Clock>(url: string, options: MemberOptions<C> = {}): Promise<Member<C>> => {
      const { clock = new VirtualClock() as Clock as C, executorId = 'member', ...rest } = options;
      const statements: string[] = [];
      let underWay = 0;
      const probe = (name: string) => {
        statements.push(name);
        underWay++;
        return (phase: string): void => {
          if (phase !== 'after-apply') underWay--;
        };
      };
      const common = { schema: 'dbos', migrate: true, logger: silent, applicationName: 'fleet' };
      const storage = await openStorage({ url, ...common, probe });
      const engine = new Runtime({
        writer: { executorId, appName: 'fleet' },
        version: 'v1',
        storage,
        clock,
        codecs: createCodecs({}),
        logger: silent,
        registry: new Registry(),
      });
      const liveness = new Liveness(engine, { monotonic: () => clock.now(), ...rest });
      let reports = 0;
      liveness.onDeath = () => {
        reports++;
      };
      const forget = clock instanceof VirtualClock ? clock.onMove(() => quiet(() => underWay === 0)) : () => {};
      endings.push(async () => {
        forget();
        await liveness.abandon();
        await engine.news.abandon();
        await storage.close();
      });
      await engine.news.start(liveness.presence);
      await liveness.start();
      const { incarnation } = engine.owners;
      return {
        liveness,
        incarnation,
        clock,
        statements,
        reports: () => reports,
        endSession: () => engine.news.abandon(),
      };
    },
  };
}

/** In steps that are shorter than the pace of any service, so that none of them is passed over. */
export async function pass(clock: VirtualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 250) await clock.advance(250);
}

async function quiet(holds: () => boolean): Promise<void> {
  for (let turns = 0; turns < 3; turns++) {
    await new Promise((resolve) => setImmediate(resolve));
    if (!holds()) turns = -1;
  }
}
