import type { Engine } from '../engine/engine.js';
import type { Retried } from '../engine/write/outage-log.js';
import type { Timer } from '../model/clock.js';
import { describeError } from '../model/errors.js';
import { internalQueue } from '../model/queues.js';
import type { Fleet } from './fleet.js';
import { delayOfPlace, rankAmong } from './places.js';

const pageSize = 1000;
/** Delay before retrying a due workflow that another session has locked. */
const lockedRetryMs = 1_000;

/**
 * Makes DELAYED workflows ENQUEUED when their delay ends. Every process knows the next due instant, and a hash of the
 * instant decides which process promotes first. That process then announces what is due next. The other processes
 * promote a little later, unless they receive this announcement.
 */
export class Promotion {
  private timer: { readonly due: number; readonly timer: Timer } | undefined;
  private running: Promise<void> | undefined;
  /** The last statement that promoted nothing: when it ran, and for which due instant. */
  private lastEmpty = { at: Number.NEGATIVE_INFINITY, due: Number.NEGATIVE_INFINITY };
  /** This process has promoted everything due up to this instant, and has not announced that yet. */
  private promotedUpTo: number | undefined;
  private stopped = false;

  constructor(
    private readonly engine: Engine,
    private readonly fleet: Fleet,
    /** Starts a query for the next due instant, which ends with a call of `nextIs`. */
    private readonly readNext: () => void,
  ) {}

  /** Takes the next due instant, as this process has read it from the database. */
  setNextDue(due: number | null): void {
    this.arm(due);
    if (this.promotedUpTo === undefined) return;
    this.engine.news.announceDue({ upTo: this.promotedUpTo, next: due });
    this.promotedUpTo = undefined;
  }

  /** Handles the announcement of another process. This process may know of a workflow that is due before `next`. */
  handleAnnouncement({ upTo, next }: { readonly upTo: number; readonly next: number | null }): void {
    const known = this.timer?.due;
    if (known === undefined || known <= upTo) this.arm(next);
    else if (next !== null && next < known) this.arm(next);
  }

  /** Called after the database was restored from a backup: promoted workflows may be DELAYED again. */
  resetAfterRestore(): void {
    this.lastEmpty.due = Number.NEGATIVE_INFINITY;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.timer?.timer.cancel();
    await this.running;
  }

  private arm(due: number | null): void {
    if (this.stopped) return;
    // If a workflow is still due after a statement that promoted nothing, another session has locked its row. Retrying
    // at once would fail again. A workflow with a later due instant may have been committed only after that statement.
    const at = due !== null && due <= this.lastEmpty.due ? this.lastEmpty.at + lockedRetryMs : due;
    if (at === this.timer?.due) return;
    this.timer?.timer.cancel();
    this.timer = undefined;
    if (at === null) return;
    const timer = this.engine.clock.at(at, () => this.onDue(at));
    this.timer = { due: at, timer };
  }

  private onDue(due: number): void {
    const place = rankAmong(this.engine, due % 2 ** 32, this.fleet.peersOn(internalQueue));
    if (place === 0) {
      this.begin(due);
      return;
    }
    const { clock } = this.engine;
    const timer = clock.at(clock.now() + delayOfPlace(place - 1), () => this.begin(due), 'background');
    this.timer = { due, timer };
  }

  private begin(due: number): void {
    this.timer = undefined;
    this.running = this.promote(due)
      // After a failure, the next poll of the dispatcher calls `nextIs`, which sets the timer again.
      .then(() => this.readNext())
      .catch((error) => {
        const message = `Delayed workflows could not be enqueued, and are tried again: ${describeError(error)}`;
        this.engine.logger.warn(message, { retriedAfter: error } satisfies Retried);
      });
  }

  private async promote(due: number): Promise<void> {
    const { storage, clock, news } = this.engine;
    for (;;) {
      const now = clock.now();
      const queues = await storage.queues.promoteDue({ now, limit: pageSize });
      if (queues.length === 0) this.lastEmpty = { at: now, due: Math.min(now, due) };
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
