import type { Logger } from '../model/logger.js';
import type { NewMessage } from '../storage/messaging.js';
import type { Storage } from '../storage/storage.js';
import { Batcher } from './batcher.js';

/** After so long without a send the next one is taken for one that is waited for, and not for one of a stream of them. */
const quietMs = 3;

/** Messages that are sent together: all of them or none. */
interface Together {
  readonly messages: readonly NewMessage[];
  /** Nobody else sends a message under one of these IDs. */
  readonly ownIds: boolean;
}

/** Messages from outside workflows, by group commit. One statement at a time: what is sent first arrives first. */
export class Sends {
  private readonly batcher: Batcher<Together, boolean>;
  private lastAt = Number.NEGATIVE_INFINITY;

  constructor(storage: Storage, logger: Logger) {
    this.batcher = new Batcher(
      {
        name: 'messages',
        // Of several the first: what is sent to their other recipients may pass them while somebody holds them up.
        key: ({ messages: [first] }) => first?.destination ?? '',
        write: async (items, impatient) => {
          const early = performance.now() - this.lastAt > quietMs && isAlone(items);
          const results = await write(impatient ? storage.impatient : storage, items, early);
          this.lastAt = performance.now();
          return results;
        },
        weigh: ({ messages }) => messages.reduce((sum, { value }) => sum + value.length + 200, 0),
      },
      { logger, classify: (error) => storage.classify(error) },
    );
  }

  /** Resolves when the messages are durable; with false if a recipient does not exist, and then none of them is. */
  send(together: Together): Promise<boolean> {
    return this.batcher.submit(together);
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
async function write(
  { messages }: Pick<Storage, 'messages'>,
  items: readonly Together[],
  early: boolean,
): Promise<boolean[]> {
  const results: boolean[] = [];
  for (let i = 0; i < items.length; ) {
    const singles = takeSingles(items, i);
    if (singles.length === 0) results.push(await messages.sendAll(items[i]?.messages ?? []));
    else {
      const stored = await (early ? messages.sendEarly(singles) : messages.send(singles));
      results.push(...singles.map(({ messageId }) => stored.has(messageId)));
    }
    i = results.length;
  }
  return results;
}

/**
 * One that nothing else is sent with may arrive early, which costs a statement more. Not one with a key: a second sender,
 * who finds it there, would take it for durable while it is not.
 */
function isAlone([first, second]: readonly Together[]): boolean {
  return first !== undefined && second === undefined && first.ownIds;
}

function takeSingles(items: readonly Together[], from: number): NewMessage[] {
  const end = items.findIndex((item, i) => i >= from && item.messages.length > 1);
  return items.slice(from, end === -1 ? items.length : end).flatMap(({ messages }) => messages);
}
