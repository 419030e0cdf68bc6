import type { Execution } from '../engine/execution/execution.js';
import type { Watcher } from '../engine/wait/watch.js';
import { type InboxQuestion, watchKey } from '../engine/wait/watches.js';
import { processWide } from '../model/process-wide.js';
import type { WaitingMessage } from '../storage/contract/messaging.js';
import { type Awaited, QueryWaiters, suspendedWatch } from './wait-for.js';

/**
 * The messages of one topic for one execution. The first receiver gets the first message.
 *
 * **Invariant:** a message is delivered to one receiver only. It counts as taken until a query that began after the
 * commit of its consumption has returned, because an earlier query may still return the message.
 */
class Inbox implements Watcher<InboxQuestion, readonly WaitingMessage[]> {
  private readonly receivers = new Set<Receiver>();
  /** The delivered messages by ID. The value is true once the consumption is committed. */
  private readonly taken = new Map<string, boolean>();
  /** The delivered messages that the running query can no longer return. */
  private consumedBeforeQuery: readonly string[] = [];
  private readonly queries = new QueryWaiters();
  private watching: { readonly forget: () => void } | undefined;

  constructor(
    private readonly execution: Execution,
    private readonly topic: string,
  ) {}

  receive(): Awaited<WaitingMessage> {
    let receiver!: Receiver;
    const found = new Promise<WaitingMessage>((resolve, reject) => {
      receiver = { resolve, reject };
    });
    found.catch(() => {});
    const { messages } = this.execution.engine.watches;
    this.receivers.add(receiver);
    this.watching ??= messages.add([watchKey(this.execution.workflowId, this.topic)], this);
    const queryNow = (): Promise<boolean> => {
      if (!this.receivers.has(receiver)) return Promise.resolve(true);
      const isFound = this.queries.next(receiver);
      messages.query(this);
      return isFound;
    };
    const { workflowId } = this.execution;
    const rest = suspendedWatch(
      messages,
      [watchKey(workflowId, this.topic)],
      { workflowId, topic: this.topic, most: 1 },
      anyMessage,
    );
    return { found, queryNow, forget: () => this.leave(receiver), rest };
  }

  /** Notes that the consumption of a message is committed. */
  consumed(messageId: string): void {
    if (this.taken.has(messageId)) this.taken.set(messageId, true);
  }

  question(): InboxQuestion {
    this.queries.begin();
    this.consumedBeforeQuery = [...this.taken].filter(([, committed]) => committed).map(([id]) => id);
    // The query may also return messages that are taken but not yet consumed.
    const most = this.receivers.size + this.taken.size - this.consumedBeforeQuery.length;
    return { workflowId: this.execution.workflowId, topic: this.topic, most };
  }

  answered(messages: readonly WaitingMessage[]): void {
    const free = messages.filter(({ messageId }) => !this.taken.has(messageId));
    for (const id of this.consumedBeforeQuery) this.taken.delete(id);
    for (const [i, receiver] of [...this.receivers].entries()) {
      const message = free[i];
      if (!message) break;
      this.taken.set(message.messageId, false);
      this.leave(receiver);
      receiver.resolve(message);
    }
    this.queries.end((receiver) => !this.receivers.has(receiver as Receiver));
  }

  failed(error: Error): void {
    for (const receiver of this.receivers) receiver.reject(error);
    this.receivers.clear();
  }

  private leave(receiver: Receiver): void {
    this.receivers.delete(receiver);
    if (this.receivers.size > 0) return;
    this.watching?.forget();
    this.watching = undefined;
  }
}

function anyMessage(messages: readonly WaitingMessage[]): { readonly value: true } | undefined {
  return messages.length > 0 ? { value: true } : undefined;
}

interface Receiver {
  resolve(message: WaitingMessage): void;
  reject(error: Error): void;
}

const inboxes = processWide('inboxes', () => new WeakMap<Execution, Map<string, Inbox>>());

/** Returns the inbox of an execution for a topic. Another execution of the same workflow has its own inbox. */
export function inboxOf(execution: Execution, topic: string): Inbox {
  const own = inboxes.get(execution) ?? new Map<string, Inbox>();
  inboxes.set(execution, own);
  const inbox = own.get(topic) ?? new Inbox(execution, topic);
  own.set(topic, inbox);
  return inbox;
}
