import type { Clock, Timer } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import type { Logger } from '../model/logger.js';
import type { Retried } from './write/outage-log.js';

export interface LoopOptions {
  readonly name: string;
  /** The pace, or how to find it anew each time; without one it runs only when woken. */
  readonly everyMs?: number | (() => number);
  readonly clock: Clock;
  readonly logger: Logger;
  runOnce(): Promise<void>;
}

/** The shape of every background service: `runOnce` at a steady pace, or at once when woken; never two at a time. */
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

  /** Does not go on by itself any more, until it is started again. */
  pause(): void {
    if (this.state === 'running') this.state = 'paused';
    this.timer?.cancel();
  }

  /** For good. Resolves when the run under way, if any, has ended. */
  async stop(): Promise<void> {
    this.state = 'stopped';
    this.timer?.cancel();
    await this.current;
  }

  /** Does not wait for the next turn. */
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

  /** Resolves when the run under way, if any, has ended. */
  async settled(): Promise<void> {
    await this.current;
  }

  private schedule(): void {
    const { clock, everyMs: pace } = this.options;
    if (pace === undefined) return;
    const everyMs = typeof pace === 'number' ? pace : pace();
    this.timer = clock.at(clock.now() + everyMs, () => this.tick(), 'background');
  }

  private tick(): void {
    this.timer?.cancel();
    this.current = this.options
      .runOnce()
      .catch((error) => {
        const message = `${this.options.name} failed, next try soon: ${describeError(error)}`;
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
