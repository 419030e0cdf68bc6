import { HoldfastError } from '../../model/errors.js';
import { internalQueue, releasesSlots } from '../../model/queues.js';
import { didYouMean } from '../../model/suggest.js';
import type { QueueRecord } from '../../storage/contract/queues.js';
import type { Storage } from '../../storage/contract/storage.js';

/** What this process knows of the queues of the database. Whoever reads them anew brings it up to date. */
export class QueueCache {
  private queues = new Map<string, QueueRecord>();
  private readAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly storage: Storage) {}

  update(queues: readonly QueueRecord[]): void {
    this.queues = new Map(queues.map((queue) => [queue.name, queue]));
    this.readAt = performance.now();
  }

  /** One queue as it was just read. */
  put(queue: QueueRecord): void {
    this.queues.set(queue.name, queue);
  }

  get(name: string): QueueRecord | undefined {
    return this.queues.get(name);
  }

  /** Whether a workflow of this queue gives its slot back when it is let go of. */
  releasesSlots(name: string | null): boolean {
    const queue = name === null ? undefined : this.queues.get(name);
    return queue !== undefined && releasesSlots(queue.settings);
  }

  names(): string[] {
    return [...this.queues.keys()];
  }

  async refresh(): Promise<void> {
    this.update(await this.storage.queues.list());
  }

  /** The queue to enqueue on, or a typed error that names the one that was probably meant. */
  async require(name: string, refresh = () => this.refresh()): Promise<QueueRecord> {
    if (!this.queues.has(name) || performance.now() - this.readAt > freshMs) await refresh();
    const found = this.queues.get(name);
    if (found) return found;
    throw unknownQueue(name, this.names());
  }
}

/** A process that works on queues reads them all the time; one that only enqueues reads them this often. */
const freshMs = 5_000;

export function unknownQueue(name: string, known: readonly string[]): HoldfastError {
  return new HoldfastError(
    'UNKNOWN_QUEUE',
    `There is no queue "${name}".${didYouMean(name, known)} Give it to launch({ queues: [...] }), or register it ` +
      'with app.queues.register().',
    { details: { name, known: known.filter((each) => each !== internalQueue) } },
  );
}
