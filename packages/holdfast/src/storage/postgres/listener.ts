import type pg from 'pg';
import type { ListenerCallbacks } from '../contract/listening.js';
import { quoteIdentifier } from './identifiers.js';
import type { OpenChannels } from './open-channels.js';
import { takePresenceLock } from './presence.js';

/** How long the server may take to answer a statement that begins a session. */
const answerTimeoutMs = 10_000;
/** How long a test notification, which the process sends to itself, may take to arrive. */
const testTimeoutMs = 3_000;
/** How often the listener sends a test notification, because a connection can die without an error. */
const testIntervalMs = 30_000;
/** The pause before the next session if notifications do not arrive at all. */
const undeliveredPauseMs = 60_000;

export interface ListenerOptions {
  /** The channels that every session listens to. */
  readonly channels: readonly string[];
  /** The channels that a session listens to while they have followers. */
  readonly others?: Pick<OpenChannels, 'begin' | 'end'>;
  connect(): Promise<pg.Client>;
  receive(channel: string, payload: string | undefined): void;
  /** Sends a test notification to this process, on another connection, and calls `heard` when it arrives. */
  test(heard: () => void): Promise<unknown>;
  onDeaf(isDeaf: boolean): void;
  readonly hearing: ListenerCallbacks;
}

/**
 * Keeps a listening session open, and opens a new session whenever the current one breaks.
 *
 * The listener tests every session at its start and at intervals. Behind a pooler that runs each statement in another
 * session, LISTEN succeeds but no notification arrives.
 */
export class Listener {
  readonly ready: Promise<void>;
  private resolveReady = (): void => {};
  private stopped = false;
  private mayHaveMissed = false;
  /**
   * True if an earlier session was seen to hold its lock. Then the connection does not lead through a pooler that
   * changes sessions.
   */
  private keepsLocks = false;
  /** Ends the current wait: for the end of a session, or for the end of the pause between two sessions. */
  private wake = (): void => {};
  private readonly done: Promise<void>;

  constructor(private readonly options: ListenerOptions) {
    this.ready = new Promise((resolve) => {
      this.resolveReady = resolve;
    });
    this.done = this.run();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.wake();
    await this.done;
  }

  private async run(): Promise<void> {
    for (let failures = 0; !this.stopped; failures++) {
      const end = await this.runSession().catch(() => 'failed' as const);
      if (end === 'listened') failures = 0;
      this.mayHaveMissed = true;
      this.resolveReady();
      const pause = end === 'undelivered' ? undeliveredPauseMs : pauseMs(failures);
      if (!this.stopped) await this.waitFor((wake) => setTimeout(wake, pause).unref());
    }
  }

  /** Listens until the connection is lost or no longer delivers notifications. */
  private async runSession(): Promise<'listened' | 'undelivered' | 'failed'> {
    const { hearing: callbacks, channels, onDeaf } = this.options;
    const client = await this.connected();
    if (!client) return 'failed';
    let timer: NodeJS.Timeout | undefined;
    try {
      const ended = this.waitFor((wake) => {
        client.once('end', wake);
        client.once('error', wake);
      });
      client.on('notification', ({ channel, payload }) => this.options.receive(channel, payload));
      // The lock is taken before any other statement: if the last session broke, its lock is gone, and the other
      // executors wait only a moment before they consider this process dead.
      if (this.keepsLocks && !(await answersInTime(this.takePresence(client), ended))) return 'failed';
      const listening = client.query(channels.map((channel) => `listen ${quoteIdentifier(channel)}`).join('; '));
      if (!(await answersInTime(listening, ended)) || this.stopped) return 'failed';
      const delivers = await Promise.race([this.testDelivery(), ended.then(() => 'failed' as const)]);
      if (delivers !== true) {
        if (delivers === false) onDeaf(true);
        return delivers === false ? 'undelivered' : 'failed';
      }
      onDeaf(false);
      // The first lock is taken only after a successful test: behind a pooler the lock would stay forever in a session
      // that other clients use.
      if (!this.keepsLocks && !(await answersInTime(this.takePresence(client), ended))) return 'failed';
      const { others } = this.options;
      const begun = others?.begin((text) => client.query(text)) ?? Promise.resolve();
      if (!(await answersInTime(begun, ended))) return 'failed';
      callbacks.state(true);
      if (this.mayHaveMissed) callbacks.received(null);
      this.resolveReady();
      timer = setInterval(() => void this.endIfUndelivered(), testIntervalMs).unref();
      await ended;
      return 'listened';
    } finally {
      clearInterval(timer);
      this.options.others?.end();
      callbacks.presence?.held(false);
      callbacks.state(false);
      // The end is not awaited: the server may be gone, and nothing depends on its answer.
      void client.end().catch(() => {});
    }
  }

  private async takePresence(client: pg.Client): Promise<void> {
    const { presence } = this.options.hearing;
    if (!presence) return;
    // Not every server has advisory locks. If the query failed because the session ended, `ended` resolves too.
    this.keepsLocks = await takePresenceLock(client, presence.key).catch(() => false);
    if (this.keepsLocks && !this.stopped) presence.held(true);
  }

  /** Resolves to undefined if the listener is stopped meanwhile. */
  private async connected(): Promise<pg.Client | undefined> {
    const connecting = this.options.connect();
    const client = await Promise.race([connecting, this.waitFor(() => {})]);
    if (!client) connecting.then((late) => late.end()).catch(() => {});
    return client ?? undefined;
  }

  private async endIfUndelivered(): Promise<void> {
    const wake = this.wake;
    if ((await this.testDelivery()) === false) wake();
  }

  /** Resolves to 'failed' if the test notification could not be sent. Other notifications may still arrive then. */
  private async testDelivery(): Promise<boolean | 'failed'> {
    let timer: NodeJS.Timeout | undefined;
    const received = new Promise<boolean>((resolve) => {
      this.onTestReceived = () => resolve(true);
    });
    try {
      await this.options.test(() => this.onTestReceived());
      // The time limit starts after the send: a busy database that sends late can still deliver.
      const tooLate = new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), testTimeoutMs).unref();
      });
      return await Promise.race([received, tooLate]);
    } catch {
      return 'failed';
    } finally {
      clearTimeout(timer);
    }
  }

  private onTestReceived = (): void => {};

  private waitFor(arm: (wake: () => void) => void): Promise<void> {
    return new Promise((resolve) => {
      this.wake = resolve;
      arm(resolve);
    });
  }
}

/**
 * Resolves to true if the answer comes in time and before the session ends.
 * The time limit keeps a missing answer from blocking a launch or a shutdown.
 */
async function answersInTime(answer: Promise<unknown>, ended: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), answerTimeoutMs).unref();
  });
  try {
    return await Promise.race([answer.then(() => true), ended.then(() => false), tooLate]);
  } finally {
    clearTimeout(timer);
  }
}

function pauseMs(failures: number): number {
  return Math.min(5_000, 100 * 2 ** Math.min(failures, 6));
}
