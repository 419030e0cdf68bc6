import type { WorkflowStatus } from '../../model/status.js';

/**
 * The part of the storage contract that lets workflows talk: messages to a workflow, its events and its streams.
 *
 * **Invariant:** what an execution sends, consumes, sets or writes is committed together with the record of the step
 * that does it (`EffectfulStep` in steps.ts), under the same fence: both or neither.
 */

/** A value as stored, with the name of its format. */
export interface StoredValue {
  readonly value: string;
  /** Null: written by whoever does not say, in the reader's own format. */
  readonly serialization: string | null;
}

/** What a step brings about together with its record. */
export type Effect =
  | ({ readonly kind: 'message' } & NewMessage)
  | { readonly kind: 'consume'; readonly messageId: string }
  | ({ readonly kind: 'event'; readonly key: string } & StoredValue)
  | ({ readonly kind: 'stream'; readonly key: string } & StoredValue);

export interface NewMessage extends StoredValue {
  /** Its identity: a second message with it is the first one. */
  readonly messageId: string;
  readonly destination: string;
  readonly topic: string;
  readonly sentAt: number;
}

/** A message that nobody has received yet. */
export interface WaitingMessage extends StoredValue {
  readonly workflowId: string;
  readonly topic: string;
  readonly messageId: string;
}

/** What a workflow has not received of a topic. */
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
  /** Returns the IDs of the messages that are stored now, also if they were before; the others have no recipient. */
  send(rows: readonly NewMessage[]): Promise<Set<string>>;
  /** All or none. Returns false if there is a recipient that does not exist: then nothing was stored. */
  sendAll(rows: readonly NewMessage[]): Promise<boolean>;
  /** The oldest unconsumed messages of each inbox, oldest first, at most `most`. */
  waiting(
    inboxes: readonly { readonly workflowId: string; readonly topic: string; readonly most: number }[],
  ): Promise<WaitingMessage[]>;
  inboxState(inbox: { readonly workflowId: string; readonly topic: string }): Promise<InboxState>;
  /** Those of the IDs under which a message is stored. */
  stored(messageIds: readonly string[]): Promise<Set<string>>;
  /** All that was sent to a workflow, oldest first. */
  list(workflowId: string): Promise<MessageRecord[]>;
}

export interface EventState {
  readonly workflowId: string;
  readonly key: string;
  /** Null: not set so far. */
  readonly event: StoredValue | null;
  /** Undefined: there is no such workflow so far. */
  readonly status: WorkflowStatus | undefined;
  /** Whether the last claim of the workflow was not by Holdfast: then DBOS announces what it publishes. */
  readonly isOfDbos: boolean;
}

export interface Events {
  read(events: readonly { readonly workflowId: string; readonly key: string }[]): Promise<EventState[]>;
  /** Sets an event from inside a step, at once. Returns whether the workflow was still this owner's. */
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

/** What a stream has to offer from an offset on, and how its workflow stood then: read in one snapshot. */
export interface StreamState {
  readonly workflowId: string;
  readonly key: string;
  readonly from: number;
  readonly status: WorkflowStatus | undefined;
  readonly entries: readonly StreamEntry[];
  /** As for events. */
  readonly isOfDbos: boolean;
  /** There are none, because what comes last before the offset is the end of the stream. */
  readonly isBehindEnd: boolean;
}

export interface Streams {
  read(
    streams: readonly { readonly workflowId: string; readonly key: string; readonly from: number }[],
    most: number,
  ): Promise<StreamState[]>;
  list(workflowId: string): Promise<StreamEntry[]>;
}

/** What ends a stream, in the text and format that DBOS gives it. */
export const streamEnd: StoredValue = { value: '"__DBOS_STREAM_CLOSED__"', serialization: 'portable_json' };

/** The texts that end a stream: older rows have it without quotes. */
export const streamEnds: readonly string[] = [streamEnd.value, '__DBOS_STREAM_CLOSED__'];

export function isStreamEnd({ value }: StoredValue): boolean {
  return streamEnds.includes(value);
}

/** The topic of messages that have none, as DBOS stores it. */
export const nullTopic = '__null__topic__';
