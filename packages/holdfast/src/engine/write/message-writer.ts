import type { Logger } from '../../model/logger.js';
import type { NewMessage } from '../../storage/contract/messaging.js';
import type { Storage } from '../../storage/contract/storage.js';
import { InboxCapacity } from '../wait/inbox-capacity.js';
import { Batcher } from './batcher.js';

/** Messages that are sent together: all or none of them. */
type Together = readonly NewMessage[];

/**
 * Sends messages from outside of workflows by group commit. Only one statement runs at a time, so messages keep their
 * order.
 */
export class MessageWriter {
  private readonly batcher: Batcher<Together, boolean>;
  readonly capacity = new InboxCapacity();

  constructor(storage: Storage, logger: Logger) {
    this.batcher = new Batcher(
      {
        name: 'messages',
        failsFast: () => true,
        // The key is the first recipient. While a lock on this recipient delays these messages, later messages to their
        // other recipients may be sent first.
        key: ([first]) => first?.destination ?? '',
        write: (items, impatient) => write(impatient ? storage.impatient : storage, items),
        weigh: (item) => item.reduce((sum, { value }) => sum + value.length + 200, 0),
      },
      { logger, classify: (error) => storage.classify(error) },
    );
  }

  /**
   * Resolves with true when the messages are committed, and with false if a recipient does not exist. In that case no
   * message is sent.
   */
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
 * Sends the items in the order of the calls. Consecutive single messages share a statement; several messages that
 * belong together have their own statement. Sending a message again after a failure changes nothing.
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
