import type { InboxState } from '../../storage/contract/messaging.js';

/** Maximum number of waiting messages of one inbox, and the maximum sum of their bytes. */
export interface InboxLimits {
  readonly messages: number;
  readonly bytes: number;
}

/** The messages that one call sends to one inbox. */
export interface InboxLoad {
  readonly messages: number;
  readonly bytes: number;
}

/** Maximum number of remembered inboxes. Other inboxes are queried again at their next message. */
const maxInboxes = 10_000;

interface Inbox {
  /** Messages and bytes that may be sent without a query. */
  messages: number;
  bytes: number;
  /** Messages that are being sent. */
  sending: InboxLoad;
  /** Messages that were being sent at some time during the query. The query may or may not have counted them. */
  uncertain: InboxLoad;
  /** Calls that wait for a query, in call order. While there are any, one query runs. */
  readonly waiting: Waiting[];
}

interface Waiting {
  readonly load: InboxLoad;
  readonly limits: InboxLimits;
  readonly query: Query;
  /** Number of queries that found no room for this call. */
  queries: number;
  answer(full: InboxState | undefined): void;
  fail(error: unknown): void;
}

/** Reads the state of the inbox. Undefined: the app is closing, and the send itself reports that. */
type Query = () => Promise<InboxState | undefined>;

const noLoad: InboxLoad = { messages: 0, bytes: 0 };

/**
 * Number of queries before a call is refused. Messages that are being sent during a query may be counted twice. They
 * are soon stored, and a later query counts them once.
 */
const maxQueries = 3;

/**
 * Limits how much this process sends to an inbox before it queries how many messages are waiting there.
 *
 * A process may send a hundredth of the limits without a query, and another hundredth after each query that finds room.
 * Therefore a few messages to a workflow cost no query, and many messages cost one query for each hundredth. If n
 * processes send to one inbox at the same time, they can exceed the limits by n hundredths. Messages that are being
 * sent during a query may come on top. The next query notices messages that were received meanwhile.
 */
export class InboxCapacity {
  private readonly inboxes = new Map<string, Inbox>();

  /** Takes room that needs no query. Returns false if a query is necessary. */
  take(key: string, load: InboxLoad, limits: InboxLimits): boolean {
    return this.takeFrom(this.of(key, limits), load);
  }

  private takeFrom(inbox: Inbox, load: InboxLoad): boolean {
    if (!fits(load, inbox)) return false;
    [inbox.messages, inbox.bytes] = [inbox.messages - load.messages, inbox.bytes - load.bytes];
    inbox.sending = plus(inbox.sending, load, 1);
    inbox.uncertain = plus(inbox.uncertain, load, 1);
    return true;
  }

  /**
   * Takes room after a query. Resolves with undefined, or with the state of the inbox if there is no room. Calls that
   * wait at the same time share one query.
   */
  takeAfterQuery(key: string, load: InboxLoad, limits: InboxLimits, query: Query): Promise<InboxState | undefined> {
    const inbox = this.of(key, limits);
    return new Promise((answer, fail) => {
      inbox.waiting.push({ load, limits, query, queries: 0, answer, fail });
      if (inbox.waiting.length === 1) void this.serve(inbox);
    });
  }

  /** Queries until no call waits. This continues even if the inbox is forgotten meanwhile in favor of others. */
  private async serve(inbox: Inbox): Promise<void> {
    // An earlier query may have found room since `take` returned false.
    this.admit(inbox);
    for (let [first] = inbox.waiting; first; [first] = inbox.waiting) {
      inbox.uncertain = inbox.sending;
      try {
        const state = await first.query();
        if (state) this.decide(inbox, first, state);
        else for (const { answer } of inbox.waiting.splice(0)) answer(undefined);
      } catch (error) {
        for (const { fail } of inbox.waiting.splice(0)) fail(error);
      }
      this.admit(inbox);
    }
  }

  /** Admits waiting calls in order while the known room is sufficient. */
  private admit(inbox: Inbox): void {
    for (let [first] = inbox.waiting; first && this.takeFrom(inbox, first.load); [first] = inbox.waiting) {
      inbox.waiting.shift();
      first.answer(undefined);
    }
  }

  /** Notes the room for the first call. If there is none, refuses all waiting calls without room. */
  private decide(inbox: Inbox, first: Waiting, state: InboxState): void {
    // Some messages may have been counted twice: as stored, and as being sent.
    const isUncertain = inbox.uncertain.messages > 0;
    const freeOf = ({ messages, bytes }: InboxLimits): InboxLoad =>
      plus({ messages: messages - state.waiting, bytes: bytes - state.bytes }, inbox.uncertain, -1);
    const free = freeOf(first.limits);
    if (fits(first.load, free)) {
      const share = shareOf(first.limits);
      inbox.messages = Math.min(free.messages, Math.max(share.messages, first.load.messages));
      inbox.bytes = Math.min(free.bytes, Math.max(share.bytes, first.load.bytes));
      return;
    }
    for (const entry of inbox.waiting.splice(0)) {
      const isFull = !fits(entry.load, freeOf(entry.limits));
      if (isFull) entry.queries++;
      if (isFull && !(isUncertain && entry.queries < maxQueries)) entry.answer(state);
      else inbox.waiting.push(entry);
    }
  }

  /** Notes that messages with room are stored, or will not be sent. */
  release(key: string, load: InboxLoad): void {
    const inbox = this.inboxes.get(key);
    if (inbox) inbox.sending = plus(inbox.sending, load, -1);
  }

  private of(key: string, limits: InboxLimits): Inbox {
    const existing = this.inboxes.get(key);
    if (existing) return existing;
    const [oldest] = this.inboxes.keys();
    if (oldest !== undefined && this.inboxes.size >= maxInboxes) this.inboxes.delete(oldest);
    const inbox: Inbox = { ...shareOf(limits), sending: noLoad, uncertain: noLoad, waiting: [] };
    this.inboxes.set(key, inbox);
    return inbox;
  }
}

function shareOf({ messages, bytes }: InboxLimits): InboxLoad {
  return { messages: Math.floor(messages / 100), bytes: Math.floor(bytes / 100) };
}

function fits(load: InboxLoad, room: InboxLoad): boolean {
  return load.messages <= room.messages && load.bytes <= room.bytes;
}

function plus(a: InboxLoad, b: InboxLoad, sign: 1 | -1): InboxLoad {
  return {
    messages: Math.max(0, a.messages + sign * b.messages),
    bytes: Math.max(0, a.bytes + sign * b.bytes),
  };
}
