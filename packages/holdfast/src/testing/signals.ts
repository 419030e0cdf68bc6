import { whileWaiting } from '../engine/api/context.js';

/** Named signals between the code under test and the test, in the place of sleeps. */
export class Signals {
  private readonly counts = new Map<string, number>();
  private readonly waiters = new Set<{ name: string; count: number; resolve: () => void }>();

  /** Called by the code under test: this point has been reached. */
  emit(name: string): void {
    const count = this.count(name) + 1;
    this.counts.set(name, count);
    for (const waiter of this.waiters) {
      if (waiter.name !== name || waiter.count > count) continue;
      this.waiters.delete(waiter);
      waiter.resolve();
    }
  }

  count(name: string): number {
    return this.counts.get(name) ?? 0;
  }

  /**
   * Resolves when the signal has been given that many times, counted from the beginning. A virtual clock does not wait for
   * a step that waits for a signal: the test is about to give it.
   */
  wait(name: string, count = 1): Promise<void> {
    if (this.count(name) >= count) return Promise.resolve();
    return whileWaiting(new Promise<void>((resolve) => this.waiters.add({ name, count, resolve })));
  }
}
