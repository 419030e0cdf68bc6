import type { ExecutorRecord } from '../storage/contract/executors.js';

export interface Death {
  readonly executorId: string;
  readonly incarnation: string;
  readonly why: string;
  /** On the database's clock. */
  readonly lastHeartbeatAt: number;
  readonly seenDeadAt: number;
  /** Its heartbeats by then; null: its process is gone, and they say nothing more. */
  readonly beats: number | null;
}

/** `suspected`: something speaks for its death, and not yet enough. */
type Life = 'alive' | 'suspected' | 'dead';

export interface ExecutorState {
  readonly record: ExecutorRecord;
  readonly standing: Life;
}

/** What was seen of all executors at one time. */
export interface Look {
  readonly records: readonly ExecutorRecord[];
  /** When it was asked for: on the monotonic clock of this process, and on the database's for people. */
  readonly at: number;
  readonly now: number;
  /** How long after the look before it this one was meant to be. */
  readonly paceMs: number;
  /** Whether an absent lock says something about its holder: see liveness.ts. */
  readonly locksTell: boolean;
}

/** Between two looks that find a lock absent: a session that broke is opened anew in less. */
const lockGraceMs = 300;

/** A gap between two looks counts as time in which a peer was silent up to this many times what it should have been. */
const longestGap = 1.5;

interface Peer {
  record: ExecutorRecord;
  /** For how long it was seen to be silent. */
  silentMs: number;
  /** The first of the looks in a row that found its lock absent. */
  absentAt: number | undefined;
  death: Death | undefined;
  /** Its process was found gone between two looks: what the next one shows may be from before that. */
  goneSinceLook: boolean;
  /** It lived on although its lock was absent, and has not been seen with one since: its lock tells nothing. */
  lockMisleads: boolean;
  /** It lived on although its process seemed gone: what is seen of processes from here does not apply to it. */
  pidMisleads: boolean;
}

/**
 * The other executors of an app, judged by what is seen of them and never by comparing clocks. A peer is dead when
 *
 *   1. it ran on this host, and its process is gone;
 *   2. its session lock was absent at two looks, and it did not beat in between (if it did, its lock tells nothing until it
 *      is seen again: its session may be half open);
 *   3. its heartbeats did not grow for its time to live, counting only time in which they were looked at: not an outage of
 *      the database, nor time in which this process itself stood still.
 *
 * One that shows another heartbeat is alive, whatever was said of it before.
 */
export class Peers {
  private readonly peers = new Map<string, Peer>();
  private lastLookAt: number | undefined;

  constructor(
    private readonly self: string,
    /** Whether it ran on this host, and its process is certainly gone. */
    private readonly isGone: (peer: ExecutorRecord) => boolean,
  ) {}

  /** Returns those that were found dead by it. */
  look(look: Look): Death[] {
    const gap = this.lastLookAt === undefined ? 0 : look.at - this.lastLookAt;
    const seenMs = Math.max(0, Math.min(gap, look.paceMs * longestGap));
    this.lastLookAt = look.at;
    const others = look.records.filter((record) => record.incarnation !== this.self);
    const listed = new Set(others.map((record) => record.incarnation));
    for (const incarnation of this.peers.keys()) if (!listed.has(incarnation)) this.peers.delete(incarnation);
    const found: Death[] = [];
    for (const record of others) {
      const peer = this.seen(record, seenMs);
      if (record.present === true) peer.lockMisleads = false;
      if (!look.locksTell || record.present !== false || peer.lockMisleads) peer.absentAt = undefined;
      else peer.absentAt ??= look.at;
      if (peer.death) continue;
      const gone = this.whyByProcess(peer);
      const why = gone ?? whyDead(peer, look.at);
      if (why !== undefined) found.push(declare(peer, why, look.now, gone !== undefined));
    }
    return found;
  }

  /** By the first rule only, which costs no statement. */
  lookAtProcesses(now: number): Death[] {
    const found: Death[] = [];
    for (const peer of this.peers.values()) {
      const why = peer.death ? undefined : this.whyByProcess(peer);
      if (why === undefined) continue;
      peer.goneSinceLook = true;
      found.push(declare(peer, why, now, true));
    }
    return found;
  }

  deaths(): Death[] {
    return [...this.peers.values()].flatMap(({ death }) => death ?? []);
  }

  isDead(incarnation: string): boolean {
    return this.peers.get(incarnation)?.death !== undefined;
  }

  standings(): ExecutorState[] {
    return [...this.peers.values()].map((peer) => ({ record: peer.record, standing: lifeOf(peer) }));
  }

  /** Those that are not known to be dead. */
  living(): ExecutorRecord[] {
    return [...this.peers.values()].flatMap(({ record, death }) => (death ? [] : record));
  }

  private seen(record: ExecutorRecord, seenMs: number): Peer {
    const known = this.peers.get(record.incarnation);
    if (!known) {
      const peer = {
        record,
        silentMs: 0,
        absentAt: undefined,
        death: undefined,
        goneSinceLook: false,
        lockMisleads: false,
        pidMisleads: false,
      };
      this.peers.set(record.incarnation, peer);
      return peer;
    }
    if (record.beats === known.record.beats) known.silentMs += seenMs;
    else if (!known.goneSinceLook) {
      if (known.death && this.isGone(record)) known.pidMisleads = true;
      if (known.absentAt !== undefined && record.present === false) known.lockMisleads = true;
      [known.silentMs, known.absentAt, known.death] = [0, undefined, undefined];
    }
    known.goneSinceLook = false;
    known.record = record;
    return known;
  }

  private whyByProcess({ record, pidMisleads }: Peer): string | undefined {
    if (pidMisleads || !this.isGone(record)) return undefined;
    return `its process ${record.pid} on this host is gone`;
  }
}

function whyDead({ record, silentMs, absentAt }: Peer, at: number): string | undefined {
  if (absentAt !== undefined && at - absentAt >= lockGraceMs) return 'its session with the database is gone';
  if (silentMs >= record.ttlMs) return `it was silent for ${Math.round(silentMs)} ms`;
  return undefined;
}

function declare(peer: Peer, why: string, seenDeadAt: number, isGone: boolean): Death {
  const { executorId, incarnation, heartbeatAt: lastHeartbeatAt } = peer.record;
  const beats = isGone ? null : peer.record.beats;
  peer.death = { executorId, incarnation, why, lastHeartbeatAt, seenDeadAt, beats };
  return peer.death;
}

function lifeOf({ death, absentAt, silentMs, record }: Peer): Life {
  if (death) return 'dead';
  return absentAt !== undefined || silentMs * 2 >= record.ttlMs ? 'suspected' : 'alive';
}
