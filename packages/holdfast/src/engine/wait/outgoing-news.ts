/** Minimum time between two announcements of one topic. */
export const minGapMs = 10;

/**
 * Upper limit for the time between two announcements of one topic. The time grows for a topic that is added several
 * times before each announcement, such as a fast stream.
 */
const maxGapMs = 40;

/**
 * The topics that must be announced to other processes. Each announcement wakes all sessions that listen, and a
 * receiver reads everything about the topic at once. Therefore a topic that changes all the time is announced less
 * often.
 */
export class OutgoingNews<T> {
  /** How often each topic was added since its last announcement. */
  private readonly pending = new Map<T, number>();
  private readonly announced = new Map<T, { readonly at: number; readonly gapMs: number }>();

  add(topic: T): void {
    this.pending.set(topic, (this.pending.get(topic) ?? 0) + 1);
  }

  get isEmpty(): boolean {
    return this.pending.size === 0;
  }

  clear(): void {
    this.pending.clear();
  }

  /** Removes and returns the topics that may be announced at this instant. */
  takeDue(now: number): T[] {
    for (const [topic, { at, gapMs }] of this.announced) {
      if (now - at >= gapMs && !this.pending.has(topic)) this.announced.delete(topic);
    }
    const due = [...this.pending.keys()].filter((topic) => {
      const last = this.announced.get(topic);
      return !last || now - last.at >= last.gapMs;
    });
    for (const topic of due) {
      const last = this.announced.get(topic);
      const isFrequent = last && (this.pending.get(topic) ?? 0) > 1;
      this.announced.set(topic, { at: now, gapMs: isFrequent ? Math.min(last.gapMs * 2, maxGapMs) : minGapMs });
      this.pending.delete(topic);
    }
    return due;
  }

  /** Removes and returns all topics, because no later announcement is possible. */
  takeAll(): T[] {
    const all = [...this.pending.keys()];
    this.pending.clear();
    return all;
  }
}
