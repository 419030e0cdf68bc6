import type { ExecutorRecord } from '../storage/contract/executors.js';

/** An executor that this process has declared dead. */
export interface Death {
  readonly executorId: string;
  readonly incarnation: string;
  readonly why: string;
  /** Epoch milliseconds on the database's clock. */
  readonly lastHeartbeatAt: number;
  readonly declaredDeadAt: number;
  /**
   * The number of its last heartbeat at that time. Null: its process is gone, so no later heartbeat can prove it
   * alive.
   */
  readonly beats: number | null;
}

/** `suspected`: there are signs of death, but not enough to declare the executor dead. */
type Life = 'alive' | 'suspected' | 'dead';

export interface ExecutorState {
  readonly record: ExecutorRecord;
  readonly state: Life;
}

/** The result of one poll of the table `executors`. */
export interface Poll {
  readonly records: readonly ExecutorRecord[];
  /**
   * When the poll was sent: `at` on the monotonic clock of this process, `now` on the database's clock (for people).
   */
  readonly at: number;
  readonly now: number;
  /** The intended delay after the previous poll. */
  readonly paceMs: number;
  /** True if an absent lock is evidence of death (see liveness.ts). */
  readonly locksTell: boolean;
}

/** Minimum time between two polls that find a lock absent. An executor reopens a broken session in less time. */
const lockGraceMs = 300;

/**
 * A gap between two polls counts as silence of an executor for at most this many times the intended delay. The rest of
 * the gap may be time in which this process was stopped.
 */
const maxGapFactor = 1.5;

interface ObservedExecutor {
  record: ExecutorRecord;
  /** Observed time without a new heartbeat. */
  silentMs: number;
  /** Time of the first poll in the current series of polls that found its lock absent. */
  absentSince: number | undefined;
  death: Death | undefined;
  /** Its process was found gone between two polls. A new heartbeat in the next poll may be from before its end. */
  goneSinceLastPoll: boolean;
  /** It sent heartbeats while its lock was absent. Until the lock is seen again, its absence is no evidence. */
  ignoresLock: boolean;
  /** It sent heartbeats although its pid seemed gone. So this process cannot judge it by its pid. */
  ignoresPid: boolean;
}

/**
 * Judges which of the other executors of an app are dead: by what this process observes, never by comparing clocks. An
 * executor is dead if one of these is true:
 *
 *   1. It ran on this host, and its process is gone.
 *   2. Its session lock was absent in two polls, with no heartbeat in between. After a heartbeat in between, its lock
 *      is ignored until it is seen again, because its session may be half open.
 *   3. The number of its last heartbeat did not grow for its time to live. Only observed time counts, so an outage of
 *      the database or a stop of this process does not.
 *
 * An executor with a new heartbeat is alive, even if it was declared dead before.
 */
export class DeadExecutorDetector {
  private readonly others = new Map<string, ObservedExecutor>();
  private lastPollAt: number | undefined;

  constructor(
    private readonly self: string,
    /** Returns true if the executor ran on this host and its process is certainly gone. */
    private readonly isGone: (executor: ExecutorRecord) => boolean,
  ) {}

  /** Evaluates one poll. Returns the executors that it newly declares dead. */
  look(poll: Poll): Death[] {
    const gap = this.lastPollAt === undefined ? 0 : poll.at - this.lastPollAt;
    const observedMs = Math.max(0, Math.min(gap, poll.paceMs * maxGapFactor));
    this.lastPollAt = poll.at;
    const records = poll.records.filter((record) => record.incarnation !== this.self);
    const listed = new Set(records.map((record) => record.incarnation));
    for (const incarnation of this.others.keys()) if (!listed.has(incarnation)) this.others.delete(incarnation);
    const found: Death[] = [];
    for (const record of records) {
      const executor = this.update(record, observedMs);
      if (record.present === true) executor.ignoresLock = false;
      if (!poll.locksTell || record.present !== false || executor.ignoresLock) executor.absentSince = undefined;
      else executor.absentSince ??= poll.at;
      if (executor.death) continue;
      const gone = this.processDeathReason(executor);
      const why = gone ?? deathReason(executor, poll.at);
      if (why !== undefined) found.push(declareDead(executor, why, poll.now, gone !== undefined));
    }
    return found;
  }

  /** Applies rule 1 only, which needs no statement. Returns the executors that it newly declares dead. */
  lookAtProcesses(now: number): Death[] {
    const found: Death[] = [];
    for (const executor of this.others.values()) {
      const why = executor.death ? undefined : this.processDeathReason(executor);
      if (why === undefined) continue;
      executor.goneSinceLastPoll = true;
      found.push(declareDead(executor, why, now, true));
    }
    return found;
  }

  deaths(): Death[] {
    return [...this.others.values()].flatMap(({ death }) => death ?? []);
  }

  isDead(incarnation: string): boolean {
    return this.others.get(incarnation)?.death !== undefined;
  }

  states(): ExecutorState[] {
    return [...this.others.values()].map((executor) => ({ record: executor.record, state: stateOf(executor) }));
  }

  /** The other executors that are not declared dead. */
  living(): ExecutorRecord[] {
    return [...this.others.values()].flatMap(({ record, death }) => (death ? [] : record));
  }

  private update(record: ExecutorRecord, observedMs: number): ObservedExecutor {
    const known = this.others.get(record.incarnation);
    if (!known) {
      const executor = {
        record,
        silentMs: 0,
        absentSince: undefined,
        death: undefined,
        goneSinceLastPoll: false,
        ignoresLock: false,
        ignoresPid: false,
      };
      this.others.set(record.incarnation, executor);
      return executor;
    }
    if (record.beats === known.record.beats) known.silentMs += observedMs;
    else if (!known.goneSinceLastPoll) {
      if (known.death && this.isGone(record)) known.ignoresPid = true;
      if (known.absentSince !== undefined && record.present === false) known.ignoresLock = true;
      [known.silentMs, known.absentSince, known.death] = [0, undefined, undefined];
    }
    known.goneSinceLastPoll = false;
    known.record = record;
    return known;
  }

  private processDeathReason({ record, ignoresPid }: ObservedExecutor): string | undefined {
    if (ignoresPid || !this.isGone(record)) return undefined;
    return `its process ${record.pid} on this host is gone`;
  }
}

function deathReason({ record, silentMs, absentSince }: ObservedExecutor, at: number): string | undefined {
  if (absentSince !== undefined && at - absentSince >= lockGraceMs) return 'its session with the database is gone';
  if (silentMs >= record.ttlMs) return `it was silent for ${Math.round(silentMs)} ms`;
  return undefined;
}

function declareDead(executor: ObservedExecutor, why: string, declaredDeadAt: number, isGone: boolean): Death {
  const { executorId, incarnation, heartbeatAt: lastHeartbeatAt } = executor.record;
  const beats = isGone ? null : executor.record.beats;
  executor.death = { executorId, incarnation, why, lastHeartbeatAt, declaredDeadAt, beats };
  return executor.death;
}

function stateOf({ death, absentSince, silentMs, record }: ObservedExecutor): Life {
  if (death) return 'dead';
  return absentSince !== undefined || silentMs * 2 >= record.ttlMs ? 'suspected' : 'alive';
}
