import { describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import type { Storage } from '../../storage/contract/storage.js';
import { splitNote } from '../../storage/contract/topic-notes.js';
import type { Channels, Listening, Presence } from '../../storage/database.js';
import { outside } from '../execution/scope-storage.js';
import { minGapMs, OutgoingNews } from './outgoing-news.js';
import { type DueNews, queueOf, readSignal, type WorkAnswer, type WorkCall, WorkSignals } from './work-signals.js';

/**
 * What happened, for whoever can act on it at once:
 * - `queue:<name>`: work or room on a queue.
 * - `queues`: settings of queues, or which version is the latest. `delays`: a DELAYED workflow has another time.
 * - `schedules`: a schedule was changed. `cancelled`, `deleted`: a workflow was. `ended`: one of a queue has, and perhaps
 *   someone elsewhere waits for it.
 * - `takeover`: work was taken from an executor, which may be alive. `executors`: one has joined.
 * - `message:`, `event:`, `stream:` with a key (`watchKey`): something of that kind has come up.
 */
export type Topic =
  | `queue:${string}`
  | 'queues'
  | 'delays'
  | 'schedules'
  | 'cancelled'
  | 'deleted'
  | 'ended'
  | 'takeover'
  | 'executors'
  | `${'message' | 'event' | 'stream'}:${string}`;

const longestPauseMs = 100;

/** How long an answer to a call waits for another announcement that it can go with. */
const answerMs = 15;

/** Hears of work on queues what comes with a token (work-signals.ts). */
export interface WorkListener {
  /** Work has come up here. True: this process looks for it first, and tells the others itself if it must. */
  looksFirst(queueName: string, count: number): boolean;
  called(call: WorkCall): void;
  answered(answer: WorkAnswer): void;
  /** Another process has promoted DELAYED work. */
  promoted(due: DueNews): void;
}

/**
 * News within an app and between the processes of a fleet. It is only ever a reason to look earlier than one would
 * have: nothing is lost with it but time.
 */
export class News {
  private readonly listeners = new Set<(topic: Topic | null) => void>();
  private readonly openListeners = new Set<(channels: readonly string[]) => void>();
  private readonly outgoing = new OutgoingNews<Topic>();
  private readonly work = new WorkSignals();
  private answering: NodeJS.Timeout | undefined;
  /** The part of the app that works on queues, if it has one. */
  worker: WorkListener | undefined;
  private sending: Promise<void> | undefined;
  private listening: Listening | undefined;
  private stopped = false;
  private endPause = (): void => {};
  /** Whether news of other processes arrives at the moment. */
  isListening = false;

  constructor(
    private readonly storage: Storage,
    private readonly logger: Logger,
  ) {}

  /** For news from here and elsewhere; null: anything may have happened. */
  subscribe(listener: (topic: Topic | null) => void): void {
    this.listeners.add(listener);
  }

  /** For channels that have been opened because somebody here follows them. */
  onOpened(listener: (channels: readonly string[]) => void): void {
    this.openListeners.add(listener);
  }

  /** By which news of messages, events and streams comes to those who follow. Undefined: all of it comes, or none. */
  get channels(): Channels | undefined {
    return this.listening?.channels;
  }

  /** Starts to hear other processes, and to be present to them. Resolves when it does, or cannot at the moment. */
  async start(presence?: Presence): Promise<void> {
    this.listening = this.storage.listen({
      received: (topics) => {
        if (topics === null) this.deliver(null);
        else for (const topic of topics) this.receive(topic);
      },
      state: (hears) => {
        this.isListening = hears;
      },
      opened: (channels) => {
        if (this.stopped) return;
        outside(() => {
          for (const listener of this.openListeners) listener(channels);
        });
      },
      presence,
    });
    await this.listening.ready;
  }

  /** Tells the app now and the other processes soon. `count`: how many workflows have come up on a queue. */
  announce(topic: Topic, count = 1): void {
    const queueName = queueOf(topic);
    if (queueName !== undefined && !this.stopped && outside(() => this.worker?.looksFirst(queueName, count))) return;
    this.deliver(topic);
    this.announceToOthers(topic, count);
  }

  /** Whether a message is announced wherever it comes from. */
  get receivesMessages(): boolean {
    return this.isListening && !this.storage.silentMessages;
  }

  announceToOthers(topic: Topic, count = 1): void {
    if (this.stopped) return;
    const queueName = queueOf(topic);
    if (queueName === undefined) this.outgoing.add(topic);
    else this.work.count(queueName, count);
    this.sendSoon();
  }

  /** Tells the other processes that work waits, with a token by which they choose who looks. */
  call(call: WorkCall): void {
    if (this.stopped) return;
    this.work.call(call);
    this.sendSoon();
  }

  /** Tells them that nobody needs to look for it any more: with the next announcement, or soon by itself. */
  answer(answer: WorkAnswer): void {
    if (this.stopped) return;
    this.work.answer(answer);
    this.answering ??= outside(() => setTimeout(() => this.sendSoon(), answerMs).unref());
  }

  /** Tells them what is due next, after DELAYED work was promoted. */
  tellDue(due: DueNews): void {
    if (this.stopped) return;
    this.work.due = due;
    this.sendSoon();
  }

  private sendSoon(): void {
    this.sending ??= outside(() => this.send()).finally(() => {
      this.sending = undefined;
    });
  }

  /** What is left to announce still goes out. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.answering);
    this.endPause();
    await Promise.all([this.listening?.stop(), this.sending]);
  }

  /** As a crash would: nothing more goes out. */
  async abandon(): Promise<void> {
    this.outgoing.clear();
    this.work.clear();
    await this.stop();
  }

  private async send(): Promise<void> {
    // Everything that this turn of the event loop brings goes with the first one.
    await new Promise((resolve) => setImmediate(resolve));
    // One at a time, and with a pause: what comes up meanwhile goes with the next.
    while (!this.outgoing.isEmpty || !this.work.isEmpty) {
      const began = performance.now();
      await this.sendDue();
      // A server that has much to do takes longer to announce, and is asked to less often.
      if (!this.stopped) await this.pause(pauseAfter(performance.now() - began));
    }
  }

  private async sendDue(): Promise<void> {
    const due = this.stopped ? this.outgoing.takeAll() : this.outgoing.takeDue(performance.now());
    const topics = [...due, ...this.work.drain()];
    if (topics.length === 0) return;
    clearTimeout(this.answering);
    this.answering = undefined;
    await this.storage
      .announce(topics)
      .catch((error) => this.logger.debug(`Other processes could not be told: ${describeError(error)}`));
  }

  /** Ends with the app: by then nothing but its shutdown may keep the process alive, and that waits for this. */
  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.endPause = resolve;
      setTimeout(resolve, ms).unref();
    });
  }

  private receive(topic: string): void {
    const signal = topic.includes('\n') ? readSignal(topic) : undefined;
    const plain = splitNote(topic).topic;
    // A note that only a later release understands may come without a topic.
    if (!signal && plain !== '') this.deliver(plain as Topic);
    const { worker } = this;
    if (!signal || !worker || this.stopped) return;
    outside(() => {
      for (const call of signal.calls) worker.called(call);
      if (signal.answer) worker.answered(signal.answer);
      if (signal.due) worker.promoted(signal.due);
    });
  }

  private deliver(topic: Topic | null): void {
    if (this.stopped) return;
    // Whoever brings the news may be code of a workflow, and those who act on it are not part of that.
    outside(() => {
      for (const listener of this.listeners) listener(topic);
    });
  }
}

function pauseAfter(tookMs: number): number {
  return Math.min(Math.max(minGapMs, 3 * tookMs), longestPauseMs);
}
