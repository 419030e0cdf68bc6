import type { Clock } from '../../model/clock.js';
import type { Logger } from '../../model/logger.js';
import type { EventState, StreamState, WaitingMessage } from '../../storage/contract/messaging.js';
import type { Storage } from '../../storage/contract/storage.js';
import type { News, Topic } from './news.js';
import { type Hearer, Watch } from './watch.js';

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

/** How many values of a stream one look brings. */
const streamPage = 100;

/** What the workflows and callers of this process wait for beside results: messages, events, streams. */
export class Watches {
  readonly messages: Watch<InboxQuestion, readonly WaitingMessage[]>;
  readonly events: Watch<EventQuestion, EventState>;
  readonly streams: Watch<StreamQuestion, StreamState>;

  constructor(storage: Storage, clock: Clock, logger: Logger, news: News) {
    const hearer: Hearer = { hears: () => news.isListening, channels: () => news.channels };
    // Not by `watchKey`, which two can share: "a::b" with "c", and "a" with "b::c".
    const inbox = (each: Pick<InboxQuestion, 'workflowId' | 'topic'>): string => pair(each.workflowId, each.topic);
    const event = (each: EventQuestion): string => pair(each.workflowId, each.key);
    const place = (each: StreamQuestion): string => `${each.from}:${event(each)}`;
    this.messages = new Watch<InboxQuestion, readonly WaitingMessage[]>(
      {
        name: 'messages',
        identity: inbox,
        topic: ({ workflowId, topic }) => `message:${watchKey(workflowId, topic)}`,
        look: async (inboxes) => {
          const found = new Map<string, WaitingMessage[]>(inboxes.map((each) => [inbox(each), []]));
          for (const message of await storage.messages.waiting(inboxes)) found.get(inbox(message))?.push(message);
          return found;
        },
      },
      clock,
      logger,
      { ...hearer, hears: () => news.receivesMessages },
    );
    this.events = new Watch(
      {
        name: 'events',
        identity: event,
        topic: ({ workflowId, key }) => `event:${watchKey(workflowId, key)}`,
        isOfDbos: ({ isOfDbos }) => isOfDbos,
        look: async (events) => new Map((await storage.events.read(events)).map((each) => [event(each), each])),
      },
      clock,
      logger,
      hearer,
    );
    this.streams = new Watch(
      {
        name: 'streams',
        identity: place,
        topic: ({ workflowId, key }) => `stream:${watchKey(workflowId, key)}`,
        isOfDbos: ({ isOfDbos }) => isOfDbos,
        look: async (places) =>
          new Map((await storage.streams.read(places, streamPage)).map((each) => [place(each), each])),
      },
      clock,
      logger,
      hearer,
    );
    news.subscribe((topic) => this.heard(topic));
    news.onOpened((channels) => {
      for (const watch of this.all()) watch.opened(channels);
    });
  }

  close(): void {
    for (const watch of this.all()) watch.close();
  }

  /** A workflow has ended, and with it its streams, and what hope there was for its events. */
  ended(workflowId: string): void {
    const key = endKey(workflowId);
    this.events.wake(key);
    this.streams.wake(key);
  }

  /** Called once, when something is first waited for. */
  set onFirstWait(callback: () => void) {
    for (const watch of this.all()) watch.onFirst = callback;
  }

  private heard(topic: Topic | null): void {
    if (topic === null || topic === 'ended' || topic === 'cancelled') {
      // A stream ends with its workflow, and so does the wait for an event.
      for (const watch of topic === null ? this.all() : [this.events, this.streams]) watch.wakeAll();
    } else if (topic.startsWith('message:')) this.messages.wake(topic.slice('message:'.length));
    else if (topic.startsWith('event:')) this.events.wake(topic.slice('event:'.length));
    else if (topic.startsWith('stream:')) this.streams.wake(topic.slice('stream:'.length));
  }

  private all() {
    return [this.messages, this.events, this.streams];
  }
}

/** Under which the end of a workflow is waited for. No `watchKey`: it has no name after its colons. */
export function endKey(workflowId: string): string {
  return `${workflowId}::`;
}

function pair(workflowId: string, name: string): string {
  return `${workflowId.length}:${workflowId}${name}`;
}

/** Under which key something of a workflow is waited for: as DBOS names it in its notifications. */
export function watchKey(workflowId: string, name: string): string {
  return `${workflowId}::${name}`;
}
