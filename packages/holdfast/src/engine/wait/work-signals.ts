import { splitNote, withNote } from '../../storage/contract/topic-notes.js';

/**
 * Notifications between processes about work on queues. A call says that work waits. Its receivers use its token to
 * choose which of them check the queue (queues/work-calls.ts). An answer says that the call needs no more checks.
 */
export interface WorkCall {
  readonly queueName: string;
  /** A random number, equal for all receivers of the call. */
  readonly token: number;
  /** Number of processes that must check the queue at once. */
  readonly wanted: number;
  /**
   * The incarnation of the calling executor. It does not take the work: it has checked the queue, or has no capacity.
   */
  readonly caller: string;
}

export interface WorkAnswer {
  readonly queueName: string;
  readonly token: number;
  /** The application and version of the answering process. Only processes of this group know what is left for them. */
  readonly group: string;
  /** Number of workflows that were taken; null: no workflow is left to take at the moment. */
  readonly taken: number | null;
}

/** The instant up to which DELAYED workflows were promoted, and the instant at which the next one is due. */
export interface DueNews {
  readonly upTo: number;
  readonly next: number | null;
}

const queuePrefix = 'queue:';

/** Returns the name of the queue that a topic concerns. */
export function queueOf(topic: string | null): string | undefined {
  return topic?.startsWith(queuePrefix) ? topic.slice(queuePrefix.length) : undefined;
}

export function newToken(): number {
  return Math.floor(Math.random() * 2 ** 32);
}

/** If the topic concerns a queue, adds a call that asks one process to check the queue. */
export function asCall(topic: string): string {
  return queueOf(topic) === undefined ? topic : withNote(topic, JSON.stringify([[newToken(), 1, '']]));
}

/** Calls and answers that must be sent. */
export class WorkSignals {
  /** Number of new workflows by queue, for announcements without a token. */
  private readonly counts = new Map<string, number>();
  private readonly calls = new Map<string, Map<number, WorkCall>>();
  private readonly answers = new Map<string, WorkAnswer>();

  /** The latest notification about DELAYED workflows. */
  due: DueNews | undefined;

  get isEmpty(): boolean {
    return this.counts.size + this.calls.size + this.answers.size === 0 && !this.due;
  }

  /** Notes that this many more workflows wait on the queue. */
  count(queueName: string, count: number): void {
    this.counts.set(queueName, (this.counts.get(queueName) ?? 0) + count);
  }

  call(call: WorkCall): void {
    const queueCalls = this.calls.get(call.queueName) ?? new Map<number, WorkCall>();
    this.calls.set(call.queueName, queueCalls.set(call.token, call));
  }

  answer(answer: WorkAnswer): void {
    const key = `${answer.queueName}\n${answer.token}`;
    const previous = this.answers.get(key);
    const taken = previous?.taken === null || answer.taken === null ? null : (previous?.taken ?? 0) + answer.taken;
    this.answers.set(key, { ...answer, taken });
  }

  clear(): void {
    for (const each of [this.counts, this.calls, this.answers]) each.clear();
    this.due = undefined;
  }

  /** Removes and returns all signals, as topics with notes. */
  drain(): string[] {
    for (const [queueName, wanted] of this.counts) this.call({ queueName, token: newToken(), wanted, caller: '' });
    const calls = [...this.calls].map(([queueName, queueCalls]) => {
      const entries = [...queueCalls.values()].map(({ token, wanted, caller }) => [token, wanted, caller]);
      return withNote(queuePrefix + queueName, JSON.stringify(entries));
    });
    const answers = [...this.answers.values()].map(({ queueName, token, group, taken }) =>
      withNote('', JSON.stringify([queueName, token, group, taken])),
    );
    const due = this.due ? [withNote('', JSON.stringify({ due: this.due }))] : [];
    this.clear();
    return [...calls, ...answers, ...due];
  }
}

/** Reads the note of a topic. Undefined: this release does not know the note. */
export function readSignal(text: string): { calls: WorkCall[]; answer?: WorkAnswer; due?: DueNews } | undefined {
  const { topic, note } = splitNote(text);
  const queueName = queueOf(topic);
  try {
    const content = JSON.parse(note ?? '');
    if (queueName !== undefined) {
      return { calls: content.map(([token, wanted, caller]: never[]) => ({ queueName, token, wanted, caller })) };
    }
    if (topic !== '') return undefined;
    if (content.due) return { calls: [], due: content.due };
    const [name, token, group, taken] = content;
    return { calls: [], answer: { queueName: name, token, group, taken } };
  } catch {
    return undefined;
  }
}
