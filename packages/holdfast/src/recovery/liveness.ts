import type { Engine } from '../engine/engine.js';
import { Loop } from '../engine/loop.js';
import { Emitter } from '../model/emitter.js';
import { describeError } from '../model/errors.js';
import { internalQueue } from '../model/queues.js';
import type { ExecutorRecord, NewExecutor } from '../storage/contract/executors.js';
import type { Presence } from '../storage/contract/listening.js';
import { DeadExecutorDetector, type Death, type ExecutorState } from './dead-executor-detector.js';
import type { LivenessActions, LivenessOptions } from './liveness-options.js';
import { isGone, ownProcess, type ProcessIdentity } from './process.js';

const defaultTtlMs = 30_000;

/** Number of heartbeats per time to live. A few of them may be lost. */
const beatsPerTtl = 6;

/** Interval of heartbeats while this process is not confirmed. Steps, starts and claims wait for a confirmation. */
const unconfirmedEveryMs = 1_000;

/** The share of its time to live after which an executor without a confirmed heartbeat starts no more steps. */
const confirmedShare = 2 / 3;

/** Maximum number of unanswered heartbeats. A heartbeat on a dead connection must not block the next one. */
const maxUnanswered = 2;

/** Interval of polls of the other executors. It grows with the number of executors whose locks are observed. */
const maxPollMs = 5_000;
const minPollMs = 500;
const pollPerExecutorMs = 250;

const processCheckEveryMs = 500;

/**
 * After a restart or failover of the server, all locks are gone, and the sessions return one after another. The
 * absence of another executor's lock is evidence only if the session of this process has existed for this long.
 */
const sessionsReturnMs = 10_000;

/** The longest time that others may need to find that a lock is gone, and to remove its executor from the table. */
const maxRemovalMs = 60_000;

/** How long a shutdown waits until the row of this executor is deleted. */
const maxLeaveMs = 5_000;

/**
 * Shows other executors that this one is alive, and detects which of them are dead. This executor sends heartbeats to
 * the table `executors`. On Postgres it also holds a lock that ends with its session. An executor whose heartbeats are
 * not confirmed stops starting steps before other executors may take over its work.
 *
 * Declaring a slow process dead by mistake costs only time, because each takeover of a workflow fences its former
 * owner.
 */
export class Liveness {
  /** The lock that shows others that this process is alive. The session of the listener holds it. */
  readonly presence: Presence;
  private readonly events = new Emitter<{ death: undefined }>();
  private readonly ttlMs: number;
  private readonly monotonic: () => number;
  private readonly detector: DeadExecutorDetector;
  private readonly process: ProcessIdentity;
  private readonly heartbeat: Loop;
  private readonly takeoverCheck: Loop;
  private readonly poll: Loop;
  private readonly processCheck: Loop;
  private own: ExecutorRecord | undefined;
  private lockKey: string | null = null;
  private sessionSince: number | undefined;
  private unanswered = 0;
  /** When the last answered heartbeat was sent. */
  private confirmedAt = Number.NEGATIVE_INFINITY;
  /** The highest number of an answered heartbeat. */
  private beats = 0;
  /** When the lock was last lost. Others may have declared this process dead for that reason. */
  private lockLostAt = Number.NEGATIVE_INFINITY;
  /** How often others have taken over work of this process. */
  private takeovers = 0;
  private dropping: Promise<void> | undefined;
  private paceMs = maxPollMs;
  private newcomerDuringStart = false;
  private stopWaiting = (): void => {};
  private stopped = false;

