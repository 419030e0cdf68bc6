import type { InboxState } from '../../storage/contract/messaging.js';

/** Most messages that wait in one inbox, and most bytes of them. */
export interface InboxLimits {
  readonly messages: number;
  readonly bytes: number;
}

/** What is to be sent to one inbox. */
export interface InboxLoad {
  readonly messages: number;
  readonly bytes: number;
}

/** So many inboxes are remembered: the others are looked at again when it is their turn. */
const most = 10_000;

interface Inbox {
  /** What may be sent without a look. */
  messages: number;
  bytes: number;
  /** What is being sent. */
  underWay: InboxLoad;
  /** What was under way at some time during the look: the look may or may not have seen it. */
  unseen: InboxLoad;
  /** Those that wait for a look, in the order in which they came. While there are any, one look is under way. */
  readonly waiting: Waiting[];
}

interface Waiting {
  readonly load: InboxLoad;
  readonly limits: InboxLimits;
  readonly look: Look;
  /** How many looks have found no room for it. */
  looks: number;
  answer(full: InboxState | undefined): void;
  fail(error: unknown): void;
}

/** Undefined: the app closes, and says so to the send itself. */
type Look = () => Promise<InboxState | undefined>;

const nothing: InboxLoad = { messages: 0, bytes: 0 };

/** What was being sent during a look has been stored soon, and is then counted once: so many looks before a refusal. */
const maxLooks = 3;

/**
 * How much this process may send to an inbox before it looks how much is waiting there.
 *
 * A process may send the hundredth part of the limits without a look, and as much again after each look that finds room: few
 * messages to a workflow cost no statement, many cost one for a hundred. So n processes that send to one inbox at the same time
 * can exceed the limits by n hundredths, and by what is being sent while one of them looks. What was received meanwhile is seen by
 * the next look.
 */
export class InboxCapacity {
  private readonly inboxes = new Map<string, Inbox>();

  /** Takes room that is known. False: a look is needed. */
  take(key: string, load: InboxLoad, limits: InboxLimits): boolean {
    return this.takeFrom(this.of(key, limits), load);
  }

  private takeFrom(inbox: Inbox, load: InboxLoad): boolean {
    if (!fits(load, inbox)) return false;
    [inbox.messages, inbox.bytes] = [inbox.messages - load.messages, inbox.bytes - load.bytes];
    inbox.underWay = plus(inbox.underWay, load, 1);
    inbox.unseen = plus(inbox.unseen, load, 1);
    return true;
  }

  /** Takes room after a look, or returns what was found where there is none. Whoever waits at the same time shares the look. */
  find(key: string, load: InboxLoad, limits: InboxLimits, look: Look): Promise<InboxState | undefined> {
    const inbox = this.of(key, limits);
    return new Promise((answer, fail) => {
      inbox.waiting.push({ load, limits, look, looks: 0, answer, fail });
      if (inbox.waiting.length === 1) void this.serve(inbox);
    });
  }

  /** An inbox that is forgotten meanwhile, for the sake of others, is served to the end all the same. */
  private async serve(inbox: Inbox): Promise<void> {
    // Room may have been found since it was asked for.
    this.letIn(inbox);
    for (let [first] = inbox.waiting; first; [first] = inbox.waiting) {
      inbox.unseen = inbox.underWay;
      try {
        const found = await first.look();
        if (found) this.judge(inbox, first, found);
        else for (const { answer } of inbox.waiting.splice(0)) answer(undefined);
      } catch (error) {
        for (const { fail } of inbox.waiting.splice(0)) fail(error);
      }
      this.letIn(inbox);
    }
  }

  /** Those who fit into the room that is known, in their order. */
  private letIn(inbox: Inbox): void {
    for (let [first] = inbox.waiting; first && this.takeFrom(inbox, first.load); [first] = inbox.waiting) {
      inbox.waiting.shift();
      first.answer(undefined);
    }
  }

  /** Notes how much room there is for the first; if there is none, refuses all for whom there is none. */
  private judge(inbox: Inbox, first: Waiting, found: InboxState): void {
    // Some of what was counted may have been counted twice: as stored, and as under way.
    const mayBeLess = inbox.unseen.messages > 0;
    const freeOf = ({ messages, bytes }: InboxLimits): InboxLoad =>
      plus({ messages: messages - found.waiting, bytes: bytes - found.bytes }, inbox.unseen, -1);
    const free = freeOf(first.limits);
    if (fits(first.load, free)) {
      const part = unlooked(first.limits);
      inbox.messages = Math.min(free.messages, Math.max(part.messages, first.load.messages));
      inbox.bytes = Math.min(free.bytes, Math.max(part.bytes, first.load.bytes));
      return;
    }
    for (const each of inbox.waiting.splice(0)) {
      const isFull = !fits(each.load, freeOf(each.limits));
      if (isFull) each.looks++;
      if (isFull && !(mayBeLess && each.looks < maxLooks)) each.answer(found);
      else inbox.waiting.push(each);
    }
  }

  /** What was taken is stored, or is not going to be. */
  done(key: string, load: InboxLoad): void {
    const inbox = this.inboxes.get(key);
    if (inbox) inbox.underWay = plus(inbox.underWay, load, -1);
  }

  private of(key: string, limits: InboxLimits): Inbox {
    const known = this.inboxes.get(key);
    if (known) return known;
    const [oldest] = this.inboxes.keys();
    if (oldest !== undefined && this.inboxes.size >= most) this.inboxes.delete(oldest);
    const inbox: Inbox = { ...unlooked(limits), underWay: nothing, unseen: nothing, waiting: [] };
    this.inboxes.set(key, inbox);
    return inbox;
  }
}

function unlooked({ messages, bytes }: InboxLimits): InboxLoad {
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
