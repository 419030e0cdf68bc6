import type { Clock, Timer } from '../../model/clock.js';
import { closedError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { isUnusable } from '../../storage/contract/failure.js';
import type { Channels } from '../../storage/contract/listening.js';
import { Backoff } from '../write/backoff.js';
import { FollowedChannels } from './followed-channels.js';

/** How often a watch polls for all its watchers, with and without a working listener. */
const pollMs = { listening: 5_000, notListening: 500 };

/** Maximum part of the time that polls for all watchers may take, even if there are many watchers. */
const maxShare = 0.1;

/** Number of questions that one statement answers. */
const pageSize = 500;

/** Describes what the watchers of a watch wait for, and how to query the database for many watchers at once. */
export interface WatchKind<Question, Answer> {
  readonly name: string;
  /** Identifies a question. Equal questions are asked once. */
  identity(question: Question): string;
  /** Returns the answers by the identity of their question. Every question has an answer. */
  query(questions: readonly Question[]): Promise<Map<string, Answer>>;
  /** Returns the topic of the notification that an answer to this question exists. */
  topic(question: Question): string;
  /** True if the answer shows that DBOS will announce the next change. */
  isOfDbos?(answer: Answer): boolean;
}

/** The notifications that a watch receives. */
export interface NotificationSource {
  /** True if every change is announced, and its notification reaches all followers of its channel. */
  areReceived(): boolean;
  channels(): Channels | undefined;
  /** Called once, at the first wait. */
  readonly onFirstWait?: (() => void) | undefined;
}

/** A caller or workflow that waits. */
export interface Watcher<Question, Answer> {
  /** Returns the current question. Called before each query. */
  question(): Question;
  /** Receives the answer to a query. A watcher that needs no more answers calls `forget`. */
  answered(answer: Answer): void;
  failed(error: Error): void;
  /** True for a caller outside of workflows: it fails if a right or table is missing. Other watchers wait. */
  readonly failsFast?: boolean;
}

/**
 * All waits in this process for a message, an event, or more values of a stream. A notification names the key to
 * query. Notifications can be lost, for example if a listener dies without a sign, so the watch also polls for all
 * watchers at intervals. One statement queries for many watchers, and only one statement runs at a time.
 *
 * **Invariant:** a watcher is registered before its first query begins, and a notification that arrives during a query
 * causes another query. Therefore the watch misses no change that is committed after a query began.
 */
export class Watch<Question, Answer> {
  private readonly watchers = new Map<string, Set<Watcher<Question, Answer>>>();
  private readonly all = new Set<Watcher<Question, Answer>>();
  private readonly channels: FollowedChannels<Watcher<Question, Answer>>;
  private readonly due = new Set<Watcher<Question, Answer>>();
  private querying = false;
  private scheduled = false;
  private allDueAt = Number.NEGATIVE_INFINITY;
  private queryingAllSince: number | undefined;
  private timer: Timer | undefined;
  private timerAt = Number.POSITIVE_INFINITY;
  private closed = false;
  private readonly backoff: Backoff;
  private onFirstWait: (() => void) | undefined;

  constructor(
    private readonly kind: WatchKind<Question, Answer>,
    private readonly clock: Clock,
    logger: Logger,
    private readonly notifications: NotificationSource,
  ) {
    this.channels = new FollowedChannels(() => notifications.channels());
    this.backoff = new Backoff(`Polling for ${kind.name}`, logger);
    this.onFirstWait = notifications.onFirstWait;
  }

  /** Waits under these keys until `forget` is called. The first query is made at once. */
  add(keys: readonly string[], watcher: Watcher<Question, Answer>): { readonly forget: () => void } {
    if (this.closed) {
      watcher.failed(closedError());
      return { forget: () => {} };
    }
    for (const key of keys) {
      const watchers = this.watchers.get(key);
      if (watchers) watchers.add(watcher);
      else this.watchers.set(key, new Set([watcher]));
    }
    this.all.add(watcher);
    this.onFirstWait?.();
    this.onFirstWait = undefined;
    this.query(watcher);
    this.schedulePoll();
    return { forget: () => this.remove(keys, watcher) };
  }

  /**
   * Queries for the watchers that waited for these channels to open. Earlier notifications did not reach this
   * process.
   */
  opened(channels: readonly string[]): void {
    for (const channel of channels) for (const watcher of this.channels.opened(channel)) this.query(watcher);
  }

  /** Queries for the watchers of this key, because it may have changed. */
  wake(key: string): void {
    for (const watcher of this.watchers.get(key) ?? []) this.query(watcher);
  }

  /** Queries for all watchers, because anything may have changed. Limited to `maxShare` of the time. */
  wakeAll(): void {
    this.queryAllBy(Math.max(this.clock.now(), this.allDueAt));
  }

  /** Queries for this watcher now. */
  query(watcher: Watcher<Question, Answer>): void {
    this.due.add(watcher);
    this.schedule();
  }

  close(): void {
    this.closed = true;
    this.timer?.cancel();
    const all = [...this.all];
    this.watchers.clear();
    this.all.clear();
    this.due.clear();
    for (const watcher of all) {
      this.channels.forget(watcher);
      watcher.failed(closedError());
    }
  }

  private remove(keys: readonly string[], watcher: Watcher<Question, Answer>): void {
    this.due.delete(watcher);
    this.all.delete(watcher);
    this.channels.forget(watcher);
    for (const key of keys) {
      const watchers = this.watchers.get(key);
      watchers?.delete(watcher);
      if (watchers?.size === 0) this.watchers.delete(key);
    }
  }

  private schedule(): void {
    if (this.scheduled || this.querying || this.closed) return;
    this.scheduled = true;
    // The query waits for the end of the event loop turn, so that one statement answers all questions of this turn.
    setImmediate(() => {
      this.scheduled = false;
      void this.queryDue();
    });
  }

  private async queryDue(): Promise<void> {
    if (this.querying) return;
    this.querying = true;
    while (this.due.size > 0 && !this.closed) {
      const page = [...this.due].slice(0, pageSize);
      for (const watcher of page) this.due.delete(watcher);
      await this.queryPage(page);
    }
    this.querying = false;
    if (this.queryingAllSince !== undefined) {
      this.allDueAt = this.clock.now() + (performance.now() - this.queryingAllSince) / maxShare;
      this.queryingAllSince = undefined;
    }
    this.schedulePoll();
  }

  private async queryPage(watchers: readonly Watcher<Question, Answer>[]): Promise<void> {
    const queries = watchers.map((watcher) => this.prepare(watcher));
    const questions = new Map(queries.map(({ question }) => [this.kind.identity(question), question]));
    try {
      const answers = await this.kind.query([...questions.values()]);
      this.backoff.reset();
      for (const { watcher, question, isCovered } of queries) {
        const answer = answers.get(this.kind.identity(question));
        if (answer === undefined || this.closed) continue;
        watcher.answered(answer);
        if (!this.all.has(watcher)) continue;
        const isOfDbos = this.kind.isOfDbos?.(answer) ?? false;
        if (!this.channels.follow(watcher, this.kind.topic(question), isOfDbos, isCovered)) this.due.add(watcher);
      }
    } catch (error) {
      // Questions consist of IDs only, so every failure is a failure of the database.
      for (const watcher of watchers.filter((each) => this.all.has(each))) {
        if (watcher.failsFast && isUnusable(error)) watcher.failed(error);
        else this.due.add(watcher);
      }
      await this.backoff.pause(error);
    }
  }

  private prepare(watcher: Watcher<Question, Answer>) {
    const question = watcher.question();
    this.channels.join(watcher, this.kind.topic(question));
    return { watcher, question, isCovered: this.channels.covers(watcher) };
  }

  private schedulePoll(): void {
    if (this.all.size === 0) return;
    const everyMs = this.notifications.areReceived() ? pollMs.listening : pollMs.notListening;
    this.queryAllBy(Math.max(this.allDueAt, this.clock.now() + everyMs));
  }

  /** Schedules a poll, unless an earlier poll is already scheduled. */
  private queryAllBy(at: number): void {
    if (this.closed || this.all.size === 0 || (this.timer && this.timerAt <= at)) return;
    this.timer?.cancel();
    this.timerAt = at;
    this.timer = this.clock.at(at, () => this.queryAll(), 'background');
  }

  private queryAll(): void {
    this.timer = undefined;
    this.timerAt = Number.POSITIVE_INFINITY;
    this.queryingAllSince = performance.now();
    for (const watcher of this.all) this.due.add(watcher);
    this.schedule();
  }
}
