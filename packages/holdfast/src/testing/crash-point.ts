import type { StatementProbe } from '../storage/contract/probe.js';

/**
 * The moment of a crash: the number of a database statement (from 1), and one of four phases.
 *
 * - `before-send`: the statement never reaches the database.
 * - `after-apply`: the statement is committed, but this process has not read the reply.
 * - `after-reply`: the driver has the reply, but the engine does not process it.
 * - `before-resolve`: the engine has processed the reply, and is about to pass a result to the workflow function.
 *
 * @example
 * const test = await testApp({ workflows: [pair], crashAt: { statement: 3, phase: 'after-apply' } });
 * void pair.with({ id: 'pair-1' })().catch(() => {}); // never settles, because its app crashes
 * await test.crashed;
 * const restarted = await test.restart();
 */
export interface CrashPoint {
  /** Number of the statement, from 1. */
  readonly statement: number;
  readonly phase: (typeof crashPhases)[number];
}

/** The four phases of a {@link CrashPoint}. */
export const crashPhases = ['before-send', 'after-apply', 'after-reply', 'before-resolve'] as const;

/** Counts the database statements of an app. With a crash point, it crashes the app at that point. */
export class CrashClock {
  /** Names of the statements sent so far, in order. */
  readonly statements: string[] = [];
  private replied = 0;

  constructor(
    private readonly point: CrashPoint | undefined,
    private readonly crash: (phase: CrashPoint['phase']) => void = killThisProcess,
  ) {}

  /** Number of statements that were sent and are not answered. */
  get underWay(): number {
    return this.statements.length - this.replied;
  }

  readonly probe: StatementProbe = (statement) => {
    const n = this.statements.push(statement);
    this.reach(n, 'before-send');
    return (phase) => {
      if (phase !== 'after-apply') this.replied++;
      if (phase !== 'failed') this.reach(n, phase);
    };
  };

  readonly beforeResolve = (): void => {
    if (this.point?.phase === 'before-resolve' && this.replied >= this.point.statement) {
      this.crash('before-resolve');
    }
  };

  private reach(statement: number, phase: CrashPoint['phase']): void {
    if (this.point?.phase === phase && this.point.statement === statement) this.crash(phase);
  }
}

/**
 * Parses a crash point such as `12:after-apply`, for example from an environment variable. Returns undefined if the
 * text is not a crash point.
 *
 * @example
 * const clock = new CrashClock(parseCrashPoint(process.env.CRASH_AT));
 */
export function parseCrashPoint(text: string | undefined): CrashPoint | undefined {
  const match = /^(\d+):(.+)$/.exec(text ?? '');
  const phase = crashPhases.find((each) => each === match?.[2]);
  return phase && { statement: Number(match?.[1]), phase };
}

/**
 * Ends the process as a power failure would: no handlers run, nothing is flushed, and the database connection is not
 * closed.
 */
function killThisProcess(): void {
  process.kill(process.pid, 'SIGKILL');
  // The signal is delivered when the process next returns from the kernel. No code must run until then.
  for (;;);
}
