import type { Clock, Timer } from '../../model/clock.js';
import { closedError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { isUnusable } from '../../storage/contract/failure.js';
import type { Channels } from '../../storage/database.js';
import { Backoff } from '../write/backoff.js';
import { FollowedChannels } from './followed-channels.js';

/** How often everything that is waited for is looked at, for want of news. */
const pollMs = { hearing: 5_000, deaf: 500 };

/** Looking at everything takes at most this part of the time, however much is waited for. */
const share = 0.1;

/** Questions that go into one statement. */
const pageSize = 500;

/** What a watch is about: how to ask the database, for many who wait at once. */
export interface WatchKind<Question, Answer> {
  readonly name: string;
  /** Tells questions apart: equal ones are asked once. */
  identity(question: Question): string;
  /** The answers by the identity of their question; every question has one. */
  look(questions: readonly Question[]): Promise<Map<string, Answer>>;
  /** What is announced when there is an answer to this question. */
  topic(question: Question): string;
  /** Whether DBOS is to announce it, as far as an answer tells. */
  isOfDbos?(answer: Answer): boolean;
}

/** What a watch knows of the news that arrives. */
export interface Hearer {
  /** Whether all that comes up is announced, and heard by those who follow its channel. */
  hears(): boolean;
  channels(): Channels | undefined;
}

/** Someone who waits. */
export interface Watcher<Question, Answer> {
  /** What to ask now; asked anew at each look. */
  question(): Question;
  /** What was found. Whoever has enough forgets the watch. */
  answered(answer: Answer): void;
  failed(error: Error): void;
  /** Somebody outside of workflows: fails if the role lacks a right, or a table is missing. The others wait. */
  readonly failsFast?: boolean;
}

/**
 * Everyone in this process who waits for what others may bring about: a message, an event, more of a stream. News says
 * under which key to look; for lack of news (a listener that has died without a sign) all is looked at from time to
 * time. One statement asks for many, and one is under way at a time.
 *
 * **Invariant:** a watcher is in the books before its first look begins, and news that arrives during a look leads to
 * another one: nothing that is committed later than a look can be missed by it and by the news.
 */
export class Watch<Question, Answer> {
  private readonly watchers = new Map<string, Set<Watcher<Question, Answer>>>();
  private readonly known = new Set<Watcher<Question, Answer>>();
  private readonly following: FollowedChannels<Watcher<Question, Answer>>;
  private readonly due = new Set<Watcher<Question, Answer>>();
  private looking = false;
  private scheduled = false;
  private allDueAt = Number.NEGATIVE_INFINITY;
  private lookingAtAllSince: number | undefined;
  private timer: Timer | undefined;
  private timerAt = Number.POSITIVE_INFINITY;
  private closed = false;
  private readonly backoff: Backoff;
  /** Called once, when something is first waited for. */
  onFirst: (() => void) | undefined;

  constructor(
    private readonly kind: WatchKind<Question, Answer>,
    private readonly clock: Clock,
    logger: Logger,
    private readonly hearer: Hearer,
  ) {
    this.following = new FollowedChannels(() => hearer.channels());
    this.backoff = new Backoff(`Looking for ${kind.name}`, logger);
  }

  /** Waits under these keys until `forget` is called. The first look comes at once. */
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
    this.known.add(watcher);
    this.onFirst?.();
    this.onFirst = undefined;
    this.look(watcher);
    this.armPoll();
    return { forget: () => this.remove(keys, watcher) };
  }

  /** Channels that some here wait for are open now: what was announced on them before was for others only. */
  opened(channels: readonly string[]): void {
    for (const channel of channels) for (const watcher of this.following.opened(channel)) this.look(watcher);
  }

  /** Something may have come up under this key. */
  wake(key: string): void {
    for (const watcher of this.watchers.get(key) ?? []) this.look(watcher);
  }

  /** Anything may have come up: all is looked at, but not all the time. */
  wakeAll(): void {
    this.lookAtAllBy(Math.max(this.clock.now(), this.allDueAt));
  }

  /** Looks for this one again, now. */
  look(watcher: Watcher<Question, Answer>): void {
    this.due.add(watcher);
    this.schedule();
  }

  close(): void {
    this.closed = true;
    this.timer?.cancel();
    const all = [...this.known];
    this.watchers.clear();
    this.known.clear();
    this.due.clear();
    for (const watcher of all) {
      this.following.forget(watcher);
      watcher.failed(closedError());
    }
  }

  private remove(keys: readonly string[], watcher: Watcher<Question, Answer>): void {
    this.due.delete(watcher);
    this.known.delete(watcher);
    this.following.forget(watcher);
    for (const key of keys) {
      const watchers = this.watchers.get(key);
      watchers?.delete(watcher);
      if (watchers?.size === 0) this.watchers.delete(key);
    }
  }

  private schedule(): void {
    if (this.scheduled || this.looking || this.closed) return;
    this.scheduled = true;
    // At the end of this turn of the event loop, so that all that is asked in it goes together.
    setImmediate(() => {
      this.scheduled = false;
      void this.lookAtDue();
    });
  }

  private async lookAtDue(): Promise<void> {
    if (this.looking) return;
    this.looking = true;
    while (this.due.size > 0 && !this.closed) {
      const page = [...this.due].slice(0, pageSize);
      for (const watcher of page) this.due.delete(watcher);
      await this.lookAt(page);
    }
    this.looking = false;
    if (this.lookingAtAllSince !== undefined) {
      this.allDueAt = this.clock.now() + (performance.now() - this.lookingAtAllSince) / share;
      this.lookingAtAllSince = undefined;
    }
    this.armPoll();
  }

  private async lookAt(watchers: readonly Watcher<Question, Answer>[]): Promise<void> {
    const asked = watchers.map((watcher) => this.asked(watcher));
    const questions = new Map(asked.map(({ question }) => [this.kind.identity(question), question]));
    try {
      const answers = await this.kind.look([...questions.values()]);
      this.backoff.reset();
      for (const { watcher, question, isCovered } of asked) {
        const answer = answers.get(this.kind.identity(question));
        if (answer === undefined || this.closed) continue;
        watcher.answered(answer);
        if (!this.known.has(watcher)) continue;
        const isOfDbos = this.kind.isOfDbos?.(answer) ?? false;
        if (!this.following.follow(watcher, this.kind.topic(question), isOfDbos, isCovered)) this.due.add(watcher);
      }
    } catch (error) {
      // All failures are the database's: what is asked is only IDs.
      for (const watcher of watchers.filter((each) => this.known.has(each))) {
        if (watcher.failsFast && isUnusable(error)) watcher.failed(error);
        else this.due.add(watcher);
      }
      await this.backoff.pause(error);
    }
  }

  private asked(watcher: Watcher<Question, Answer>) {
    const question = watcher.question();
    this.following.join(watcher, this.kind.topic(question));
    return { watcher, question, isCovered: this.following.covers(watcher) };
  }

  private armPoll(): void {
    if (this.known.size === 0) return;
    this.lookAtAllBy(Math.max(this.allDueAt, this.clock.now() + (this.hearer.hears() ? pollMs.hearing : pollMs.deaf)));
  }

  /** Never later than it was already due. */
  private lookAtAllBy(at: number): void {
    if (this.closed || this.known.size === 0 || (this.timer && this.timerAt <= at)) return;
    this.timer?.cancel();
    this.timerAt = at;
    this.timer = this.clock.at(at, () => this.lookAtAll(), 'background');
  }

  private lookAtAll(): void {
    this.timer = undefined;
    this.timerAt = Number.POSITIVE_INFINITY;
    this.lookingAtAllSince = performance.now();
    for (const watcher of this.known) this.due.add(watcher);
    this.schedule();
  }
}
