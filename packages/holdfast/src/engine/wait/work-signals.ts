import { splitNote, withNote } from '../../storage/contract/topic-notes.js';

/**
 * What processes tell each other about work on queues. A call says that work waits; those who hear it choose among
 * themselves who looks, by its token (queues/work-calls.ts). An answer says that nobody needs to look for it any more.
 */
export interface WorkCall {
  readonly queueName: string;
  /** Random, the same for everybody who hears the call. */
  readonly token: number;
  /** How many processes are to look at once. */
  readonly wanted: number;
  /** The incarnation of the executor that calls and is not to be counted on: it has looked, or cannot take. */
  readonly caller: string;
}

export interface WorkAnswer {
  readonly queueName: string;
  readonly token: number;
  /** The application and version of those who answer: nobody else can tell what is left for them. */
  readonly group: string;
  /** How many workflows were taken; null: nothing is left to take at the moment. */
  readonly taken: number | null;
}

/** What was promoted, and when the next DELAYED workflow is due. */
export interface DueNews {
  readonly upTo: number;
  readonly next: number | null;
}

const queuePrefix = 'queue:';

/** The queue that a topic is about. */
export function queueOf(topic: string | null): string | undefined {
  return topic?.startsWith(queuePrefix) ? topic.slice(queuePrefix.length) : undefined;
}

export function newToken(): number {
  return Math.floor(Math.random() * 2 ** 32);
}

/** The topic with a call to one process, if it is about a queue. */
export function asCall(topic: string): string {
  return queueOf(topic) === undefined ? topic : withNote(topic, JSON.stringify([[newToken(), 1, '']]));
}

/** Calls and answers that are yet to be sent. */
export class WorkSignals {
  /** How many workflows were announced on a queue by those who leave the token to us. */
  private readonly plain = new Map<string, number>();
  private readonly calls = new Map<string, Map<number, WorkCall>>();
  private readonly answers = new Map<string, WorkAnswer>();

  /** The latest of its kind. */
  due: DueNews | undefined;

  get isEmpty(): boolean {
    return this.plain.size + this.calls.size + this.answers.size === 0 && !this.due;
  }

  /** So many more workflows wait on the queue. */
  count(queueName: string, count: number): void {
    this.plain.set(queueName, (this.plain.get(queueName) ?? 0) + count);
  }

  call(call: WorkCall): void {
    const ofQueue = this.calls.get(call.queueName) ?? new Map<number, WorkCall>();
    this.calls.set(call.queueName, ofQueue.set(call.token, call));
  }

  answer(answer: WorkAnswer): void {
    const key = `${answer.queueName}\n${answer.token}`;
    const earlier = this.answers.get(key);
    const taken = earlier?.taken === null || answer.taken === null ? null : (earlier?.taken ?? 0) + answer.taken;
    this.answers.set(key, { ...answer, taken });
  }

  clear(): void {
    for (const each of [this.plain, this.calls, this.answers]) each.clear();
    this.due = undefined;
  }

  /** All of them as topics with notes, to be sent now. */
  drain(): string[] {
    for (const [queueName, wanted] of this.plain) this.call({ queueName, token: newToken(), wanted, caller: '' });
    const calls = [...this.calls].map(([queueName, ofQueue]) => {
      const given = [...ofQueue.values()].map(({ token, wanted, caller }) => [token, wanted, caller]);
      return withNote(queuePrefix + queueName, JSON.stringify(given));
    });
    const answers = [...this.answers.values()].map(({ queueName, token, group, taken }) =>
      withNote('', JSON.stringify([queueName, token, group, taken])),
    );
    const due = this.due ? [withNote('', JSON.stringify({ due: this.due }))] : [];
    this.clear();
    return [...calls, ...answers, ...due];
  }
}

/** What a topic with a note says; undefined: nothing that this release knows. */
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
    const [about, token, group, taken] = content;
    return { calls: [], answer: { queueName: about, token, group, taken } };
  } catch {
    return undefined;
  }
}
