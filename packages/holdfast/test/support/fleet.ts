import { afterEach } from 'vitest';
import { createCodecs } from '../../src/codec/codecs.js';
import { Registry } from '../../src/engine/registry.js';
import { Runtime } from '../../src/engine/runtime.js';
import type { Clock } from '../../src/model/clock.js';
import { Liveness } from '../../src/recovery/liveness.js';
import type { LivenessOptions } from '../../src/recovery/liveness-options.js';
import { openStorage } from '../../src/storage/open.js';
import { VirtualClock } from '../../src/testing/index.js';
import { silent } from './backends.js';

export interface MemberOptions<C extends Clock> extends LivenessOptions {
  readonly clock?: C;
  readonly executorId?: string;
}

/** An executor that only sends heartbeats and watches the other executors. */
export interface Member<C extends Clock = VirtualClock> {
  readonly liveness: Liveness;
  readonly incarnation: string;
  readonly clock: C;
  /** Names of the statements that it has sent. */
  readonly statements: readonly string[];
  /** How often it was notified of deaths. */
  readonly reports: () => number;
  /** Ends its session with the server, if it has one. */
  endSession(): Promise<void>;
}

/** A process on another host: others learn about it only through the database. */
export const elsewhere = { host: 'elsewhere', pid: 1, processStart: null };

/** Starts executors on one database. Each one has its own clock unless it is given a clock. */
export function fleet(): {
  join<C extends Clock = VirtualClock>(url: string, options?: MemberOptions<C>): Promise<Member<C>>;
  /** Stops all executors; the end of a test does the same. */
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
      const nothing = async (): Promise<void> => {};
      const actions = { onPossibleLoss: nothing, onRollback: nothing, onRowLost: nothing };
      const liveness = new Liveness(engine, actions, { monotonic: () => clock.now(), ...rest });
      let reports = 0;
      liveness.onDeath(() => void reports++);
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

/** Advances the clock in steps shorter than the interval of any service, so that every service runs each time. */
export async function pass(clock: VirtualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 250) await clock.advance(250);
}

async function quiet(holds: () => boolean): Promise<void> {
  for (let turns = 0; turns < 3; turns++) {
    await new Promise((resolve) => setImmediate(resolve));
    if (!holds()) turns = -1;
  }
}
