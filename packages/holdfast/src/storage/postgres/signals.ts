import { createHash, randomBytes } from 'node:crypto';
import type pg from 'pg';
import type { Hearing, Listening, Query, Statement } from '../database.js';
import { Ears } from './ears.js';

/**
 * Signals between the processes of one database, by NOTIFY and LISTEN. They only say where to look: what one of them is
 * about is in the tables, and a poll finds it if the signal is lost.
 *
 * Messages, events and streams are announced as DBOS does it, on its channels and with its payloads, so that processes of
 * either kind wake each other. For messages a trigger of the shared layout does that.
 */
export class PostgresSignals {
  private readonly channel: string;
  /** A process also hears itself, and has no use for that. */
  private readonly sender = randomBytes(6).toString('hex');

  constructor(
    schema: string,
    private readonly options: {
      /** Opens a connection of its own: LISTEN belongs to a session. */
      connect(): Promise<pg.Client>;
      /** Runs a statement on any connection. */
      readonly query: Query;
      /** Called when notifications do not arrive although the session listens, and when they do again. */
      onDeaf(isDeaf: boolean): void;
    },
  ) {
    const long = Buffer.byteLength(schema) > 40;
    this.channel = `holdfast_${long ? createHash('sha256').update(schema).digest('hex').slice(0, 32) : schema}`;
  }

  async announce(topics: readonly string[], query?: Query): Promise<void> {
    const own = topics.filter((topic) => !sharedOf(topic));
    const signals = topics.flatMap((topic) => sharedOf(topic) ?? []);
    if (own.length > 0) signals.unshift({ channel: this.channel, payload: this.payload({ topics: own }) });
    // Postgres takes up to 8000 bytes; what has a longer name is found by polling.
    await this.notify(
      signals.filter(({ payload }) => Buffer.byteLength(payload) < 8000),
      query,
    );
  }

  hear(hearing: Hearing): Listening {
    let heardTest = (): void => {};
    const ears = new Ears({
      channels: [this.channel, ...Object.values(sharedChannels)],
      connect: this.options.connect,
      receive: (channel, payload) => this.receive(channel, payload, hearing, () => heardTest()),
      test: (heard) => {
        heardTest = heard;
        return this.notify([{ channel: this.channel, payload: this.payload({ test: true }) }]);
      },
      onDeaf: this.options.onDeaf,
      hearing,
    });
    return { ready: ears.ready, stop: () => ears.stop() };
  }

  private notify(signals: readonly Signal[], query: Query = this.options.query): Promise<unknown> {
    return query(announce, [signals.map(({ channel }) => channel), signals.map(({ payload }) => payload)]);
  }

  /** More topics than fit are as good as all. */
  private payload(content: { readonly topics?: readonly string[]; readonly test?: true }): string {
    const payload = JSON.stringify({ from: this.sender, ...content });
    return Buffer.byteLength(payload) < 7900 ? payload : JSON.stringify({ from: this.sender });
  }

  private receive(channel: string, payload: string | undefined, hearing: Hearing, heardTest: () => void): void {
    const kind = Object.entries(sharedChannels).find(([, shared]) => shared === channel)?.[0];
    if (kind !== undefined) hearing.heard([`${kind}:${payload ?? ''}`]);
    else this.receiveOwn(payload, hearing, heardTest);
  }

  private receiveOwn(payload: string | undefined, hearing: Hearing, heardTest: () => void): void {
    let signal: { from?: unknown; topics?: unknown; test?: unknown } = {};
    try {
      signal = JSON.parse(payload ?? '{}');
    } catch {
      // Someone else's use of the channel: it costs one look.
    }
    if (signal.from === this.sender) {
      if (signal.test) heardTest();
      return;
    }
    if (signal.test) return;
    const { topics } = signal;
    hearing.heard(Array.isArray(topics) ? topics.filter((topic) => typeof topic === 'string') : null);
  }
}

interface Signal {
  readonly channel: string;
  readonly payload: string;
}

const announce: Statement = {
  name: 'signals.announce',
  text: 'select pg_notify(s.channel, s.payload) from unnest($1::text[], $2::text[]) as s(channel, payload)',
};

/** The channels of DBOS, by the kind of topic. Their payload is what follows the kind in ours. */
const sharedChannels: Readonly<Record<string, string>> = {
  message: 'dbos_notifications_channel',
  event: 'dbos_workflow_events_channel',
  stream: 'dbos_streams_channel',
};

function sharedOf(topic: string): Signal | undefined {
  const at = topic.indexOf(':');
  const channel = at < 0 ? undefined : sharedChannels[topic.slice(0, at)];
  return channel === undefined ? undefined : { channel, payload: topic.slice(at + 1) };
}
