import type { Channels } from '../../storage/database.js';

/**
 * Which channels those who wait in a watch follow, so that news of what they wait for arrives here. Where news of everything
 * arrives anyway (SQLite), or none (behind a pooler), nobody follows any.
 *
 * A first look comes without: who finds something at once need not listen. Who has to wait follows, and looks again once the
 * channel is open, because what was committed between the look and that moment was announced to others only.
 */
export class FollowedChannels<Who extends object> {
  private readonly followed = new Map<Who, readonly string[]>();
  private readonly opening = new Map<string, Set<Who>>();

  constructor(private readonly channels: () => Channels | undefined) {}

  /** Asked before a look: whether nothing can escape that is committed after it. */
  covers(who: Who): boolean {
    const channels = this.channels();
    const followed = this.followed.get(who);
    return !channels || (followed?.every((channel) => channels.isOpen(channel)) ?? false);
  }

  /** Asked before the first look: if it is open by chance, that look is enough. */
  join(who: Who, topic: string): void {
    const channel = this.followed.has(who) ? undefined : this.channels()?.channelOf(topic, false);
    if (channel !== undefined && this.channels()?.isOpen(channel)) this.add(who, [channel]);
  }

  /** After a look that found nothing. Returns whether the look covered all that is needed. */
  follow(who: Who, topic: string, byDbos: boolean, wasCovered: boolean): boolean {
    const channels = this.channels();
    if (!channels || (wasCovered && !byDbos)) return true;
    const before = this.followed.get(who) ?? [];
    // First its own channel, then that of DBOS. Not named anew at each look: where nothing is heard, many look all the time.
    const wanted: string[] = before.length > 0 ? [] : [channels.channelOf(topic, false)];
    if (byDbos && before.length < 2) wanted.push(channels.channelOf(topic, true));
    if (wanted.length === 0 && wasCovered) return true;
    this.add(who, wanted);
    const shut = [...before, ...wanted].filter((channel) => !channels.isOpen(channel));
    for (const channel of shut) {
      const waiting = this.opening.get(channel) ?? new Set();
      this.opening.set(channel, waiting.add(who));
    }
    // All open by now, but not when the look began.
    return shut.length > 0;
  }

  forget(who: Who): void {
    const followed = this.followed.get(who);
    if (!followed) return;
    this.followed.delete(who);
    for (const channel of followed) {
      this.channels()?.unfollow(channel);
      const waiting = this.opening.get(channel);
      waiting?.delete(who);
      if (waiting?.size === 0) this.opening.delete(channel);
    }
  }

  /** Those who have waited for the channel to be opened. */
  opened(channel: string): Iterable<Who> {
    const waiting = this.opening.get(channel) ?? [];
    this.opening.delete(channel);
    return waiting;
  }

  private add(who: Who, channels: readonly string[]): void {
    if (channels.length === 0) return;
    this.followed.set(who, [...(this.followed.get(who) ?? []), ...channels]);
    for (const channel of channels) this.channels()?.follow(channel);
  }
}
