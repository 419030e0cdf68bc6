import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import { describeError } from '../model/errors.js';
import { internalQueue } from '../model/queues.js';
import type { ExecutorRecord, NewExecutor } from '../storage/contract/executors.js';
import type { Presence } from '../storage/database.js';
import { type Death, type ExecutorState, Peers } from './peers.js';
import { isGone, ownProcess, type ProcessIdentity } from './process.js';

export type { Death, ExecutorState } from './peers.js';

export interface LivenessOptions {
  /** How long this process may be silent until others take it for dead. */
  readonly ttlMs?: number;
  /** Milliseconds that only ever grow, at a steady pace. */
  readonly monotonic?: () => number;
  /** Whether an executor ran on this host, and its process is certainly gone. */
  readonly isGone?: (peer: ExecutorRecord) => boolean;
  /** What others are told of this process. */
  readonly process?: ProcessIdentity;
}

const defaultTtlMs = 30_000;

/** Heartbeats in a time to live: a few of them may be lost. */
const beatsPerTtl = 6;

/** The pace of heartbeats while this process cannot know whether it is heard: steps, starts and claims wait for one. */
const seekEveryMs = 1_000;

/** The part of its time to live after which an executor that is not heard begins no more steps. */
const fencedAfter = 2 / 3;

/** Heartbeats that wait for an answer at the same time: one on a connection that is dead must not hold up the next. */
const maxUnanswered = 2;

/** How often the others are looked at: at the slowest, and, for each whose lock may vanish, at the fastest. */
const slowestLookMs = 5_000;
const fastestLookMs = 500;
const lookPerPeerMs = 250;

const processesEveryMs = 500;

/**
 * After the server restarted or failed over everybody's lock is gone, and sessions come back one after another: that
 * of this process must have been there for so long before the absence of another's says anything.
 */
const sessionsReturnMs = 10_000;

/** Others may take so long to find that a lock is gone, and to bury whose it was. */
const longestBurialMs = 60_000;

/** How long a shutdown waits for the answer that it has left. */
const longestLeaveMs = 5_000;

/**
 * That this executor lives, and which others do. It says the first by heartbeats in the table `executors`, and, on
 * Postgres, by a lock that goes with its session; and it stops to begin steps when it cannot know that it is heard.
 *
 * A death that is none, of a process that was only slow, costs time and no more: what it owned is fenced off from it
 * workflow by workflow as others take it over.
 */
export class Liveness {
  /** Called when an executor was found dead. */
  onDeath: (() => void) | undefined;
  /** Called when it is heard again after it was not for too long, before steps begin again; if it fails, they do not. */
  onReturn: (() => Promise<void>) | undefined;
  /** Called when the database lacks what it is known to have had. Until it has succeeded no heartbeat counts. */
  onGoneBack: ((why: string) => Promise<void>) | undefined;
  /** Called when it has to join anew, and nobody can tell whether others buried it or the database went back to before it joined. */
  onForgotten: (() => Promise<void>) | undefined;
  /** The lock that tells others of this process, for the session that listens. */
  readonly presence: Presence;
  private readonly ttlMs: number;
  private readonly monotonic: () => number;
  private readonly peers: Peers;
  private readonly process: ProcessIdentity;
  private readonly heartbeat: Loop;
  private readonly losses: Loop;
  private readonly looks: Loop;
  private readonly processes: Loop;
  private own: ExecutorRecord | undefined;
  private lockKey: string | null = null;
  private sessionSince: number | undefined;
  private unanswered = 0;
  /** When the last heartbeat was sent that was answered. */
  private heardAt = Number.NEGATIVE_INFINITY;
  /** The highest number of a heartbeat that was answered. */
  private beats = 0;
  /** When the lock was last lost, by which others may have taken this process for dead. */
  private lockLostAt = Number.NEGATIVE_INFINITY;
  /** How often others have taken work from this process. */
  private takeovers = 0;
  private parting: Promise<void> | undefined;
  private paceMs = slowestLookMs;
  private heardEarly = false;
  private endPatience = (): void => {};

