import type { InboxStanding } from '../storage/messaging.js';

/** Most messages that wait in one inbox, and most bytes of them. */
export interface InboxLimits {
  readonly messages: number;
  readonly bytes: number;
}

/** What is to be sent to one inbox. */
export interface Load {
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
  underWay: Load;
  /** What was under way at some time during the look: the look may or may not have seen it. */
  unseen: Load;
  looking: Promise<unknown> | undefined;
}

/** What a look found: nothing, if there is room. */
interface Found {
  readonly full?: InboxStanding;
  /** Some of what was counted may have been counted twice: as stored, and as under way. */
  readonly mayBeLess?: boolean;
  readonly isClosing?: boolean;
}

const nothing: Load = { messages: 0, bytes: 0 };

/** What was being sent during a look has been stored soon, and is then counted once: so many looks before a refusal. */
const mostLooks = 3;

/**
 * How much this process may send to an inbox before it looks how much is waiting there.
 *
 * A process may send the hundredth part of the limits without a look, and as much again after each look that finds room: few
 * messages to a workflow cost no statement, many cost one for a hundred. So n processes that send to one inbox at the same time
 * can exceed the limits by n hundredths, and by what is being sent while one of them looks. What was received meanwhile is seen by
 * the next look.
 */
export class InboxRoom {
  private readonly inboxes = new Map<string, Inbox>();

  /** Takes room that is known. False: a look is needed. */
  take(key: string, load: Load, limits: InboxLimits): boolean {
    const inbox = this.of(key, limits);
    if (load.messages > inbox.messages || load.bytes > inbox.bytes) return false;
    [inbox.messages, inbox.bytes] = [inbox.messages - load.messages, inbox.bytes - load.bytes];
    inbox.underWay = plus(inbox.underWay, load, 1);
    inbox.unseen = plus(inbox.unseen, load, 1);
    return true;
  }

  /** Takes room after a look, or returns what was found where there is none. */
  async find(
    key: string,
    load: Load,
    limits: InboxLimits,
    look: () => Promise<InboxStanding | undefined>,
  ): Promise<InboxStanding | undefined> {
    for (let looks = 0; ; ) {
      if (this.take(key, load, limits)) return undefined;
      const inbox = this.of(key, limits);
      if (inbox.looking !== undefined) {
        await inbox.looking.catch(() => {});
        continue;
      }
      looks++;
      const looking = this.look(inbox, load, limits, look);
      inbox.looking = looking;
      const { full, mayBeLess, isClosing } = await looking;
      if (isClosing) return undefined;
      if (full && !(mayBeLess && looks < mostLooks)) return full;
    }
  }

  /**
   * Looks, and notes how much room there is. The look is over only when that is noted: the next look begins with a new `unseen`,
   * and would have this one forget what was stored while it looked.
   */
  private async look(
    inbox: Inbox,
    load: Load,
    limits: InboxLimits,
    look: () => Promise<InboxStanding | undefined>,
  ): Promise<Found> {
    inbox.unseen = inbox.underWay;
    try {
      const found = await look();
      // The app closes, and says so to the send itself.
      if (!found) return { isClosing: true };
      const left = { messages: limits.messages - found.waiting, bytes: limits.bytes - found.bytes };
      const free = plus(left, inbox.unseen, -1);
      if (load.messages > free.messages || load.bytes > free.bytes) {
        return { full: found, mayBeLess: inbox.unseen.messages > 0 };
      }
      const part = unlooked(limits);
      inbox.messages = Math.min(free.messages, Math.max(part.messages, load.messages));
      inbox.bytes = Math.min(free.bytes, Math.max(part.bytes, load.bytes));
      return {};
    } finally {
      inbox.looking = undefined;
    }
  }

  /** What was taken is stored, or is not going to be. */
  done(key: string, load: Load): void {
    const inbox = this.inboxes.get(key);
    if (inbox) inbox.underWay = plus(inbox.underWay, load, -1);
  }

  private of(key: string, limits: InboxLimits): Inbox {
    const known = this.inboxes.get(key);
    if (known) return known;
    const [oldest] = this.inboxes.keys();
    if (oldest !== undefined && this.inboxes.size >= most) this.inboxes.delete(oldest);
    const inbox: Inbox = { ...unlooked(limits), underWay: nothing, unseen: nothing, looking: undefined };
    this.inboxes.set(key, inbox);
    return inbox;
  }
}

function unlooked({ messages, bytes }: InboxLimits): Load {
  return { messages: Math.floor(messages / 100), bytes: Math.floor(bytes / 100) };
}

function plus(a: Load, b: Load, sign: 1 | -1): Load {
  return {
    messages: Math.max(0, a.messages + sign * b.messages),
    bytes: Math.max(0, a.bytes + sign * b.bytes),
  };
}
