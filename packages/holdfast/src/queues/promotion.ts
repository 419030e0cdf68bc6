import type { Engine } from '../engine/engine.js';
import type { Retried } from '../engine/write/outage-log.js';
import type { Timer } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import { internalQueue } from '../model/queues.js';
import { delayOf, placeAmong } from './places.js';

const pageSize = 1000;
/** How long a due workflow that another session has locked is left alone. */
const heldMs = 1_000;

/**
 * Makes DELAYED workflows ENQUEUED when their time has come. Every process knows the instant; a hash of it decides who goes
 * first, and that process tells the others what is due next. The others go later, unless they were told.
 */
export class Promotion {
  private timer: { readonly due: number; readonly timer: Timer } | undefined;
  private running: Promise<void> | undefined;
  /** The last look in vain: when that was, and which due instant led to it. */
  private inVain = { at: Number.NEGATIVE_INFINITY, due: Number.NEGATIVE_INFINITY };
  /** Everything due by then is promoted, and the others are yet to be told. */
  private promotedUpTo: number | undefined;
  private stopped = false;

  constructor(
    private readonly engine: Engine,
    /** Reads when the next workflow is due. */
    private readonly readNext: () => void,
  ) {}

  /** What this process has read. */
  nextIs(due: number | null): void {
    this.arm(due);
    if (this.promotedUpTo === undefined) return;
    this.engine.news.tellDue({ upTo: this.promotedUpTo, next: due });
    this.promotedUpTo = undefined;
  }

  /** What another process has promoted. This one may know of something that is due sooner than the next. */
  wasDone({ upTo, next }: { readonly upTo: number; readonly next: number | null }): void {
    const known = this.timer?.due;
    if (known === undefined || known <= upTo) this.arm(next);
    else if (next !== null && next < known) this.arm(next);
  }

  /** The database has gone back in time: what was promoted may be DELAYED again. */
  forget(): void {
    this.inVain.due = Number.NEGATIVE_INFINITY;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.timer?.timer.cancel();
    await this.running;
  }

  private arm(due: number | null): void {
    if (this.stopped) return;
    // What was looked for then, and still is due, another session has locked: to try at once, and again at once, would fail too.
    // What was due later may have been committed only after that look, however late it is by now.
    const at = due !== null && due <= this.inVain.due ? this.inVain.at + heldMs : due;
    if (at === this.timer?.due) return;
    this.timer?.timer.cancel();
    this.timer = undefined;
    if (at === null) return;
    const timer = this.engine.clock.at(at, () => this.isDue(at));
    this.timer = { due: at, timer };
  }

  private isDue(due: number): void {
    const place = placeAmong(this.engine, due % 2 ** 32, this.engine.peersOn(internalQueue));
    if (place === 0) {
      this.begin(due);
      return;
    }
    const { clock } = this.engine;
    const timer = clock.at(clock.now() + delayOf(place - 1), () => this.begin(due), 'background');
    this.timer = { due, timer };
  }

  private begin(due: number): void {
    this.timer = undefined;
    this.running = this.promote(due)
      // After a failure the poll sets the next try.
      .then(() => this.readNext())
      .catch((error) => {
        const message = `Delayed workflows could not be enqueued, next try soon: ${describeError(error)}`;
        this.engine.logger.warn(message, { retriedAfter: error } satisfies Retried);
      });
  }

  private async promote(due: number): Promise<void> {
    const { storage, clock, news } = this.engine;
    for (;;) {
      const now = clock.now();
      const queues = await storage.workflows.promoteDue({ now, limit: pageSize });
      if (queues.length === 0) this.inVain = { at: now, due: Math.min(now, due) };
      else this.promotedUpTo = now;
      for (const [name, count] of countEach(queues)) news.announce(`queue:${name}`, count);
      if (queues.length < pageSize) return;
    }
  }
}

function countEach(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
