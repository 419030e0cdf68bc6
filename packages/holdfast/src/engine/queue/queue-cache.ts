import { HoldfastError } from '../../model/errors.js';
import { internalQueue, releasesSlots } from '../../model/queues.js';
import { didYouMean } from '../../model/suggest.js';
import type { QueueRecord } from '../../storage/contract/queues.js';
import type { Storage } from '../../storage/contract/storage.js';

/** The queues of the database as this process last read them. All code that reads queues updates the cache. */
export class QueueCache {
  private queues = new Map<string, QueueRecord>();
  private readAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly storage: Storage) {}

  update(queues: readonly QueueRecord[]): void {
    this.queues = new Map(queues.map((queue) => [queue.name, queue]));
    this.readAt = performance.now();
  }

  /** Stores one queue that was just read. */
  put(queue: QueueRecord): void {
    this.queues.set(queue.name, queue);
  }

  get(name: string): QueueRecord | undefined {
    return this.queues.get(name);
  }

  /** True if a workflow of this queue frees its slot while it is suspended. */
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

  /**
   * Returns the queue to enqueue on. Throws a typed error that suggests a similar name if the queue does not exist.
   */
  async require(name: string, refresh = () => this.refresh()): Promise<QueueRecord> {
    if (!this.queues.has(name) || performance.now() - this.readAt > maxAgeMs) await refresh();
    const found = this.queues.get(name);
    if (found) return found;
    throw unknownQueue(name, this.names());
  }
}

/**
 * Maximum age of the cache. A process that works on queues reads them often anyway, so the limit matters only for a
 * process that only enqueues.
 */
const maxAgeMs = 5_000;

export function unknownQueue(name: string, known: readonly string[]): HoldfastError {
  return new HoldfastError(
    'UNKNOWN_QUEUE',
    `There is no queue "${name}".${didYouMean(name, known)} Give it to launch({ queues: [...] }), or register it ` +
      'with app.queues.register().',
    { details: { name, known: known.filter((each) => each !== internalQueue) } },
  );
}