  constructor(
    private readonly engine: Engine,
    private readonly actions: LivenessActions,
    options: LivenessOptions = {},
  ) {
    const { clock, logger, owners } = engine;
    this.ttlMs = options.ttlMs ?? defaultTtlMs;
    this.monotonic = options.monotonic ?? (() => performance.now());
    // From here on the gate is closed. This process claims no work before others know of it.
    engine.startGate.followClock(this.monotonic);
    this.process = options.process ?? ownProcess();
    this.detector = new DeadExecutorDetector(owners.incarnation, options.isGone ?? isGone);
    this.presence = { key: lockKeyOf(owners.incarnation), held: (isHeld) => this.noteSession(isHeld) };
    const common = { clock, logger };
    this.heartbeat = new Loop({
      ...common,
      name: 'The heartbeat',
      everyMs: () => Math.min(this.ttlMs / beatsPerTtl, this.confirmed ? Number.POSITIVE_INFINITY : unconfirmedEveryMs),
      runOnce: () => this.beat(),
    });
    this.takeoverCheck = new Loop({
      ...common,
      name: 'The check for takeovers by others',
      runOnce: () => this.checkForTakeovers(),
    });
    this.poll = new Loop({
      ...common,
      name: 'The poll of other executors',
      everyMs: () => this.nextPollDelay(),
      runOnce: () => this.pollNow(),
    });
    this.processCheck = new Loop({
      ...common,
      name: 'The check of processes on this host',
      everyMs: processCheckEveryMs,
      runOnce: async () => this.reportDeaths(this.detector.lookAtProcesses(clock.now())),
    });
  }

  /** True if a recent heartbeat was confirmed, so that this process may start steps. */
  get confirmed(): boolean {
    return this.engine.startGate.isConfirmed;
  }

  /** Adds this executor to the table, and polls the others once. Must finish before this process claims any work. */
  async start(): Promise<void> {
    await this.join();
    await this.announce();
    this.heartbeat.start();
    this.takeoverCheck.start();
    await this.pollNow().catch((error) => {
      this.engine.logger.debug(`The table of executors could not be read: ${describeError(error)}`);
    });
    this.poll.start();
    this.processCheck.start();
    // Race: an executor that joined during the poll above may be missing in its result. It announces itself only once.
    if (this.newcomerDuringStart) this.poll.wake();
  }

