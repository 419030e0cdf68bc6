import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { channelOf, generalChannel } from '../channel-names.js';
import type { ListenerCallbacks, Listening } from '../contract/listening.js';
import { decodeTopics, encodeTopics, type SentTopics, splitNote } from '../contract/topic-notes.js';
import type { Query, Statement } from '../database.js';
import { Listener } from './listener.js';
import { OpenChannels } from './open-channels.js';

/**
 * Signals between the processes of one database, by NOTIFY and LISTEN. A signal only names the topic that changed.
 * The change itself is in the tables, and a poll finds the change if the signal is lost.
 *
 * Topics that may concern every process use one general channel. Messages, events and streams are announced twice:
 *
 * - on one of many channels (channel-names.ts), to the processes that follow this channel,
 * - on the channels of DBOS with the payloads of DBOS, so that processes of DBOS and of Holdfast wake each other.
 *
 * For messages of DBOS and messages sent by SQL, triggers send both signals.
 */
export class PostgresSignals {
  private readonly channel: string;
  /** A process also receives its own signals. It recognizes them by this ID and ignores them. */
  private readonly sender = randomBytes(6).toString('hex');

  constructor(
    schema: string,
    private readonly options: {
      /** Opens a separate connection, because LISTEN belongs to a session. */
      connect(): Promise<pg.Client>;
      /** Runs a statement on any connection. */
      readonly query: Query;
      /** Called with true if notifications do not arrive although the session listens, and with false if they do. */
      onDeaf(isDeaf: boolean): void;
    },
  ) {
    this.channel = generalChannel(schema);
  }

  async announce(topics: readonly string[], query?: Query): Promise<void> {
    const signals: Signal[] = [];
    const general = topics.filter((topic) => !dbosSignalOf(topic));
    for (const payload of this.generalPayloads(general)) signals.push({ channel: this.channel, payload });
    const topicsByChannel = new Map<string, string[]>();
    for (const topic of topics) {
      const dbosSignal = dbosSignalOf(topic);
      if (!dbosSignal) continue;
      signals.push(dbosSignal);
      const channel = channelOf(this.channel, topic);
      topicsByChannel.set(channel, [...(topicsByChannel.get(channel) ?? []), topic]);
    }
    for (const [channel, list] of topicsByChannel) {
      for (const payload of this.topicPayloads(list)) signals.push({ channel, payload });
    }
    // Postgres accepts payloads of less than 8000 bytes. Polling finds changes of topics with longer names.
    await this.notify(
      signals.filter(({ payload }) => Buffer.byteLength(payload) < 8000),
      query,
    );
  }

  hear(callbacks: ListenerCallbacks): Listening {
    let onTestReceived = (): void => {};
    const channels = new OpenChannels(
      (topic, byDbos) => (byDbos && dbosSignalOf(topic)?.channel) || channelOf(this.channel, topic),
      (opened) => callbacks.opened?.(opened),
    );
    const listener = new Listener({
      channels: [this.channel],
      others: channels,
      connect: this.options.connect,
      receive: (channel, payload) => {
        if (channel === this.channel) this.receivePayload(payload, callbacks, () => onTestReceived());
        else if (channels.heard(channel)) this.receiveFollowed(channel, payload, callbacks);
      },
      test: (heard) => {
        onTestReceived = heard;
        return this.notify([{ channel: this.channel, payload: this.payload({ test: true }) }]);
      },
      onDeaf: this.options.onDeaf,
      hearing: callbacks,
    });
    return { ready: listener.ready, channels, stop: () => listener.stop() };
  }

  private notify(signals: readonly Signal[], query?: Query): Promise<unknown> {
    const params = [signals.map(({ channel }) => channel), signals.map(({ payload }) => payload)];
    return query ? query(announce, params) : this.options.query(announceAlone, params);
  }

