import type { Clock } from '../../model/clock.js';
import type { Logger } from '../../model/logger.js';
import type { EventState, StreamState, WaitingMessage } from '../../storage/contract/messaging.js';
import type { Storage } from '../../storage/contract/storage.js';
import type { News, Topic } from './news.js';
import { type NotificationSource, Watch } from './watch.js';

export interface InboxQuestion {
  readonly workflowId: string;
  readonly topic: string;
  readonly most: number;
}

export interface EventQuestion {
  readonly workflowId: string;
  readonly key: string;
}

export interface StreamQuestion extends EventQuestion {
  readonly from: number;
}

/** Maximum number of values of a stream that one query returns. */
const streamPage = 100;

interface WatchesOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly news: News;
  /** Called at the first wait of each kind: from then on, notifications of other processes are worth receiving. */
  readonly onFirstWait?: (() => void) | undefined;
}

/** The watches of this process: workflows and callers that wait for messages, events and streams. */
export class Watches {
  readonly messages: Watch<InboxQuestion, readonly WaitingMessage[]>;
  readonly events: Watch<EventQuestion, EventState>;
  readonly streams: Watch<StreamQuestion, StreamState>;

  constructor({ storage, clock, logger, news, onFirstWait }: WatchesOptions) {
    const notifications: NotificationSource = {
      areReceived: () => news.isListening,
      channels: () => news.channels,
      onFirstWait,
    };
    // `watchKey` is not unique: "a::b" with "c" has the same key as "a" with "b::c".
    const inboxId = (each: Pick<InboxQuestion, 'workflowId' | 'topic'>): string => pair(each.workflowId, each.topic);
    const eventId = (each: EventQuestion): string => pair(each.workflowId, each.key);
    const position = (each: StreamQuestion): string => `${each.from}:${eventId(each)}`;
    this.messages = new Watch<InboxQuestion, readonly WaitingMessage[]>(
      {
        name: 'messages',
        identity: inboxId,
        topic: ({ workflowId, topic }) => `message:${watchKey(workflowId, topic)}`,
        query: async (inboxes) => {
          const found = new Map<string, WaitingMessage[]>(inboxes.map((each) => [inboxId(each), []]));
          for (const message of await storage.messages.waiting(inboxes)) found.get(inboxId(message))?.push(message);
          return found;
        },
      },
      clock,
      logger,
      { ...notifications, areReceived: () => news.receivesMessages },
    );
    this.events = new Watch(
      {
        name: 'events',
        identity: eventId,
        topic: ({ workflowId, key }) => `event:${watchKey(workflowId, key)}`,
        isOfDbos: ({ isOfDbos }) => isOfDbos,
        query: async (events) => new Map((await storage.events.read(events)).map((each) => [eventId(each), each])),
      },
      clock,
      logger,
      notifications,
    );
    this.streams = new Watch(
      {
        name: 'streams',
        identity: position,
        topic: ({ workflowId, key }) => `stream:${watchKey(workflowId, key)}`,
        isOfDbos: ({ isOfDbos }) => isOfDbos,
        query: async (positions) =>
          new Map((await storage.streams.read(positions, streamPage)).map((each) => [position(each), each])),
      },
      clock,
      logger,
      notifications,
    );
    news.subscribe((topic) => this.receive(topic));
    news.onOpened((channels) => {
      for (const watch of this.all()) watch.opened(channels);
    });
  }

  close(): void {
    for (const watch of this.all()) watch.close();
  }

  /** Wakes the waits for events and streams of a workflow that has ended. No more values can follow. */
  ended(workflowId: string): void {
    const key = endKey(workflowId);
    this.events.wake(key);
    this.streams.wake(key);
  }

  private receive(topic: Topic | null): void {
    if (topic === null || topic === 'ended' || topic === 'cancelled') {
      // The end of a workflow ends its streams and the waits for its events.
      for (const watch of topic === null ? this.all() : [this.events, this.streams]) watch.wakeAll();
    } else if (topic.startsWith('message:')) this.messages.wake(topic.slice('message:'.length));
    else if (topic.startsWith('event:')) this.events.wake(topic.slice('event:'.length));
    else if (topic.startsWith('stream:')) this.streams.wake(topic.slice('stream:'.length));
  }

  private all() {
    return [this.messages, this.events, this.streams];
  }
}

/**
 * The key of waits for the end of a workflow. It differs from every `watchKey`, because no name follows its colons.
 */
export function endKey(workflowId: string): string {
  return `${workflowId}::`;
}

function pair(workflowId: string, name: string): string {
  return `${workflowId.length}:${workflowId}${name}`;
}

/** The key of waits for a message, event or stream of a workflow. DBOS uses the same key in its notifications. */
export function watchKey(workflowId: string, name: string): string {
  return `${workflowId}::${name}`;
}
