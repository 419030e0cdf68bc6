import type { Channels } from '../database.js';
import { quoteIdentifier } from './identifiers.js';

/** So many notifications that nobody here waits for: then the channel is left. About what it costs to open it again. */
const enough = 10;

/** Sends statements to the session that listens, in the order of the calls. Rejects when that is over. */
type Send = (text: string) => Promise<unknown>;

/**
 * The channels that the session of a process listens to because somebody in the process waits for what comes by them.
 *
 * **Invariant:** a channel counts as open only while the server has confirmed LISTEN and nothing has been sent that ends it.
 * Whoever finds it open before a look misses nothing that is committed after the look; whoever does not looks again when it
 * has been opened.
 *
 * A channel that nobody follows any more stays open until it has brought a few notifications in vain: others may soon wait
 * for something on it, and each LISTEN costs them a look.
 */
export class OpenChannels implements Channels {
  /** How many follow each. */
  private readonly followers = new Map<string, number>();
  private readonly open = new Set<string>();
  private readonly inVain = new Map<string, number>();
  private readonly closing = new Set<string>();
  private send: Send | undefined;
  private settling: Promise<void> | null = null;

  constructor(
    readonly channelOf: Channels['channelOf'],
    private readonly opened: (channels: readonly string[]) => void,
  ) {}

  isOpen(channel: string): boolean {
    return this.open.has(channel);
  }

  follow(channel: string): void {
    this.followers.set(channel, (this.followers.get(channel) ?? 0) + 1);
    this.inVain.delete(channel);
    if (!this.open.has(channel)) this.settle();
  }

  unfollow(channel: string): void {
    const left = (this.followers.get(channel) ?? 0) - 1;
    if (left > 0) this.followers.set(channel, left);
    else this.followers.delete(channel);
  }

  /** A notification came by it. Returns whether anybody follows it. */
  heard(channel: string): boolean {
    if (this.followers.has(channel)) return true;
    const times = (this.inVain.get(channel) ?? 0) + 1;
    this.inVain.set(channel, times);
    if (times >= enough && this.open.has(channel)) {
      this.inVain.delete(channel);
      // From now on it is closed to those who begin to wait, although more may still come by it.
      this.open.delete(channel);
      this.closing.add(channel);
      this.settle();
    }
    return false;
  }

  /** A session has begun. Resolves when it listens to all that is followed. */
  async begin(send: Send): Promise<void> {
    this.end();
    this.send = send;
    this.settle();
    await this.settling;
  }

  /** It is over, and with it all that it listened to. */
  end(): void {
    this.send = undefined;
    this.settling = null;
    this.open.clear();
    this.closing.clear();
    this.inVain.clear();
  }

  private settle(): void {
    const { send } = this;
    if (!send || this.settling !== null) return;
    this.settling = this.settleBy(send);
  }

  /** One statement at a time: LISTEN and UNLISTEN of one channel keep their order. */
  private async settleBy(send: Send): Promise<void> {
    // What this turn of the event loop brings goes together.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.send === send) {
      const closing = [...this.closing];
      this.closing.clear();
      const opening = [...this.followers.keys()].filter((channel) => !this.open.has(channel));
      const statements = [
        ...closing.map((channel) => `unlisten ${quoteIdentifier(channel)}`),
        ...opening.map((channel) => `listen ${quoteIdentifier(channel)}`),
      ];
      // The session may have broken, or is about to be found broken: the next one begins with all that is followed then.
      const answered =
        statements.length > 0 &&
        (await send(statements.join('; ')).then(
          () => true,
          () => false,
        ));
      if (this.send !== send) return;
      if (!answered) {
        // In this very turn: whoever follows from now on begins anew.
        this.settling = null;
        return;
      }
      for (const channel of opening) this.open.add(channel);
      if (opening.length > 0) this.opened(opening);
    }
  }
}
