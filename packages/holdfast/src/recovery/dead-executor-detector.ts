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
  /** Whether an absent lock is evidence of death (see liveness.ts). */
  readonly locksTell: boolean;
}

/** Minimum time between two polls that find a lock absent. An executor reopens a broken session in less time. */
const lockGraceMs = 300;

/**
 * A gap between two polls counts as silence of a peer for at most this many times the intended delay. The rest of the
 * gap may be time in which this process was stopped.
 */
const maxGapFactor = 1.5;

interface Peer {
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
 * The other executors of an app. Each executor is judged by what this process observes, never by comparing clocks. A
 * peer is dead if one of these is true:
 *
 *   1. It ran on this host, and its process is gone.
 *   2. Its session lock was absent in two polls, with no heartbeat in between. After a heartbeat in between, its lock
 *      is ignored until it is seen again, because its session may be half open.
 *   3. The number of its last heartbeat did not grow for its time to live. Only observed time counts, so an outage of
 *      the database or a stop of this process does not.
 *
 * A peer with a new heartbeat is alive, even if it was declared dead before.
 */
export class Peers {
  private readonly peers = new Map<string, Peer>();
  private lastPollAt: number | undefined;

  constructor(
    private readonly self: string,
    /** Returns true if the executor ran on this host and its process is certainly gone. */
    private readonly isGone: (peer: ExecutorRecord) => boolean,
  ) {}

  /** Evaluates one poll. Returns the peers that it newly declares dead. */
  look(poll: Poll): Death[] {
    const gap = this.lastPollAt === undefined ? 0 : poll.at - this.lastPollAt;
    const observedMs = Math.max(0, Math.min(gap, poll.paceMs * maxGapFactor));
    this.lastPollAt = poll.at;
    const others = poll.records.filter((record) => record.incarnation !== this.self);
    const listed = new Set(others.map((record) => record.incarnation));
    for (const incarnation of this.peers.keys()) if (!listed.has(incarnation)) this.peers.delete(incarnation);
    const found: Death[] = [];
    for (const record of others) {
      const peer = this.update(record, observedMs);
      if (record.present === true) peer.ignoresLock = false;
      if (!poll.locksTell || record.present !== false || peer.ignoresLock) peer.absentSince = undefined;
      else peer.absentSince ??= poll.at;
      if (peer.death) continue;
      const gone = this.processDeathReason(peer);
      const why = gone ?? deathReason(peer, poll.at);
      if (why !== undefined) found.push(declareDead(peer, why, poll.now, gone !== undefined));
    }
    return found;
  }

  /** Applies rule 1 only, which needs no statement. Returns the peers that it newly declares dead. */
  lookAtProcesses(now: number): Death[] {
    const found: Death[] = [];
    for (const peer of this.peers.values()) {
      const why = peer.death ? undefined : this.processDeathReason(peer);
      if (why === undefined) continue;
      peer.goneSinceLastPoll = true;
      found.push(declareDead(peer, why, now, true));
    }
    return found;
  }

  deaths(): Death[] {
    return [...this.peers.values()].flatMap(({ death }) => death ?? []);
  }

  isDead(incarnation: string): boolean {
    return this.peers.get(incarnation)?.death !== undefined;
  }

  states(): ExecutorState[] {
    return [...this.peers.values()].map((peer) => ({ record: peer.record, state: stateOf(peer) }));
  }

  /** The peers that are not declared dead. */
  living(): ExecutorRecord[] {
    return [...this.peers.values()].flatMap(({ record, death }) => (death ? [] : record));
  }

  private update(record: ExecutorRecord, observedMs: number): Peer {
    const known = this.peers.get(record.incarnation);
    if (!known) {
      const peer = {
        record,
        silentMs: 0,
        absentSince: undefined,
        death: undefined,
        goneSinceLastPoll: false,
        ignoresLock: false,
        ignoresPid: false,
      };
      this.peers.set(record.incarnation, peer);
      return peer;
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

  private processDeathReason({ record, ignoresPid }: Peer): string | undefined {
    if (ignoresPid || !this.isGone(record)) return undefined;
    return `its process ${record.pid} on this host is gone`;
  }
}

function deathReason({ record, silentMs, absentSince }: Peer, at: number): string | undefined {
  if (absentSince !== undefined && at - absentSince >= lockGraceMs) return 'its session with the database is gone';
  if (silentMs >= record.ttlMs) return `it was silent for ${Math.round(silentMs)} ms`;
  return undefined;
}

function declareDead(peer: Peer, why: string, declaredDeadAt: number, isGone: boolean): Death {
  const { executorId, incarnation, heartbeatAt: lastHeartbeatAt } = peer.record;
  const beats = isGone ? null : peer.record.beats;
  peer.death = { executorId, incarnation, why, lastHeartbeatAt, declaredDeadAt, beats };
  return peer.death;
}

function stateOf({ death, absentSince, silentMs, record }: Peer): Life {
  if (death) return 'dead';
  return absentSince !== undefined || silentMs * 2 >= record.ttlMs ? 'suspected' : 'alive';
}
