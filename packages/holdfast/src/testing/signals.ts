import { whileWaiting } from '../engine/api/context.js';

/**
 * Named signals between the code under test and the test. Use them instead of sleeps.
 *
 * @example
 * const upload = workflow('upload', () => run('send', async () => test.signals.emit('sending')));
 * await upload.start();
 * await test.signals.wait('sending');
 */
export class Signals {
  private readonly counts = new Map<string, number>();
  private readonly waiters = new Set<{ name: string; count: number; resolve: () => void }>();

  /**
   * Emits a signal, and wakes all that wait for it.
   *
   * @example
   * test.signals.emit('sending');
   */
  emit(name: string): void {
    const count = this.count(name) + 1;
    this.counts.set(name, count);
    for (const waiter of this.waiters) {
      if (waiter.name !== name || waiter.count > count) continue;
      this.waiters.delete(waiter);
      waiter.resolve();
    }
  }

  /** Returns how often a signal was emitted. */
  count(name: string): number {
    return this.counts.get(name) ?? 0;
  }

  /**
   * Resolves when the signal was emitted `count` times since the app started. A virtual clock does not wait for a step
   * that waits for a signal, because the test emits that signal.
   *
   * @example
   * await test.signals.wait('sending', 2);
   */
  wait(name: string, count = 1): Promise<void> {
    if (this.count(name) >= count) return Promise.resolve();
    return whileWaiting(new Promise<void>((resolve) => this.waiters.add({ name, count, resolve })));
  }
}
