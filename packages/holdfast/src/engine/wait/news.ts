import { describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import type { Channels, Listening, Presence } from '../../storage/contract/listening.js';
import type { Storage } from '../../storage/contract/storage.js';
import { splitNote } from '../../storage/contract/topic-notes.js';
import { runOutsideScope } from '../execution/scope-storage.js';
import { minGapMs, OutgoingNews } from './outgoing-news.js';
import { type DueNews, queueOf, readSignal, type WorkAnswer, type WorkCall, WorkSignals } from './work-signals.js';

/**
 * The subject of a notification:
 *
 * - `queue:<name>`: the queue has new work, or a free slot.
 * - `queues`: the settings of queues have changed, or the latest version.
 * - `delays`: a DELAYED workflow has a new instant.
 * - `schedules`: a schedule has changed.
 * - `cancelled`, `deleted`: a workflow was cancelled or deleted.
 * - `ended`: a workflow of a queue has ended, and another process may wait for it.
 * - `takeover`: workflows were taken over from an executor, which may be alive.
 * - `executors`: an executor has joined.
 * - `message:`, `event:`, `stream:` with a key (`watchKey`): there is a new message, event or stream value.
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

const maxPauseMs = 100;

/** How long an answer to a call waits, so that another announcement can carry it. */
const answerMs = 15;

/** Receives the notifications about work on queues that carry a token (work-signals.ts). */
export interface WorkListener {
  /**
   * Reports new work of this process. True: this process claims first, and calls other processes itself if necessary.
   */
  claimsFirst(queueName: string, count: number): boolean;
  called(call: WorkCall): void;
  answered(answer: WorkAnswer): void;
  /** Another process has promoted DELAYED workflows. */
  promoted(due: DueNews): void;
}

/**
 * Notifications within an app and between processes. A notification only makes its receivers query earlier. A lost
 * notification costs time, never correctness.
 */
export class News {
  private readonly listeners = new Set<(topic: Topic | null) => void>();
  private readonly openListeners = new Set<(channels: readonly string[]) => void>();
  private readonly outgoing = new OutgoingNews<Topic>();
  private readonly work = new WorkSignals();
  private answerTimer: NodeJS.Timeout | undefined;
  private worker: WorkListener | undefined;
  private sending: Promise<void> | undefined;
  private listening: Listening | undefined;
  private stopped = false;
  private endPause = (): void => {};
  /** True if notifications of other processes arrive at the moment. */
  isListening = false;

  constructor(
    private readonly storage: Storage,
    private readonly logger: Logger,
  ) {}

  /** Adds a listener for notifications of this process and others. The topic null means: anything may have changed. */
  subscribe(listener: (topic: Topic | null) => void): void {
    this.listeners.add(listener);
  }

  /** Gives announcements of work to the part of the app that works on queues. */
  serveWork(worker: WorkListener): void {
    this.worker = worker;
  }

  /** Adds a listener for channels that have been opened because a waiter in this process follows them. */
  onOpened(listener: (channels: readonly string[]) => void): void {
    this.openListeners.add(listener);
  }

  /**
   * The channels for notifications about messages, events and streams. Undefined: all notifications arrive, or none.
   */
  get channels(): Channels | undefined {
    return this.listening?.channels;
  }

  /**
   * Starts listening for notifications and takes the presence lock. Resolves when both work, or are impossible now.
   */
  async start(presence?: Presence): Promise<void> {
    this.listening = this.storage.listen({
      received: (topics) => {
        if (topics === null) this.deliver(null);
        else for (const topic of topics) this.receive(topic);
      },
      state: (listening) => {
        this.isListening = listening;
      },
      opened: (channels) => {
        if (this.stopped) return;
        runOutsideScope(() => {
          for (const listener of this.openListeners) listener(channels);
        });
      },
      presence,
    });
    await this.listening.ready;
  }

  /** Notifies the app now, and other processes soon. `count` is the number of new workflows of a queue. */
  announce(topic: Topic, count = 1): void {
    const queueName = queueOf(topic);
    if (queueName !== undefined && !this.stopped && runOutsideScope(() => this.worker?.claimsFirst(queueName, count)))
      return;
    this.deliver(topic);
    this.announceToOthers(topic, count);
  }

  /** True if every new message is announced, whichever program sends it. */
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

  /** Calls other processes because work waits. They use the token to choose which of them claim. */
  call(call: WorkCall): void {
    if (this.stopped) return;
    this.work.call(call);
    this.sendSoon();
  }

  /**
   * Notifies other processes that a call needs no more claims. Sent with the next announcement, or soon on its own.
   */
  answer(answer: WorkAnswer): void {
    if (this.stopped) return;
    this.work.answer(answer);
    this.answerTimer ??= runOutsideScope(() => setTimeout(() => this.sendSoon(), answerMs).unref());
  }

  /** Announces which DELAYED workflows were promoted, and when the next one is due. */
  announceDue(due: DueNews): void {
    if (this.stopped) return;
    this.work.due = due;
    this.sendSoon();
  }

  private sendSoon(): void {
    this.sending ??= runOutsideScope(() => this.send()).finally(() => {
      this.sending = undefined;
    });
  }

  /** Stops listening, after all open announcements are sent. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.answerTimer);
    this.endPause();
    await Promise.all([this.listening?.stop(), this.sending]);
  }

  /** Stops like a crash: nothing more is announced. */
  async abandon(): Promise<void> {
    this.outgoing.clear();
    this.work.clear();
    await this.stop();
  }

  private async send(): Promise<void> {
    // The first announcement contains all topics of this event loop turn.
    await new Promise((resolve) => setImmediate(resolve));
    // Announcements are sent one at a time, with pauses. Topics that are added meanwhile wait for the next one.
    while (!this.outgoing.isEmpty || !this.work.isEmpty) {
      const startedAt = performance.now();
      await this.sendDue();
      // A busy server takes longer for an announcement, and gets fewer of them.
      if (!this.stopped) await this.pause(pauseAfter(performance.now() - startedAt));
    }
  }

  private async sendDue(): Promise<void> {
    const due = this.stopped ? this.outgoing.takeAll() : this.outgoing.takeDue(performance.now());
    const topics = [...due, ...this.work.drain()];
    if (topics.length === 0) return;
    clearTimeout(this.answerTimer);
    this.answerTimer = undefined;
    await this.storage
      .announce(topics)
      .catch((error) => this.logger.debug(`Other processes could not be notified: ${describeError(error)}`));
  }

  /**
   * Pauses until the time is over, or until `stop`. The shutdown waits for this pause, and the unreferenced timer does
   * not keep the process alive, so `stop` must end the pause.
   */
  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.endPause = resolve;
      setTimeout(resolve, ms).unref();
    });
  }

  private receive(topic: string): void {
    const signal = topic.includes('\n') ? readSignal(topic) : undefined;
    const topicOnly = splitNote(topic).topic;
    // Later releases may send notes that this release does not know, also without a topic.
    if (!signal && topicOnly !== '') this.deliver(topicOnly as Topic);
    const { worker } = this;
    if (!signal || !worker || this.stopped) return;
    runOutsideScope(() => {
      for (const call of signal.calls) worker.called(call);
      if (signal.answer) worker.answered(signal.answer);
      if (signal.due) worker.promoted(signal.due);
    });
  }

  private deliver(topic: Topic | null): void {
    if (this.stopped) return;
    // The caller may be code of a workflow, but the listeners must run outside of its scope.
    runOutsideScope(() => {
      for (const listener of this.listeners) listener(topic);
    });
  }
}

function pauseAfter(tookMs: number): number {
  return Math.min(Math.max(minGapMs, 3 * tookMs), maxPauseMs);
}
