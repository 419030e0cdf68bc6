import { createHash, randomBytes } from 'node:crypto';
import type pg from 'pg';
import type { Hearing, Listening, Statement } from '../database.js';
import { quoteIdentifier } from './identifiers.js';

/**
 * Signals between the processes of one database, by NOTIFY and LISTEN. They only say where to look: what one of them is
 * about is in the tables, and a poll finds it if the signal is lost.
 */
export class PostgresSignals {
  private readonly channel: string;
  /** A process also hears itself, and has no use for that. */
  private readonly sender = randomBytes(6).toString('hex');

  constructor(
    schema: string,
    /** Opens a connection of its own: LISTEN belongs to a session. */
    private readonly connect: () => Promise<pg.Client>,
  ) {
    const long = Buffer.byteLength(schema) > 40;
    this.channel = `holdfast_${long ? createHash('sha256').update(schema).digest('hex').slice(0, 32) : schema}`;
  }

  readonly statement: Statement = { name: 'signals.announce', text: 'select pg_notify($1, $2)' };

  /** The parameters that go with {@link statement}. */
  announcement(topics: readonly string[]): unknown[] {
    const payload = JSON.stringify({ from: this.sender, topics });
    // Postgres takes up to 8000 bytes; more topics than that are as good as all.
    return [this.channel, Buffer.byteLength(payload) < 7900 ? payload : JSON.stringify({ from: this.sender })];
  }

  hear(hearing: Hearing): Listening {
    const ears = new Ears(this.channel, this.connect, (payload) => this.receive(payload, hearing), hearing);
    return { ready: ears.ready, stop: () => ears.stop() };
  }

  private receive(payload: string | undefined, hearing: Hearing): void {
    let signal: { from?: unknown; topics?: unknown } = {};
    try {
      signal = JSON.parse(payload ?? '{}');
    } catch {
      // Someone else's use of the channel: it costs one look.
    }
    if (signal.from === this.sender) return;
    const { topics } = signal;
    hearing.heard(Array.isArray(topics) ? topics.filter((topic) => typeof topic === 'string') : null);
  }
}

/** A session that listens, opened anew whenever it breaks. */
class Ears {
  readonly ready: Promise<void>;
  private resolveReady = (): void => {};
  private stopped = false;
  private missedSome = false;
  /** Ends what is waited for at the moment: the end of a session, or of a pause between two. */
  private wake = (): void => {};
  private readonly done: Promise<void>;

  constructor(
    private readonly channel: string,
    private readonly connect: () => Promise<pg.Client>,
    private readonly receive: (payload: string | undefined) => void,
    private readonly hearing: Hearing,
  ) {
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
      const heard = await this.session().catch(() => false);
      if (heard) failures = 0;
      this.missedSome = true;
      this.resolveReady();
      if (!this.stopped) await this.until((wake) => setTimeout(wake, pauseMs(failures)).unref());
    }
  }

  /** Listens until the connection is gone. Returns whether it got that far. */
  private async session(): Promise<boolean> {
    const client = await this.connect();
    try {
      const ended = this.until((wake) => {
        client.once('end', wake);
        client.once('error', wake);
      });
      client.on('notification', ({ payload }) => this.receive(payload));
      await client.query(`listen ${quoteIdentifier(this.channel)}`);
      if (this.stopped) return true;
      this.hearing.state(true);
      if (this.missedSome) this.hearing.heard(null);
      this.resolveReady();
      await ended;
      return true;
    } finally {
      this.hearing.state(false);
      // Not waited for: the server may be gone, and nothing depends on its answer.
      void client.end().catch(() => {});
    }
  }

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