  /** If the content is too long, the payload names no topics. Receivers then assume that anything may have changed. */
  private payload(content: Partial<SentTopics> & { readonly test?: true }): string {
    const payload = JSON.stringify({ from: this.sender, ...content });
    return Buffer.byteLength(payload) < 7900 ? payload : JSON.stringify({ from: this.sender });
  }

  /**
   * Splits the topics into several payloads, so that work on hundreds of queues is announced queue by queue.
   * A payload without topics makes every process read the settings of all queues.
   */
  private generalPayloads(topics: readonly string[]): string[] {
    if (topics.length === 0) return [];
    const pages = paginate(topics, (topic) => lengthOf(topic) + lengthOf(splitNote(topic).topic));
    return (pages.length > maxGeneralPages ? [topics] : pages).map((page) => this.payload(encodeTopics(page)));
  }

  /** Splits the topics into few payloads, and never omits them: a receiver waits for a few out of very many topics. */
  private topicPayloads(topics: readonly string[]): string[] {
    return paginate(topics, lengthOf).map((page) => JSON.stringify({ from: this.sender, topics: page }));
  }

  private receiveFollowed(channel: string, payload: string | undefined, callbacks: ListenerCallbacks): void {
    const kind = Object.entries(dbosChannels).find(([, dbosChannel]) => dbosChannel === channel)?.[0];
    if (kind !== undefined) callbacks.received([`${kind}:${payload ?? ''}`]);
    else this.receivePayload(payload, callbacks, () => {});
  }

  private receivePayload(payload: string | undefined, callbacks: ListenerCallbacks, onTestReceived: () => void): void {
    let signal: { from?: unknown; topics?: unknown; notes?: unknown; test?: unknown } = {};
    try {
      signal = JSON.parse(payload ?? '{}');
    } catch {
      // Another program used the channel. The signal then costs this process one poll.
    }
    if (signal.from === this.sender) {
      if (signal.test) onTestReceived();
      return;
    }
    if (signal.test) return;
    callbacks.received(Array.isArray(signal.topics) ? decodeTopics(signal) : null);
  }
}

interface Signal {
  readonly channel: string;
  readonly payload: string;
}

const source = 'from unnest($1::text[], $2::text[]) as s(channel, payload)';

/** Announces within the caller's own transaction, and leaves the settings of that transaction alone. */
const announce: Statement = {
  name: 'signals.announce',
  variant: 'within',
  text: `select pg_notify(s.channel, s.payload) ${source}`,
};

/**
 * Announces in a transaction of its own, which commits without waiting for the disk or a standby. A transaction that
 * notifies holds one lock of the whole server until its commit is complete. With slow commits, all processes of a fleet
 * would wait for each other here. A crash of the server may lose the announcement, never the change: the change was
 * committed before, and a poll finds it.
 */
const announceAlone: Statement = {
  name: 'signals.announce',
  shared: true as const,
  text: `select set_config('synchronous_commit', 'off', true), pg_notify(s.channel, s.payload) ${source}`,
};

/** The size limit for the topics of one payload. */
const pageBytes = 7_500;

/** If the topics of the general channel need more payloads, one payload without topics is sent instead. */
const maxGeneralPages = 10;

function lengthOf(topic: string): number {
  return Buffer.byteLength(JSON.stringify(topic)) + 1;
}

function paginate(topics: readonly string[], bytesOf: (topic: string) => number): string[][] {
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

/** The channels of DBOS, by kind of topic. The payload of DBOS is the Holdfast topic without its kind. */
const dbosChannels: Readonly<Record<string, string>> = {
  message: 'dbos_notifications_channel',
  event: 'dbos_workflow_events_channel',
  stream: 'dbos_streams_channel',
};

function dbosSignalOf(topic: string): Signal | undefined {
  const at = topic.indexOf(':');
  const channel = at < 0 ? undefined : dbosChannels[topic.slice(0, at)];
  return channel === undefined ? undefined : { channel, payload: topic.slice(at + 1) };
}
