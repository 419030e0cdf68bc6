import type { Logger } from '../model/logger.js';
import type { NewMessage } from '../storage/messaging.js';
import type { Storage } from '../storage/storage.js';
import { Batcher } from './batcher.js';

/** Messages from outside workflows, by group commit. One statement at a time: what is sent first arrives first. */
export class Sends {
  private readonly batcher: Batcher<NewMessage, boolean>;

  constructor(storage: Storage, logger: Logger) {
    this.batcher = new Batcher(
      {
        name: 'messages',
        write: async (rows) => {
          const stored = await storage.messages.send(rows);
          return rows.map((row) => stored.has(row.messageId));
        },
        weigh: (row) => row.value.length + 200,
      },
      { logger, classify: (error) => storage.classify(error) },
    );
  }

  /** Resolves when the message is durable; with false if its recipient does not exist. */
  send(message: NewMessage): Promise<boolean> {
    return this.batcher.submit(message);
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
