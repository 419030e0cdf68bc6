import { currentScope, whileWaiting } from '../engine/api/context.js';
import type { Clock, Timer } from '../model/clock.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';

/** The kind of thing that waits for an alarm: a workflow or step, a schedule, or a service. */
type AlarmKind = 'work' | 'tick' | 'background';

/** Options of `advance` and `runUntil`. */
export interface MoveOptions {
  /**
   * True: the clock also moves while steps run. Use it for steps that block until a certain time. Default: it waits
   * for steps.
   */
  readonly whileRunning?: boolean;
}

/** How to wait for an app before the clock moves. */
export interface Settling {
  /** Returns true if the clock may move while steps run. Called repeatedly. */
  whileRunning(): boolean;
}

interface Alarm {
  readonly at: number;
  readonly fire: () => void;
  readonly kind: AlarmKind;
  /** Called when the alarm fires or is cancelled. Until then, a step that waits for the alarm is not at work. */
  readonly ended: (() => void) | undefined;
}

/**
 * A clock that stands still until a test moves it, so a sleep of 30 days takes no time. After each alarm (a sleep,
 * timeout or retry), the clock waits until the app has done all work that the alarm triggered, including steps. The
 * test skips only the waiting time, and no work.
 *
 * @example
 * const test = await testApp({ workflows: [trial], clock: new VirtualClock(new Date('2030-06-01')) });
 * await trial.start();
 * await test.clock.advance('30 days');
 */
export class VirtualClock implements Clock {
  private readonly alarms = new Set<Alarm>();
  private readonly settlers = new Set<(settling: Settling) => Promise<void>>();
  private current: number;

  constructor(start: Date | number = Date.UTC(2030, 0, 1)) {
    this.current = Number(start);
  }

  /** Returns the time of the clock in epoch milliseconds. */
  now(): number {
    return this.current;
  }

  /** Calls `fire` when the clock reaches `at` (epoch milliseconds). */
  at(at: number, fire: () => void, kind: AlarmKind = 'work'): Timer {
    // `at` is rounded up to whole milliseconds: the time of an alarm is stored in rows, which hold whole numbers.
    const ended = kind === 'work' ? currentScope()?.step?.probed?.wait() : undefined;
    const alarm: Alarm = { at: Math.ceil(at), fire, kind, ended };
    this.alarms.add(alarm);
    // An alarm that is already due fires without a move of the clock, as on a real clock.
    if (alarm.at <= this.current) setImmediate(() => this.ring(alarm));
    return { cancel: () => void this.remove(alarm) };
  }

  /**
   * Adds a function that waits until an app is idle. The clock calls it before each move. Test apps call `onMove`
   * themselves, and several apps may share one clock. Returns a function that removes it.
   */
  onMove(settle: (settling: Settling) => Promise<void>): () => void {
    this.settlers.add(settle);
    return () => void this.settlers.delete(settle);
  }

  /**
   * Moves the clock forward. It stops at every sleep, timeout, retry and schedule tick on the way. `advance(0)` does
   * not move the clock: it waits until the app is idle, except for running steps. `advance` never waits for the step
   * that calls it.
   *
   * @example
   * await trial.start();
   * await test.clock.advance('30 days');
   */
  advance(duration: Duration, options: MoveOptions = {}): Promise<void> {
    return whileWaiting(this.moveBy(duration, options));
  }

  private async moveBy(duration: Duration, options: MoveOptions): Promise<void> {
    const moved = parseDuration(duration, 'The argument of advance()');
    const { whileRunning = moved === 0 } = checkMove('advance()', options);
    const settling: Settling = { whileRunning: () => whileRunning };
    const target = this.current + moved;
    await this.settle(settling);
    const next = (): number => this.next('work', 'tick') ?? Number.POSITIVE_INFINITY;
    while (next() <= target) await this.moveTo(next(), settling);
    await this.moveTo(target, settling);
  }

  /**
   * Moves the clock from one sleep, timeout or retry to the next until the promise settles. It does not stop at
   * schedule ticks unless nothing else is pending, because schedules tick forever. So a tick on the way fires late,
   * and may be missed.
   *
   * @example
   * const handle = await trial.start();
   * const result = await test.clock.runUntil(handle.result());
   */
  runUntil<T>(promise: Promise<T>, options: MoveOptions = {}): Promise<T> {
    return whileWaiting(this.moveUntil(promise, options));
  }

  private async moveUntil<T>(promise: Promise<T>, options: MoveOptions): Promise<T> {
    const { whileRunning = false } = checkMove('runUntil()', options);
    const settling: Settling = { whileRunning: () => whileRunning || !pending };
    let pending = true;
    const done = (): void => {
      pending = false;
    };
    promise.then(done, done);
    for (;;) {
      await this.settle(settling);
      if (!pending) return promise;
      const next = this.next('work');
      if (next !== undefined) await this.moveTo(next, settling);
      else await this.moveBackground(settling);
    }
  }

  private next(...kinds: AlarmKind[]): number | undefined {
    let earliest: number | undefined;
    for (const alarm of this.alarms) {
      if (kinds.includes(alarm.kind) && (earliest === undefined || alarm.at < earliest)) earliest = alarm.at;
    }
    return earliest;
  }

  /**
   * Called when no workflow or step waits for the clock. Gives others 1 ms of real time (another process, or the
   * test), then moves to the next alarm of a schedule or service.
   */
  private async moveBackground(settling: Settling): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 1));
    await this.moveTo(this.next('tick') ?? this.next('background') ?? this.current, settling);
  }

  private async moveTo(instant: number, settling: Settling): Promise<void> {
    this.current = Math.max(this.current, instant);
    const due = [...this.alarms].filter((alarm) => alarm.at <= this.current).sort((a, b) => a.at - b.at);
    for (const alarm of due) this.ring(alarm);
    await this.settle(settling);
  }

  private async settle(settling: Settling): Promise<void> {
    // Always waits one event loop turn. Without an app (it crashed), nothing else would let other code run.
    const turn = new Promise<void>((resolve) => setImmediate(resolve));
    await Promise.all([turn, ...[...this.settlers].map((settle) => settle(settling))]);
  }

  private ring(alarm: Alarm): void {
    if (this.remove(alarm)) alarm.fire();
  }

  private remove(alarm: Alarm): boolean {
    const isSet = this.alarms.delete(alarm);
    if (isSet) alarm.ended?.();
    return isSet;
  }
}

function checkMove(what: string, options: MoveOptions): MoveOptions {
  checkKnownOptions(what, options, ['whileRunning']);
  const { whileRunning } = options;
  if (whileRunning !== undefined && typeof whileRunning !== 'boolean') {
    throw invalidOption(what, 'whileRunning', whileRunning, 'true or false');
  }
  return options;
}