  constructor(
    private readonly engine: Engine,
    options: LivenessOptions = {},
  ) {
    const { clock, logger, owners } = engine;
    this.ttlMs = options.ttlMs ?? defaultTtlMs;
    this.monotonic = options.monotonic ?? (() => performance.now());
    // From now on, so that nothing is claimed before others know of this process.
    engine.startGate.followClock(this.monotonic);
    this.process = options.process ?? ownProcess();
    this.peers = new Peers(owners.incarnation, options.isGone ?? isGone);
    this.presence = { key: lockKeyOf(owners.incarnation), held: (isHeld) => this.noteSession(isHeld) };
    const common = { clock, logger };
    this.heartbeat = new Loop({
      ...common,
      name: 'The heartbeat',
      everyMs: () => Math.min(this.ttlMs / beatsPerTtl, this.confirmed ? Number.POSITIVE_INFINITY : seekEveryMs),
      runOnce: () => this.beat(),
    });
    this.losses = new Loop({
      ...common,
      name: 'Looking for what others took',
      runOnce: () => this.lookForLosses(),
    });
    this.looks = new Loop({
      ...common,
      name: 'Looking at other executors',
      everyMs: () => this.nextPace(),
      runOnce: () => this.look(),
    });
    this.processes = new Loop({
      ...common,
      name: 'Looking at processes of this host',
      everyMs: processesEveryMs,
      runOnce: async () => this.report(this.peers.lookAtProcesses(clock.now())),
    });
  }

  /** Whether this process may begin steps: it was heard a short while ago. */
  get confirmed(): boolean {
    return this.engine.startGate.isConfirmed;
  }

  /** Joins the others, and knows of their deaths as far as one look tells. Must come before anything is claimed. */
  async start(): Promise<void> {
    await this.join();
    await this.announce();
    this.heartbeat.start();
    this.losses.start();
    await this.look().catch((error) => {
      this.engine.logger.debug(`Other executors could not be looked at: ${describeError(error)}`);
    });
    this.looks.start();
    this.processes.start();
    // One that joined while the look above was under way may be missing from it, and does not announce itself again.
    if (this.heardEarly) this.looks.wake();
  }

