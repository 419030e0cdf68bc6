import type pg from 'pg';
import type { Hearing } from '../database.js';
import { quoteIdentifier } from './identifiers.js';

/** How long the server may take to answer LISTEN. */
const listenPatienceMs = 10_000;
/** How long a notification to oneself may take to arrive. */
const testPatienceMs = 3_000;
/** How often that is tried: a connection can die without a sign. */
const testEveryMs = 30_000;
/** How long to wait before another session is tried where notifications do not arrive at all. */
const deafPauseMs = 60_000;

export interface EarsOptions {
  readonly channels: readonly string[];
  connect(): Promise<pg.Client>;
  receive(channel: string, payload: string | undefined): void;
  /** Sends a notification to oneself, by another connection; `heard` is to be called when it arrives. */
  test(heard: () => void): Promise<unknown>;
  onDeaf(isDeaf: boolean): void;
  readonly hearing: Hearing;
}

/**
 * A session that listens, opened anew whenever it breaks. That it hears is tried out at first and from time to time:
 * behind a pooler that lends each statement another session LISTEN succeeds, and nothing ever arrives.
 */
export class Ears {
  readonly ready: Promise<void>;
  private resolveReady = (): void => {};
  private stopped = false;
  private missedSome = false;
  /** Ends what is waited for at the moment: the end of a session, or of a pause between two. */
  private wake = (): void => {};
  private readonly done: Promise<void>;

  constructor(private readonly options: EarsOptions) {
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
      const listening = client.query(channels.map((channel) => `listen ${quoteIdentifier(channel)}`).join('; '));
      // An answer that does not come must hold up neither a launch nor a shutdown.
      const tooLate = new Promise<'failed'>((resolve) => {
        timer = setTimeout(() => resolve('failed'), listenPatienceMs).unref();
      });
      const answer = await Promise.race([listening, ended, tooLate]);
      clearTimeout(timer);
      if (this.stopped || answer === 'failed') return 'failed';
      const hears = await Promise.race([this.hears(), ended.then(() => 'failed' as const)]);
      if (hears !== true) {
        if (hears === false) onDeaf(true);
        return hears === false ? 'deaf' : 'failed';
      }
      onDeaf(false);
      hearing.state(true);
      if (this.missedSome) hearing.heard(null);
      this.resolveReady();
      timer = setInterval(() => void this.endIfDeaf(), testEveryMs).unref();
      await ended;
      return 'heard';
    } finally {
      clearTimeout(timer);
      hearing.state(false);
      // Not waited for: the server may be gone, and nothing depends on its answer.
      void client.end().catch(() => {});
    }
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

function pauseMs(failures: number): number {
  return Math.min(5_000, 100 * 2 ** Math.min(failures, 6));
}
