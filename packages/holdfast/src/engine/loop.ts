import type { Clock, Timer } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import type { Logger } from '../model/logger.js';
import type { Retried } from './write/outage-log.js';

export interface LoopOptions {
  readonly name: string;
  /** Delay between two runs, or a function that returns the next delay. Without it, the loop runs only when woken. */
  readonly everyMs?: number | (() => number);
  readonly clock: Clock;
  readonly logger: Logger;
  runOnce(): Promise<void>;
}

/** The form of every background service: calls `runOnce` at intervals, or at once when woken. Runs never overlap. */
export class Loop {
  private timer: Timer | undefined;
  private current: Promise<void> | undefined;
  private wokenMeanwhile = false;
  private state: 'running' | 'paused' | 'stopped' = 'paused';

  constructor(private readonly options: LoopOptions) {}

  start(): void {
    if (this.state !== 'paused') return;
    this.state = 'running';
    if (this.current === undefined) this.schedule();
  }

  /** Starts no more runs until `start` is called again. */
  pause(): void {
    if (this.state === 'running') this.state = 'paused';
    this.timer?.cancel();
  }

  /** Stops the loop; it cannot be started again. Resolves when the current run, if any, has ended. */
  async stop(): Promise<void> {
    this.state = 'stopped';
    this.timer?.cancel();
    await this.current;
  }

  /** Runs at once, or directly after the current run, instead of waiting for the interval. */
  wake(): void {
    if (this.state !== 'running') return;
    if (this.current !== undefined) this.wokenMeanwhile = true;
    else this.tick();
  }

  /** Wakes the loop and waits for that run. */
  async runNow(): Promise<void> {
    this.wake();
    await this.current;
  }

  /** Resolves when the current run, if any, has ended. */
  async settled(): Promise<void> {
    await this.current;
  }

  private schedule(): void {
    const { clock, everyMs: interval } = this.options;
    if (interval === undefined) return;
    const everyMs = typeof interval === 'number' ? interval : interval();
    this.timer = clock.at(clock.now() + everyMs, () => this.tick(), 'background');
  }

  private tick(): void {
    this.timer?.cancel();
    this.current = this.options
      .runOnce()
      .catch((error) => {
        const message = `${this.options.name} failed and is tried again soon: ${describeError(error)}`;
        this.options.logger.warn(message, { retriedAfter: error } satisfies Retried);
      })
      .finally(() => {
        this.current = undefined;
        if (this.state !== 'running') return;
        if (this.wokenMeanwhile) {
          this.wokenMeanwhile = false;
          this.tick();
        } else this.schedule();
      });
  }
}
