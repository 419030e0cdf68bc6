import type { WorkflowStatus } from '../../model/status.js';

/**
 * The part of the storage contract for communication between workflows: the messages, events and streams of a workflow.
 *
 * **Invariant:** an effect of an execution commits in one transaction with the record of its step (`EffectfulStep` in
 * steps.ts), under the same fence. Either both are committed or neither is.
 */

/** A value as stored, with the name of its format. */
export interface StoredValue {
  readonly value: string;
  /** Null: the writer did not name a format, so the value is in the reader's own format. */
  readonly serialization: string | null;
}

/** A change that commits together with the record of a step. */
export type Effect =
  | ({ readonly kind: 'message' } & NewMessage)
  | { readonly kind: 'consume'; readonly messageId: string }
  | ({ readonly kind: 'event'; readonly key: string } & StoredValue)
  | ({ readonly kind: 'stream'; readonly key: string } & StoredValue);

export interface NewMessage extends StoredValue {
  /** The identity of the message. A second message with this ID is ignored. */
  readonly messageId: string;
  readonly destination: string;
  readonly topic: string;
  readonly sentAt: number;
}

/** A message that no execution has received. */
export interface WaitingMessage extends StoredValue {
  readonly workflowId: string;
  readonly topic: string;
  readonly messageId: string;
}

/** The messages of one topic that a workflow has not received. */
export interface InboxState {
  readonly waiting: number;
  readonly bytes: number;
}

export interface MessageRecord extends StoredValue {
  readonly topic: string | null;
  readonly sentAt: number;
  readonly consumed: boolean;
}

export interface Messages {
  /**
   * Stores messages. Returns the IDs of the messages that are stored now, including those that were stored before. An
   * ID is missing if the recipient does not exist.
   */
  send(rows: readonly NewMessage[]): Promise<Set<string>>;
  /** Stores all messages or none. Returns false if a recipient does not exist: then nothing was stored. */
  sendAll(rows: readonly NewMessage[]): Promise<boolean>;
  /** Returns the oldest unconsumed messages of each inbox, oldest first, at most `most` for each inbox. */
  waiting(
    inboxes: readonly { readonly workflowId: string; readonly topic: string; readonly most: number }[],
  ): Promise<WaitingMessage[]>;
  inboxState(inbox: { readonly workflowId: string; readonly topic: string }): Promise<InboxState>;
  /** Returns those of the IDs under which a message is stored. */
  stored(messageIds: readonly string[]): Promise<Set<string>>;
  /** Returns all messages that were sent to a workflow, oldest first. */
  list(workflowId: string): Promise<MessageRecord[]>;
}

export interface EventState {
  readonly workflowId: string;
  readonly key: string;
  /** Null: the event has not been set. */
  readonly event: StoredValue | null;
  /** Undefined: the workflow does not exist. */
  readonly status: WorkflowStatus | undefined;
  /** True: DBOS made the last claim of the workflow, so DBOS announces what the workflow publishes. */
  readonly isOfDbos: boolean;
}

export interface Events {
  read(events: readonly { readonly workflowId: string; readonly key: string }[]): Promise<EventState[]>;
  /** Sets an event from inside a step, at once. Returns false if the workflow no longer belongs to this owner. */
  set(params: {
    readonly workflowId: string;
    readonly owner: string;
    readonly stepNumber: number;
    readonly key: string;
    readonly value: string;
    readonly serialization: string;
  }): Promise<boolean>;
  list(workflowId: string): Promise<({ readonly key: string } & StoredValue)[]>;
}

export interface StreamEntry extends StoredValue {
  readonly workflowId: string;
  readonly key: string;
  readonly offset: number;
}

/** The entries of a stream from an offset on, and the status of its workflow, read in one snapshot. */
export interface StreamState {
  readonly workflowId: string;
  readonly key: string;
  readonly from: number;
  readonly status: WorkflowStatus | undefined;
  readonly entries: readonly StreamEntry[];
  /** See {@link EventState.isOfDbos}. */
  readonly isOfDbos: boolean;
  /** True: there are no entries, because the entry before the offset is the end of the stream. */
  readonly isBehindEnd: boolean;
}

export interface Streams {
  read(
    streams: readonly { readonly workflowId: string; readonly key: string; readonly from: number }[],
    most: number,
  ): Promise<StreamState[]>;
  list(workflowId: string): Promise<StreamEntry[]>;
}

/** The entry that ends a stream, in the text and format of DBOS. */
export const streamEnd: StoredValue = { value: '"__DBOS_STREAM_CLOSED__"', serialization: 'portable_json' };

/** The texts that end a stream. Older rows contain the text without quotes. */
export const streamEnds: readonly string[] = [streamEnd.value, '__DBOS_STREAM_CLOSED__'];

export function isStreamEnd({ value }: StoredValue): boolean {
  return streamEnds.includes(value);
}

/** The topic under which DBOS stores messages that have no topic. */
export const nullTopic = '__null__topic__';
