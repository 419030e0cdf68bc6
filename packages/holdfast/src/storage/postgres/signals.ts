import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { channelOf, generalChannel } from '../channel-names.js';
import { fromSent, type SentTopics, splitNote, toSent } from '../contract/topic-notes.js';
import type { ListenerCallbacks, Listening, Query, Statement } from '../database.js';
import { Listener } from './listener.js';
import { OpenChannels } from './open-channels.js';

/**
 * Signals between the processes of one database, by NOTIFY and LISTEN. They only say where to look: what one of them is
 * about is in the tables, and a poll finds it if the signal is lost.
 *
 * What may concern every process goes by one channel. Messages, events and streams are announced twice: by one of many channels
 * (channel-names.ts), to those who follow it, and as DBOS does it, on its channels and with its payloads, so that processes of
 * either kind wake each other. For messages of DBOS and from SQL, triggers do both.
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
    this.channel = generalChannel(schema);
  }

  async announce(topics: readonly string[], query?: Query): Promise<void> {
    const signals: Signal[] = [];
    const own = topics.filter((topic) => !sharedOf(topic));
    for (const payload of this.ownPayloads(own)) signals.push({ channel: this.channel, payload });
    const spread = new Map<string, string[]>();
    for (const topic of topics) {
      const shared = sharedOf(topic);
      if (!shared) continue;
      signals.push(shared);
      const channel = channelOf(this.channel, topic);
      spread.set(channel, [...(spread.get(channel) ?? []), topic]);
    }
    for (const [channel, list] of spread) {
      for (const payload of this.payloads(list)) signals.push({ channel, payload });
    }
    // Postgres takes up to 8000 bytes; what has a longer name is found by polling.
    await this.notify(
      signals.filter(({ payload }) => Buffer.byteLength(payload) < 8000),
      query,
    );
  }

  hear(hearing: ListenerCallbacks): Listening {
    let heardTest = (): void => {};
    const channels = new OpenChannels(
      (topic, byDbos) => (byDbos && sharedOf(topic)?.channel) || channelOf(this.channel, topic),
      (opened) => hearing.opened?.(opened),
    );
    const ears = new Listener({
      channels: [this.channel],
      others: channels,
      connect: this.options.connect,
      receive: (channel, payload) => {
        if (channel === this.channel) this.receiveOwn(payload, hearing, () => heardTest());
        else if (channels.heard(channel)) this.receiveSpread(channel, payload, hearing);
      },
      test: (heard) => {
        heardTest = heard;
        return this.notify([{ channel: this.channel, payload: this.payload({ test: true }) }]);
      },
      onDeaf: this.options.onDeaf,
      hearing,
    });
    return { ready: ears.ready, channels, stop: () => ears.stop() };
  }

  private notify(signals: readonly Signal[], query: Query = this.options.query): Promise<unknown> {
    return query(announce, [signals.map(({ channel }) => channel), signals.map(({ payload }) => payload)]);
  }

  /** More topics than fit are as good as all. */
  private payload(content: Partial<SentTopics> & { readonly test?: true }): string {
    const payload = JSON.stringify({ from: this.sender, ...content });
    return Buffer.byteLength(payload) < 7900 ? payload : JSON.stringify({ from: this.sender });
  }

  /** Work on hundreds of queues is told of queue by queue: news of everything has every process read the settings of all of them. */
  private ownPayloads(topics: readonly string[]): string[] {
    if (topics.length === 0) return [];
    const pages = paged(topics, (topic) => lengthOf(topic) + lengthOf(splitNote(topic).topic));
    return (pages.length > maxOwnPages ? [topics] : pages).map((page) => this.payload(toSent(page)));
  }

  /** As few as they fit into: what is waited for is one of very many, and not to be looked for among all. */
  private payloads(topics: readonly string[]): string[] {
    return paged(topics, lengthOf).map((page) => JSON.stringify({ from: this.sender, topics: page }));
  }

  private receiveSpread(channel: string, payload: string | undefined, hearing: ListenerCallbacks): void {
    const kind = Object.entries(sharedChannels).find(([, shared]) => shared === channel)?.[0];
    if (kind !== undefined) hearing.received([`${kind}:${payload ?? ''}`]);
    else this.receiveOwn(payload, hearing, () => {});
  }

  private receiveOwn(payload: string | undefined, hearing: ListenerCallbacks, heardTest: () => void): void {
    let signal: { from?: unknown; topics?: unknown; notes?: unknown; test?: unknown } = {};
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
    hearing.received(Array.isArray(signal.topics) ? fromSent(signal) : null);
  }
}

interface Signal {
  readonly channel: string;
  readonly payload: string;
}

const announce: Statement = {
  name: 'signals.announce',
  shared: true as const,
  text: 'select pg_notify(s.channel, s.payload) from unnest($1::text[], $2::text[]) as s(channel, payload)',
};

/** What the topics of one payload may take. */
const pageBytes = 7_500;

/** More of them for every process are as good as news of everything. */
const maxOwnPages = 10;

function lengthOf(topic: string): number {
  return Buffer.byteLength(JSON.stringify(topic)) + 1;
}

function paged(topics: readonly string[], bytesOf: (topic: string) => number): string[][] {
  const pages: string[][] = [[]];
  let room = pageBytes;
  for (const topic of topics) {
    const bytes = bytesOf(topic);
    if (bytes > room && room < pageBytes) {
      pages.push([]);
      room = pageBytes;
    }
    pages.at(-1)?.push(topic);
    room -= bytes;
  }
  return pages;
}

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
