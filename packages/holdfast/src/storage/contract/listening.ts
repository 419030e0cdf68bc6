/** Receives changes by other processes: the announced topics, or null for "anything may have changed". */
export interface ListenerCallbacks {
  received(topics: readonly string[] | null): void;
  /** Reports whether announcements currently arrive. */
  state(isListening: boolean): void;
  /**
   * Reports that requested channels are open from now on. Announcements made on them before this call may be missed.
   */
  opened?(channels: readonly string[]): void;
  /**
   * The lock that the listening session holds, if the listener has a session with a server. The lock shows other
   * processes that this process lives.
   */
  readonly presence?: Presence | undefined;
}

/** A lock that belongs to a session: the lock is released when the session ends. */
export interface Presence {
  readonly key: string;
  /**
   * Reports whether others see the lock as held. Never called on servers where sessions or their locks cannot be
   * trusted.
   */
  held(isHeld: boolean): void;
}

/**
 * The channels for notifications that concern few processes: messages, events and streams. Only processes that follow a
 * channel receive its notifications.
 */
export interface Channels {
  /** Returns the channel on which Holdfast, or DBOS if `byDbos` is true, announces a topic. */
  channelOf(topic: string, byDbos: boolean): string;
  /** Returns true if every announcement on the channel arrives from now on. */
  isOpen(channel: string): boolean;
  /** Opens the channel if necessary and keeps it open. Each call needs its own call of `unfollow`. */
  follow(channel: string): void;
  unfollow(channel: string): void;
}

export interface Listening {
  /** Absent: every announcement arrives anyway. */
  readonly channels?: Channels;
  /**
   * Resolves when announcements arrive, or when it is certain that they cannot arrive yet. From then on,
   * `received(null)` is called after announcements may have been missed.
   */
  readonly ready: Promise<void>;
  stop(): Promise<void>;
}
