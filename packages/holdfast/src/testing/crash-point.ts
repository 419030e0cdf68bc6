import type { StatementProbe } from '../storage/contract/probe.js';

/**
 * A moment at which to crash: at the n-th database statement (from 1), in one of four phases.
 *
 * - `before-send`: it never reaches the database.
 * - `after-apply`: it is committed, but this process has not read the reply.
 * - `after-reply`: the driver has the reply, the engine does not act on it any more.
 * - `before-resolve`: the engine has acted on it, and is about to hand a result to the workflow's code.
 */
export interface CrashPoint {
  readonly statement: number;
  readonly phase: (typeof crashPhases)[number];
}

export const crashPhases = ['before-send', 'after-apply', 'after-reply', 'before-resolve'] as const;

/** Counts the statements of an app and, if told to, crashes at one of them. */
export class CrashClock {
  /** Statements sent so far, by name, in order. */
  readonly statements: string[] = [];
  private replied = 0;

  constructor(
    private readonly point: CrashPoint | undefined,
    private readonly crash: (phase: CrashPoint['phase']) => void = killThisProcess,
  ) {}

  /** Statements that have been sent and not answered. */
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

/** Parses `12:after-apply`, the form in which a parent process hands a crash point to its child. */
export function parseCrashPoint(text: string | undefined): CrashPoint | undefined {
  const match = /^(\d+):(.+)$/.exec(text ?? '');
  const phase = crashPhases.find((each) => each === match?.[2]);
  return phase && { statement: Number(match?.[1]), phase };
}

/** As a power cut would: no handlers, no flushing, no good-bye to the database. */
function killThisProcess(): void {
  process.kill(process.pid, 'SIGKILL');
  // The signal is delivered when the process next returns to the kernel; nothing must run until then.
  for (;;);
}
