import type { Execution } from '../engine/execution/execution.js';
import type { Watcher } from '../engine/wait/watch.js';
import { type InboxQuestion, watchKey } from '../engine/wait/watches.js';
import { processWide } from '../model/process-wide.js';
import type { WaitingMessage } from '../storage/contract/messaging.js';
import { type Awaited, Looks, restBy } from './wait-for.js';

/**
 * The messages of one topic for one execution. Whoever receives first gets the first message.
 *
 * **Invariant:** a message is given out once. It counts as taken from then until a look that began after its consumption
 * was committed has been answered: an earlier look may still show it.
 */
class Inbox implements Watcher<InboxQuestion, readonly WaitingMessage[]> {
  private readonly receivers = new Set<Receiver>();
  /** Messages that were given out, by ID: whether their consumption is committed. */
  private readonly taken = new Map<string, boolean>();
  /** Those of them that the look under way cannot show any more. */
  private gone: readonly string[] = [];
  private readonly looks = new Looks();
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
    const lookedNow = (): Promise<boolean> => {
      if (!this.receivers.has(receiver)) return Promise.resolve(true);
      const looked = this.looks.next(receiver);
      messages.look(this);
      return looked;
    };
    const { workflowId } = this.execution;
    const rest = restBy(
      messages,
      [watchKey(workflowId, this.topic)],
      { workflowId, topic: this.topic, most: 1 },
      anyMessage,
    );
    return { found, lookedNow, forget: () => this.leave(receiver), rest };
  }

  /** The consumption of a message is committed. */
  consumed(messageId: string): void {
    if (this.taken.has(messageId)) this.taken.set(messageId, true);
  }

  question(): InboxQuestion {
    this.looks.begin();
    this.gone = [...this.taken].filter(([, committed]) => committed).map(([id]) => id);
    const most = this.receivers.size + this.taken.size - this.gone.length;
    return { workflowId: this.execution.workflowId, topic: this.topic, most };
  }

  answered(messages: readonly WaitingMessage[]): void {
    const free = messages.filter(({ messageId }) => !this.taken.has(messageId));
    for (const id of this.gone) this.taken.delete(id);
    for (const [i, receiver] of [...this.receivers].entries()) {
      const message = free[i];
      if (!message) break;
      this.taken.set(message.messageId, false);
      this.leave(receiver);
      receiver.resolve(message);
    }
    this.looks.end((who) => !this.receivers.has(who as Receiver));
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

/** The inbox of an execution for a topic: another execution of the same workflow has its own. */
export function inboxOf(execution: Execution, topic: string): Inbox {
  const own = inboxes.get(execution) ?? new Map<string, Inbox>();
  inboxes.set(execution, own);
  const inbox = own.get(topic) ?? new Inbox(execution, topic);
  own.set(topic, inbox);
  return inbox;
}