  /** After everything was handed over. What could not be is for others, who will see this process die. */
  async stop(): Promise<void> {
    await this.abandon();
    const { storage, owners, logger } = this.engine;
    const leaving = storage.executors.leave(owners.incarnation).catch((error) => {
      logger.debug(`This executor could not leave, so others will take it for dead: ${describeError(error)}`);
    });
    let timer: NodeJS.Timeout | undefined;
    const timeUp = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, longestLeaveMs).unref();
    });
    await Promise.race([leaving, timeUp]);
    clearTimeout(timer);
    // They would count on it until their next look.
    this.engine.news.announceToOthers('executors');
  }

  /** As a crash would: it is silent from now on. */
  async abandon(): Promise<void> {
    const loops = [this.heartbeat, this.losses, this.looks, this.processes];
    const stopped = Promise.all(loops.map((loop) => loop.stop()));
    this.endPatience();
    await stopped;
  }

  deaths(): readonly Death[] {
    return this.peers.deaths();
  }

  /** All of the app that are in the table, this one among them. */
  executors(): readonly ExecutorState[] {
    const own: ExecutorState[] = this.own ? [{ record: this.own, standing: 'alive' }] : [];
    return [...own, ...this.peers.standings()];
  }

  /** Those that some executor runs which is not known to be dead. */
  versions(): ReadonlySet<string> {
    return new Set([this.engine.version, ...this.peers.living().map(({ version }) => version)]);
  }

  isDead(incarnation: string): boolean {
    return this.peers.isDead(incarnation);
  }

  /** The incarnations of the other living executors of this version that work on the queue, as of the last look. */
  peersOn(queueName: string): string[] {
    const isOnIt = ({ version, listens }: ExecutorRecord): boolean =>
      version === this.engine.version &&
      (listens === null || queueName === internalQueue || listens.includes(queueName));
    return this.peers.living().flatMap((record) => (isOnIt(record) ? record.incarnation : []));
  }

  /** Looks at the others now. */
  async look(): Promise<void> {
    const { storage, writer, clock, owners } = this.engine;
    const at = this.monotonic();
    const records = await storage.executors.list(writer.appName);
    this.own = records.find((record) => record.incarnation === owners.incarnation);
    const { sessionSince } = this;
    // By the own lock, in the same answer: it may come from a server to which this session, too, has yet to move.
    const locksTell = this.own?.present === true && sessionSince !== undefined && at - sessionSince >= sessionsReturnMs;
    this.report(this.peers.look({ records, at, now: clock.now(), paceMs: this.paceMs, locksTell }));
  }

  /** News that others may have taken work from some process: if from this one, it is to begin no more of that. */
  heardOfTakeover(): void {
    this.losses.wake();
  }

  /** News that another executor has joined: unless it is known, its death would not be seen before the next look. */
  heardOfNewcomer(): void {
    this.heardEarly = true;
    this.looks.wake();
  }

  /** By reading alone: on SQLite any change is such news, and if each led to a change there would be no end of them. */
  private async lookForLosses(): Promise<void> {
    const { storage, owners } = this.engine;
    const takeovers = await storage.executors.takeovers(owners.incarnation);
    if (takeovers === undefined || takeovers > this.takeovers) this.heartbeat.wake();
  }

  private report(found: readonly Death[]): void {
    for (const { executorId, why } of found) this.engine.logger.info(`Executor "${executorId}" is dead: ${why}.`);
    if (found.length > 0) this.onDeath?.();
  }

  private async join(): Promise<void> {
    const sentAt = this.monotonic();
    const { lockKey } = this;
    this.beats = await this.engine.storage.executors.join(this.newExecutor());
    await this.confirm(sentAt, lockKey);
  }

  /**
   * Waited for before anything is claimed: one that dies after that is known to the others, and what it owns is found as
   * soon as its death shows. The others find it by themselves, only later, where they cannot be told.
   */
  private async announce(): Promise<void> {
    await this.engine.storage.announce(['executors']).catch((error) => {
      this.engine.logger.debug(`Other executors could not be told of this one: ${describeError(error)}`);
    });
  }

  private newExecutor(): NewExecutor {
    const { owners, writer, version, listens } = this.engine;
    const { incarnation } = owners;
    const { ttlMs, lockKey } = this;
    return { incarnation, ...writer, version, ...this.process, ttlMs, lockKey, listens };
  }

  /** Does not wait longer for an answer than until the next one is due. */
  private async beat(): Promise<void> {
    if (this.unanswered >= maxUnanswered) return;
    this.unanswered++;
    const beating = this.beatOnce().finally(() => {
      this.unanswered--;
    });
    let answered = false;
    beating.then(
      () => (answered = true),
      () => (answered = true),
    );
    const { clock, logger } = this.engine;
    const patience = new Promise<void>((resolve) => {
      const timer = clock.at(clock.now() + this.ttlMs / beatsPerTtl, resolve, 'background');
      this.endPatience = () => {
        timer.cancel();
        resolve();
      };
    });
    try {
      await Promise.race([beating, patience]);
    } finally {
      this.endPatience();
      if (!answered) beating.catch((error) => logger.debug(`A heartbeat failed late: ${describeError(error)}`));
    }
  }

  private async beatOnce(): Promise<void> {
    const sentAt = this.monotonic();
    const { lockKey, beats: known } = this;
    const { storage, owners } = this.engine;
    const standing = await storage.executors.beat(owners.incarnation, { lockKey, known });
    // Another one that was under way has seen to it.
    if (this.beats < known) return;
    if (standing && standing.beats < known) {
      await this.onGoneBack?.(`heartbeat ${standing.beats} of this process is its last, and ${known} was confirmed`);
      [this.beats, this.takeovers] = [standing.beats, standing.takeovers];
      return this.heartbeat.wake();
    }
    if (standing) {
      this.beats = Math.max(this.beats, standing.beats);
      if (standing.takeovers > this.takeovers) await this.partWithLost();
      this.takeovers = Math.max(this.takeovers, standing.takeovers);
      return this.confirm(sentAt, lockKey);
    }
    await this.wasForgotten();
    this.takeovers = 0;
    await this.join();
    this.engine.news.announceToOthers('executors');
  }

  /**
   * This process is no longer in the table. Either way nothing is its own any more that was when it joined: it is buried
   * when it owns nothing, and owns nothing before it joins. A restore takes long as a rule, so that a process which was silent
   * may also have been launched after the backup was made, and what it registered then is gone.
   */
  private async wasForgotten(): Promise<void> {
    const silentMs = this.monotonic() - this.heardAt;
    const isBuried = silentMs >= this.ttlMs * fencedAfter || this.monotonic() - this.lockLostAt < longestBurialMs;
    if (!isBuried) return this.onGoneBack?.('this process, which was heard all the time, is not known to it any more');
    this.engine.logger.warn(
      'Others took this process for dead and may have taken over its work, because it was silent for too long; or the ' +
        'database was restored from a backup that is older than this process. It goes on with whatever is still its own.',
    );
    await this.onForgotten?.();
  }

  private async confirm(sentAt: number, lockKey: string | null): Promise<void> {
    this.heardAt = Math.max(this.heardAt, sentAt);
    if (!this.confirmed) await this.partWithLost();
    // Not from when this one was sent: parting may take long, and others have been answered meanwhile.
    this.engine.startGate.confirmUntil(this.heardAt + this.ttlMs * fencedAfter);
    // The session broke or came back while this was under way.
    if (lockKey !== this.lockKey) this.heartbeat.wake();
  }

  /** One at a time: who comes meanwhile waits for a round that began after that. */
  private async partWithLost(): Promise<void> {
    const before = this.parting;
    const parting = (async () => {
      await before?.catch(() => {});
      // First: what comes into memory while this looks at what is there has to look for itself.
      this.engine.startGate.lossCount++;
      await this.onReturn?.();
    })();
    this.parting = parting;
    try {
      await parting;
    } finally {
      if (this.parting === parting) this.parting = undefined;
    }
  }

  /** Said at once: a lock that is on record and not held would soon be taken for a death. */
  private noteSession(isHeld: boolean): void {
    const lockKey = isHeld ? this.presence.key : null;
    if (lockKey === this.lockKey) return;
    this.lockKey = lockKey;
    this.sessionSince = isHeld ? this.monotonic() : undefined;
    if (!isHeld) this.lockLostAt = this.monotonic();
    this.heartbeat.wake();
  }

  /**
   * Often only for the sake of those whose death would show in their lock, and not in their process on this host; the
   * others' silence takes its time anyway.
   */
  private nextPace(): number {
    const living = this.peers.living();
    const byLock = living.filter((record) => record.lockKey !== null && record.host !== this.process.host).length;
    const bySilence = Math.min(this.ttlMs, ...living.map((record) => record.ttlMs)) / beatsPerTtl;
    const ms = byLock > 0 ? lookPerPeerMs * byLock : bySilence;
    this.paceMs = Math.min(slowestLookMs, Math.max(fastestLookMs, ms));
    // Those who look often are not to do so all at the same moments, for ever.
    return byLock > 0 ? this.paceMs * (0.9 + 0.1 * Math.random()) : this.paceMs;
  }
}

/** 31 bits of what no other executor begins with: it goes with a class of locks that is ours (storage/postgres/presence.ts). */
function lockKeyOf(incarnation: string): string {
  return String(Number.parseInt(incarnation.slice(0, 8), 16) % 2 ** 31);
}
