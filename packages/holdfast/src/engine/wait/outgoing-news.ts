/** A topic is announced again after this time at the earliest. */
export const minGapMs = 10;

/** The same for a topic that was told of several times in each of the last times: a stream that is written fast, say. */
const maxApartMs = 40;

/**
 * The topics that are to be announced to other processes. Whoever hears of a topic reads all that is there, and each announcement
 * wakes all sessions that listen: a topic of which there is always more news is announced less often.
 */
export class OutgoingNews<T> {
  /** How often each was told of since it was announced. */
  private readonly told = new Map<T, number>();
  private readonly announced = new Map<T, { readonly at: number; readonly apartMs: number }>();

  add(topic: T): void {
    this.told.set(topic, (this.told.get(topic) ?? 0) + 1);
  }

  get isEmpty(): boolean {
    return this.told.size === 0;
  }

  clear(): void {
    this.told.clear();
  }

  /** Takes out what may be announced at this time. */
  takeDue(now: number): T[] {
    for (const [topic, { at, apartMs }] of this.announced) {
      if (now - at >= apartMs && !this.told.has(topic)) this.announced.delete(topic);
    }
    const due = [...this.told.keys()].filter((topic) => {
      const last = this.announced.get(topic);
      return !last || now - last.at >= last.apartMs;
    });
    for (const topic of due) {
      const last = this.announced.get(topic);
      const isFast = last && (this.told.get(topic) ?? 0) > 1;
      this.announced.set(topic, { at: now, apartMs: isFast ? Math.min(last.apartMs * 2, maxApartMs) : minGapMs });
      this.told.delete(topic);
    }
    return due;
  }

  /** The same for all of them, because there is no later. */
  takeAll(): T[] {
    const all = [...this.told.keys()];
    this.told.clear();
    return all;
  }
}
