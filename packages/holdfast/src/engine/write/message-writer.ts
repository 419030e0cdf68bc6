import type { Logger } from '../../model/logger.js';
import type { NewMessage } from '../../storage/contract/messaging.js';
import type { Storage } from '../../storage/contract/storage.js';
import { InboxCapacity } from '../wait/inbox-capacity.js';
import { Batcher } from './batcher.js';

/** Messages that are sent together: all of them or none. */
type Together = readonly NewMessage[];

/** Messages from outside workflows, by group commit. One statement at a time: what is sent first arrives first. */
export class MessageWriter {
  private readonly batcher: Batcher<Together, boolean>;
  readonly room = new InboxCapacity();

  constructor(storage: Storage, logger: Logger) {
    this.batcher = new Batcher(
      {
        name: 'messages',
        failsFast: () => true,
        // Of several the first: what is sent to their other recipients may pass them while somebody holds them up.
        key: ([first]) => first?.destination ?? '',
        write: (items, impatient) => write(impatient ? storage.impatient : storage, items),
        weigh: (item) => item.reduce((sum, { value }) => sum + value.length + 200, 0),
      },
      { logger, classify: (error) => storage.classify(error) },
    );
  }

  /** Resolves when the messages are durable; with false if a recipient does not exist, and then none of them is. */
  send(messages: Together): Promise<boolean> {
    return this.batcher.submit(messages);
  }

  get isIdle(): boolean {
    return this.batcher.isIdle;
  }

  idle(): Promise<void> {
    return this.batcher.idle();
  }

  close(error?: Error): void {
    this.batcher.close(error);
  }
}

/**
 * Single ones share a statement with those beside them, several together have one of their own, in the order of the
 * calls. To store one a second time, after a failure in between, changes nothing.
 */
async function write({ messages }: Pick<Storage, 'messages'>, items: readonly Together[]): Promise<boolean[]> {
  const results: boolean[] = [];
  for (let i = 0; i < items.length; ) {
    const singles = takeSingles(items, i);
    if (singles.length === 0) results.push(await messages.sendAll(items[i] as Together));
    else {
      const stored = await messages.send(singles);
      results.push(...singles.map(({ messageId }) => stored.has(messageId)));
    }
    i = results.length;
  }
  return results;
}

function takeSingles(items: readonly Together[], from: number): NewMessage[] {
  const end = items.findIndex((item, i) => i >= from && item.length > 1);
  return items.slice(from, end === -1 ? items.length : end).flat();
}
