import type { Channels } from '../../storage/contract/listening.js';

/**
 * The channels that the waiters of a watch follow, so that notifications for them arrive in this process. If all
 * notifications arrive anyway (SQLite), or none (behind a pooler), no waiter follows a channel.
 *
 * The first query of a waiter needs no channel, because a waiter that finds its answer at once need not listen. A
 * waiter that must wait follows a channel, and queries again when the channel is open: notifications of commits
 * between the first query and that moment reached only other processes.
 */
export class FollowedChannels<Waiter extends object> {
  private readonly followedBy = new Map<Waiter, readonly string[]>();
  private readonly waitingForChannel = new Map<string, Set<Waiter>>();

  constructor(private readonly channels: () => Channels | undefined) {}

  /** Called before a query. True if a notification will arrive for every later commit that concerns the waiter. */
  covers(waiter: Waiter): boolean {
    const channels = this.channels();
    const followed = this.followedBy.get(waiter);
    return !channels || (followed?.every((channel) => channels.isOpen(channel)) ?? false);
  }

  /**
   * Called before the first query. If the channel is open already, the waiter follows it and needs no second query.
   */
  join(waiter: Waiter, topic: string): void {
    const channel = this.followedBy.has(waiter) ? undefined : this.channels()?.channelOf(topic, false);
    if (channel !== undefined && this.channels()?.isOpen(channel)) this.add(waiter, [channel]);
  }

  /** Called after a query without an answer. Returns false if the waiter must query again at once. */
  follow(waiter: Waiter, topic: string, byDbos: boolean, wasCovered: boolean): boolean {
    const channels = this.channels();
    if (!channels || (wasCovered && !byDbos)) return true;
    const current = this.followedBy.get(waiter) ?? [];
    // The channel of Holdfast comes first, then the channel of DBOS. Names that are known are not computed again:
    // without notifications, many waiters query all the time.
    const added: string[] = current.length > 0 ? [] : [channels.channelOf(topic, false)];
    if (byDbos && current.length < 2) added.push(channels.channelOf(topic, true));
    if (added.length === 0 && wasCovered) return true;
    this.add(waiter, added);
    const closedChannels = [...current, ...added].filter((channel) => !channels.isOpen(channel));
    for (const channel of closedChannels) {
      const waiting = this.waitingForChannel.get(channel) ?? new Set();
      this.waitingForChannel.set(channel, waiting.add(waiter));
    }
    // If all channels are open now, at least one was closed when the query began, so the waiter must query again.
    return closedChannels.length > 0;
  }

  forget(waiter: Waiter): void {
    const followed = this.followedBy.get(waiter);
    if (!followed) return;
    this.followedBy.delete(waiter);
    for (const channel of followed) {
      this.channels()?.unfollow(channel);
      const waiting = this.waitingForChannel.get(channel);
      waiting?.delete(waiter);
      if (waiting?.size === 0) this.waitingForChannel.delete(channel);
    }
  }

  /** Returns the waiters that waited for this channel to open. */
  opened(channel: string): Iterable<Waiter> {
    const waiting = this.waitingForChannel.get(channel) ?? [];
    this.waitingForChannel.delete(channel);
    return waiting;
  }

  private add(waiter: Waiter, channels: readonly string[]): void {
    if (channels.length === 0) return;
    this.followedBy.set(waiter, [...(this.followedBy.get(waiter) ?? []), ...channels]);
    for (const channel of channels) this.channels()?.follow(channel);
  }
}
