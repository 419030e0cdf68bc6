import { currentScope, whileWaiting } from '../engine/api/context.js';
import type { Clock, Timer } from '../model/clock.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';

type Kind = 'work' | 'tick' | 'background';

/** Options of `advance` and `runUntil`. */
export interface MoveOptions {
  /** Moves the clock while steps run, too: for steps that block until a time has come. Default: it waits for them. */
  readonly whileRunning?: boolean;
}

/** How an app is waited for before the clock moves. */
export interface Settling {
  /** Whether steps may be running still. Asked again and again. */
  whileRunning(): boolean;
}

interface Alarm {
  readonly at: number;
  readonly fire: () => void;
  readonly kind: Kind;
  /** A step that waits for the alarm is not at work until then. */
  readonly over: (() => void) | undefined;
}

/**
 * A clock that stands still until a test moves it, so that a 30-day sleep takes no time. Between two alarms it waits
 * until the app has done everything that the first one set off, running steps included: nothing is skipped, only the
 * waiting.
 */
export class VirtualClock implements Clock {
  private readonly alarms = new Set<Alarm>();
  private readonly settlers = new Set<(settling: Settling) => Promise<void>>();
  private current: number;

  constructor(start: Date | number = Date.UTC(2030, 0, 1)) {
    this.current = Number(start);
  }

  now(): number {
    return this.current;
  }

  at(at: number, fire: () => void, kind: Kind = 'work'): Timer {
    // To the millisecond, as a real clock is: the time of an alarm becomes that of records, which hold whole numbers.
    const over = kind === 'work' ? currentScope()?.step?.probed?.wait() : undefined;
    const alarm: Alarm = { at: Math.ceil(at), fire, kind, over };
    this.alarms.add(alarm);
    // An alarm for now or earlier rings by itself, as it would on a real clock.
    if (alarm.at <= this.current) setImmediate(() => this.ring(alarm));
    return { cancel: () => void this.remove(alarm) };
  }

  /** Says how to wait until an app has come to rest. The test app does that; several apps may share one clock. */
  onMove(settle: (settling: Settling) => Promise<void>): () => void {
    this.settlers.add(settle);
    return () => void this.settlers.delete(settle);
  }

  /**
   * Moves the clock on, stopping at every sleep, timeout, retry and tick of a schedule on the way. `advance(0)` moves
   * nothing, and so waits for no step that is running. Nor does it wait for the step that calls it.
   */
  advance(duration: Duration, options: MoveOptions = {}): Promise<void> {
    return whileWaiting(this.advanced(duration, options));
  }

  private async advanced(duration: Duration, options: MoveOptions): Promise<void> {
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
   * Moves the clock from one sleep, timeout or retry to the next until the promise settles. Schedules tick for ever, and
   * are not waited for unless nothing else is ahead: what ticks on the way comes late, perhaps too late.
   */
  runUntil<T>(promise: Promise<T>, options: MoveOptions = {}): Promise<T> {
    return whileWaiting(this.ranUntil(promise, options));
  }

  private async ranUntil<T>(promise: Promise<T>, options: MoveOptions): Promise<T> {
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
      else await this.beat(settling);
    }
  }

  private next(...kinds: Kind[]): number | undefined {
    let earliest: number | undefined;
    for (const alarm of this.alarms) {
      if (kinds.includes(alarm.kind) && (earliest === undefined || alarm.at < earliest)) earliest = alarm.at;
    }
    return earliest;
  }

  /** Only services wait for the clock, perhaps for another process, or a step waits for the test: give them time. */
  private async beat(settling: Settling): Promise<void> {
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
    // A turn of the event loop in any case: with no app left (it crashed), nothing else would let anyone get on.
    const turn = new Promise<void>((resolve) => setImmediate(resolve));
    await Promise.all([turn, ...[...this.settlers].map((settle) => settle(settling))]);
  }

  private ring(alarm: Alarm): void {
    if (this.remove(alarm)) alarm.fire();
  }

  private remove(alarm: Alarm): boolean {
    const isSet = this.alarms.delete(alarm);
    if (isSet) alarm.over?.();
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