  /** Removes this executor from the table. All work must be handed over first. Other executors recover the rest. */
  async stop(): Promise<void> {
    await this.abandon();
    const { storage, owners, logger } = this.engine;
    const leaving = storage.executors.leave(owners.incarnation).catch((error) => {
      logger.debug(`This executor could not be removed, so others will declare it dead: ${describeError(error)}`);
    });
    let timer: NodeJS.Timeout | undefined;
    const timeUp = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, maxLeaveMs).unref();
    });
    await Promise.race([leaving, timeUp]);
    clearTimeout(timer);
    // Without this notification, others would treat this executor as alive until their next poll.
    this.engine.news.announceToOthers('executors');
  }

  /** Stops all heartbeats and polls, as a crash would. */
  async abandon(): Promise<void> {
    this.stopped = true;
    const loops = [this.heartbeat, this.takeoverCheck, this.poll, this.processCheck];
    const stopped = Promise.all(loops.map((loop) => loop.stop()));
    this.stopWaiting();
    await stopped;
  }

  deaths(): readonly Death[] {
    return this.detector.deaths();
  }

  /** All executors of the app that are in the table, including this one. */
  executors(): readonly ExecutorState[] {
    const own: ExecutorState[] = this.own ? [{ record: this.own, state: 'alive' }] : [];
    return [...own, ...this.detector.states()];
  }

  /** The versions of all executors that are not known to be dead. */
  versions(): ReadonlySet<string> {
    return new Set([this.engine.version, ...this.detector.living().map(({ version }) => version)]);
  }

  isDead(incarnation: string): boolean {
    return this.detector.isDead(incarnation);
  }

  /** The incarnations of the other living executors of this version that work on the queue, as of the last poll. */
  peersOn(queueName: string): string[] {
    const worksOnQueue = ({ version, listens }: ExecutorRecord): boolean =>
      version === this.engine.version &&
      (listens === null || queueName === internalQueue || listens.includes(queueName));
    return this.detector.living().flatMap((record) => (worksOnQueue(record) ? record.incarnation : []));
  }

  /** Calls the listener whenever executors are declared dead. Returns a function that removes the listener. */
  onDeath(listener: () => void): () => void {
    return this.events.on('death', listener);
  }

  /** Reads which versions of the app are run by executors that are not known to be dead. */
  async versionsAlive(): Promise<ReadonlySet<string>> {
    await this.pollNow();
    return this.versions();
  }

  /** Polls the table of executors now, and reports new deaths. */
  async pollNow(): Promise<void> {
    const { storage, writer, clock, owners } = this.engine;
    const at = this.monotonic();
    const records = await storage.executors.list(writer.appName);
    this.own = records.find((record) => record.incarnation === owners.incarnation);
    const { sessionSince } = this;
    // The answer must show the own lock, too. After a failover this session may not exist on the answering server yet.
    const locksTell = this.own?.present === true && sessionSince !== undefined && at - sessionSince >= sessionsReturnMs;
    this.reportDeaths(this.detector.look({ records, at, now: clock.now(), paceMs: this.paceMs, locksTell }));
  }

  /** Handles the notification of a takeover. If this executor lost work, the steps of that work must stop. */
  noteTakeover(): void {
    this.takeoverCheck.wake();
  }

  /** Handles a notification that an executor has joined. A poll at once allows its death to be detected early. */
  noteJoin(): void {
    this.newcomerDuringStart = true;
    this.poll.wake();
  }

  /** Only reads. On SQLite every change of the file is a notification, so a write here would cause the next one. */
  private async checkForTakeovers(): Promise<void> {
    const { storage, owners } = this.engine;
    const takeovers = await storage.executors.takeovers(owners.incarnation);
    if (takeovers === undefined || takeovers > this.takeovers) this.heartbeat.wake();
  }

  private reportDeaths(found: readonly Death[]): void {
    for (const { executorId, why } of found) this.engine.logger.info(`Executor "${executorId}" is dead: ${why}.`);
    if (found.length > 0) this.events.emit('death', undefined);
  }

  private async join(): Promise<void> {
    const sentAt = this.monotonic();
    const { lockKey } = this;
    this.beats = await this.engine.storage.executors.join(this.newExecutor());
    await this.confirm(sentAt, lockKey);
  }

  /**
   * Announces this executor before it claims any work, so that others can detect its death early. If the notification
   * is lost, they find this executor at their next poll.
   */
  private async announce(): Promise<void> {
    await this.engine.storage.announce(['executors']).catch((error) => {
      this.engine.logger.debug(`The launch of this executor could not be announced: ${describeError(error)}`);
    });
  }

  private newExecutor(): NewExecutor {
    const { owners, writer, version, listens } = this.engine;
    const { incarnation } = owners;
    const { ttlMs, lockKey } = this;
    return { incarnation, ...writer, version, ...this.process, ttlMs, lockKey, listens };
  }

  /** Sends a heartbeat. Waits for its answer at most until the next heartbeat is due. */
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
    const nextIsDue = new Promise<void>((resolve) => {
      const timer = clock.at(clock.now() + this.ttlMs / beatsPerTtl, resolve, 'background');
      this.stopWaiting = () => {
        timer.cancel();
        resolve();
      };
    });
    try {
      await Promise.race([beating, nextIsDue]);
    } finally {
      this.stopWaiting();
      if (!answered) beating.catch((error) => logger.debug(`A late heartbeat failed: ${describeError(error)}`));
    }
  }

  private async beatOnce(): Promise<void> {
    const sentAt = this.monotonic();
    const { lockKey, beats: known } = this;
    const { storage, owners } = this.engine;
    const answer = await storage.executors.beat(owners.incarnation, { lockKey, known });
    // Race: the shutdown waits for no late heartbeat, and may have removed this executor from the table.
    if (this.stopped) return;
    // Race: another heartbeat in progress has already found and handled the rollback.
    if (this.beats < known) return;
    if (answer && answer.beats < known) {
      const last = `the last heartbeat in the database is ${answer.beats}`;
      await this.actions.onRollback(`heartbeat ${known} of this process was confirmed, but ${last}`);
      [this.beats, this.takeovers] = [answer.beats, answer.takeovers];
      return this.heartbeat.wake();
    }
    if (answer) {
      this.beats = Math.max(this.beats, answer.beats);
      if (answer.takeovers > this.takeovers) await this.dropLostWork();
      this.takeovers = Math.max(this.takeovers, answer.takeovers);
      return this.confirm(sentAt, lockKey);
    }
    await this.handleMissingRow();
    this.takeovers = 0;
    await this.join();
    this.engine.news.announceToOthers('executors');
  }

  /**
   * Handles the loss of this executor's row. There are two causes, and in both this executor owns no workflow in the
   * database:
   *
   * - Others removed the row because they declared this executor dead. They do so only when it owns no workflows.
   * - The database was restored to a time before this executor joined.
   *
   * If this executor was silent for long, the cause may still be a restore, because a restore usually takes long. What
   * this executor registered at its launch is then gone, too.
   */
  private async handleMissingRow(): Promise<void> {
    const silentMs = this.monotonic() - this.confirmedAt;
    const mayBeRemoved = silentMs >= this.ttlMs * confirmedShare || this.monotonic() - this.lockLostAt < maxRemovalMs;
    if (!mayBeRemoved)
      return this.actions.onRollback('the row of this process is gone, despite its confirmed heartbeats');
    this.engine.logger.warn(
      'The row of this process in the table of executors is gone. Either others declared the process dead after a ' +
        'long silence, and may have taken over its work; or the database was restored from a backup that is older ' +
        'than this process. The process continues the workflows that it still owns.',
    );
    await this.actions.onRowLost();
  }

  private async confirm(sentAt: number, lockKey: string | null): Promise<void> {
    this.confirmedAt = Math.max(this.confirmedAt, sentAt);
    if (!this.confirmed) await this.dropLostWork();
    // The older `sentAt` would be wrong: while lost work was dropped, a later heartbeat may have been answered.
    this.engine.startGate.confirmUntil(this.confirmedAt + this.ttlMs * confirmedShare);
    // The session broke or came back while this heartbeat was in progress, so the next heartbeat reports the lock.
    if (lockKey !== this.lockKey) this.heartbeat.wake();
  }

  /**
   * Drops lost work, one round at a time. A caller during a round waits for a new round that begins after its call.
   */
  private async dropLostWork(): Promise<void> {
    const before = this.dropping;
    const dropping = (async () => {
      await before?.catch(() => {});
      // The count grows before the round: a workflow that is loaded during the round then checks its owner itself.
      this.engine.startGate.lossCount++;
      await this.actions.onPossibleLoss();
    })();
    this.dropping = dropping;
    try {
      await dropping;
    } finally {
      if (this.dropping === dropping) this.dropping = undefined;
    }
  }

  /** Reports the lock at once: if a recorded lock is not held, others soon declare this executor dead. */
  private noteSession(isHeld: boolean): void {
    const lockKey = isHeld ? this.presence.key : null;
    if (lockKey === this.lockKey) return;
    this.lockKey = lockKey;
    this.sessionSince = isHeld ? this.monotonic() : undefined;
    if (!isHeld) this.lockLostAt = this.monotonic();
    this.heartbeat.wake();
  }

  /**
   * Returns the delay before the next poll. Polls are frequent only if some executors are judged by their lock: those
   * on other hosts. An executor on this host is judged by its pid. Judging by silence needs no frequent polls.
   */
  private nextPollDelay(): number {
    const living = this.detector.living();
    const byLock = living.filter((record) => record.lockKey !== null && record.host !== this.process.host).length;
    const bySilence = Math.min(this.ttlMs, ...living.map((record) => record.ttlMs)) / beatsPerTtl;
    const ms = byLock > 0 ? pollPerExecutorMs * byLock : bySilence;
    this.paceMs = Math.min(maxPollMs, Math.max(minPollMs, ms));
    // The random share prevents executors from polling at the same moments again and again.
    return byLock > 0 ? this.paceMs * (0.9 + 0.1 * Math.random()) : this.paceMs;
  }
}

/** Returns a 31-bit lock key from the unique incarnation, for the lock class of storage/postgres/presence.ts. */
function lockKeyOf(incarnation: string): string {
  return String(Number.parseInt(incarnation.slice(0, 8), 16) % 2 ** 31);
}
