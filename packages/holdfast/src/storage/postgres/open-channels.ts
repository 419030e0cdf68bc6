import type { Channels } from '../contract/listening.js';
import { quoteIdentifier } from './identifiers.js';

/**
 * A channel is closed after this many notifications that no waiter of this process wants.
 * These notifications cost about as much as opening the channel again.
 */
const maxUnwanted = 10;

/** Sends statements to the listening session, in the order of the calls. Rejects when the session is over. */
type Send = (text: string) => Promise<unknown>;

/**
 * The channels to which the session of a process listens because a waiter in the process follows them.
 *
 * **Invariant:** a channel counts as open only after the server has confirmed LISTEN and before UNLISTEN is sent.
 * A waiter that finds the channel open before its query misses nothing that commits after the query.
 * A waiter that finds the channel closed repeats its query when the channel has been opened.
 *
 * A channel without followers stays open until it has delivered a few unwanted notifications.
 * Other waiters may soon need the channel, and each LISTEN costs them one more query.
 */
export class OpenChannels implements Channels {
  /** The number of followers of each channel. */
  private readonly followers = new Map<string, number>();
  private readonly open = new Set<string>();
  private readonly unwanted = new Map<string, number>();
  private readonly closing = new Set<string>();
  private send: Send | undefined;
  private syncing: Promise<void> | null = null;

  constructor(
    readonly channelOf: Channels['channelOf'],
    private readonly opened: (channels: readonly string[]) => void,
  ) {}

  isOpen(channel: string): boolean {
    return this.open.has(channel);
  }

  follow(channel: string): void {
    this.followers.set(channel, (this.followers.get(channel) ?? 0) + 1);
    this.unwanted.delete(channel);
    if (!this.open.has(channel)) this.sync();
  }

  unfollow(channel: string): void {
    const left = (this.followers.get(channel) ?? 0) - 1;
    if (left > 0) this.followers.set(channel, left);
    else this.followers.delete(channel);
  }

  /** Counts a notification on the channel. Returns true if the channel has a follower. */
  heard(channel: string): boolean {
    if (this.followers.has(channel)) return true;
    const count = (this.unwanted.get(channel) ?? 0) + 1;
    this.unwanted.set(channel, count);
    if (count >= maxUnwanted && this.open.has(channel)) {
      this.unwanted.delete(channel);
      // New waiters must not rely on the channel from now on, although a few more notifications may arrive on it.
      this.open.delete(channel);
      this.closing.add(channel);
      this.sync();
    }
    return false;
  }

  /** Begins a new session. Resolves when the session listens to all followed channels. */
  async begin(send: Send): Promise<void> {
    this.end();
    this.send = send;
    this.sync();
    await this.syncing;
  }

  /** Ends the session, and with it all open channels. */
  end(): void {
    this.send = undefined;
    this.syncing = null;
    this.open.clear();
    this.closing.clear();
    this.unwanted.clear();
  }

  private sync(): void {
    const { send } = this;
    if (!send || this.syncing !== null) return;
    this.syncing = this.syncWith(send);
  }

  /** Sends one statement at a time, so that LISTEN and UNLISTEN of one channel keep their order. */
  private async syncWith(send: Send): Promise<void> {
    // All changes of this event loop turn go into one statement.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.send === send) {
      const closing = [...this.closing];
      this.closing.clear();
      const opening = [...this.followers.keys()].filter((channel) => !this.open.has(channel));
      const statements = [
        ...closing.map((channel) => `unlisten ${quoteIdentifier(channel)}`),
        ...opening.map((channel) => `listen ${quoteIdentifier(channel)}`),
      ];
      // If the statement fails, the session is broken, even if the listener does not know yet. The next session
      // begins with all channels that have followers then.
      const answered =
        statements.length > 0 &&
        (await send(statements.join('; ')).then(
          () => true,
          () => false,
        ));
      if (this.send !== send) return;
      if (!answered) {
        // The field is reset in the same event loop turn, so that the next `follow` starts a new attempt.
        this.syncing = null;
        return;
      }
      for (const channel of opening) this.open.add(channel);
      if (opening.length > 0) this.opened(opening);
    }
  }
}
