import type pg from 'pg';
import type { ListenerCallbacks } from '../database.js';
import { quoteIdentifier } from './identifiers.js';
import type { OpenChannels } from './open-channels.js';
import { holdPresence } from './presence.js';

/** How long the server may take to answer what begins a session. */
const answerPatienceMs = 10_000;
/** How long a notification to oneself may take to arrive. */
const testPatienceMs = 3_000;
/** How often that is tried: a connection can die without a sign. */
const testEveryMs = 30_000;
/** How long to wait before another session is tried where notifications do not arrive at all. */
const deafPauseMs = 60_000;

export interface ListenerOptions {
  /** Listened to in each session. */
  readonly channels: readonly string[];
  /** Listened to while somebody follows them. */
  readonly others?: Pick<OpenChannels, 'begin' | 'end'>;
  connect(): Promise<pg.Client>;
  receive(channel: string, payload: string | undefined): void;
  /** Sends a notification to oneself, by another connection; `heard` is to be called when it arrives. */
  test(heard: () => void): Promise<unknown>;
  onDeaf(isDeaf: boolean): void;
  readonly hearing: ListenerCallbacks;
}

/**
 * A session that listens, opened anew whenever it breaks. That it hears is tried out at first and from time to time:
 * behind a pooler that lends each statement another session LISTEN succeeds, and nothing ever arrives.
 */
export class Listener {
  readonly ready: Promise<void>;
  private resolveReady = (): void => {};
  private stopped = false;
  private missedSome = false;
  /** A lock of this process was seen in its session before: it is no pooler that it talks to. */
  private holdsLocks = false;
  /** Ends what is waited for at the moment: the end of a session, or of a pause between two. */
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
      const session = await this.session().catch(() => 'failed' as const);
      if (session === 'heard') failures = 0;
      this.missedSome = true;
      this.resolveReady();
      const pause = session === 'deaf' ? deafPauseMs : pauseMs(failures);
      if (!this.stopped) await this.until((wake) => setTimeout(wake, pause).unref());
    }
  }

  /** Listens until the connection is gone, or hears no more. */
  private async session(): Promise<'heard' | 'deaf' | 'failed'> {
    const { hearing, channels, onDeaf } = this.options;
    const client = await this.connected();
    if (!client) return 'failed';
    let timer: NodeJS.Timeout | undefined;
    try {
      const ended = this.until((wake) => {
        client.once('end', wake);
        client.once('error', wake);
      });
      client.on('notification', ({ channel, payload }) => this.options.receive(channel, payload));
      // Before anything else: others wait only a moment for the lock of a session that broke.
      if (this.holdsLocks && !(await answered(this.hold(client), ended))) return 'failed';
      const listening = client.query(channels.map((channel) => `listen ${quoteIdentifier(channel)}`).join('; '));
      if (!(await answered(listening, ended)) || this.stopped) return 'failed';
      const hears = await Promise.race([this.hears(), ended.then(() => 'failed' as const)]);
      if (hears !== true) {
        if (hears === false) onDeaf(true);
        return hears === false ? 'deaf' : 'failed';
      }
      onDeaf(false);
      // The first time only now: behind a pooler it would stay for ever in a session that others use.
      if (!this.holdsLocks && !(await answered(this.hold(client), ended))) return 'failed';
      const { others } = this.options;
      const begun = others?.begin((text) => client.query(text)) ?? Promise.resolve();
      if (!(await answered(begun, ended))) return 'failed';
      hearing.state(true);
      if (this.missedSome) hearing.received(null);
      this.resolveReady();
      timer = setInterval(() => void this.endIfDeaf(), testEveryMs).unref();
      await ended;
      return 'heard';
    } finally {
      clearInterval(timer);
      this.options.others?.end();
      hearing.presence?.held(false);
      hearing.state(false);
      // Not waited for: the server may be gone, and nothing depends on its answer.
      void client.end().catch(() => {});
    }
  }

  private async hold(client: pg.Client): Promise<void> {
    const { presence } = this.options.hearing;
    if (!presence) return;
    // Not every server has such locks. Whether this session is over shows elsewhere.
    this.holdsLocks = await holdPresence(client, presence.key).catch(() => false);
    if (this.holdsLocks && !this.stopped) presence.held(true);
  }

  /** Undefined: stopped meanwhile. */
  private async connected(): Promise<pg.Client | undefined> {
    const connecting = this.options.connect();
    const client = await Promise.race([connecting, this.until(() => {})]);
    if (!client) connecting.then((late) => late.end()).catch(() => {});
    return client ?? undefined;
  }

  private async endIfDeaf(): Promise<void> {
    const wake = this.wake;
    if ((await this.hears()) === false) wake();
  }

  /** 'failed': the notification could not be sent, which says nothing about hearing. */
  private async hears(): Promise<boolean | 'failed'> {
    let timer: NodeJS.Timeout | undefined;
    const heard = new Promise<boolean>((resolve) => {
      this.heardTest = () => resolve(true);
    });
    try {
      await this.options.test(() => this.heardTest());
      // Counted from here: that a busy database took its time to send it says nothing about hearing.
      const tooLate = new Promise<boolean>((resolve) => {
        timer = setTimeout(() => resolve(false), testPatienceMs).unref();
      });
      return await Promise.race([heard, tooLate]);
    } catch {
      return 'failed';
    } finally {
      clearTimeout(timer);
    }
  }

  private heardTest = (): void => {};

  private until(arm: (wake: () => void) => void): Promise<void> {
    return new Promise((resolve) => {
      this.wake = resolve;
      arm(resolve);
    });
  }
}

/** Whether an answer came, before the end of the session and in time: it must hold up neither a launch nor a shutdown. */
async function answered(answer: Promise<unknown>, ended: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), answerPatienceMs).unref();
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
