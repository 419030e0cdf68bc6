import { readable } from '../engine/api/workflow-info.js';
import type { Engine } from '../engine/engine.js';
import { isStreamEnd, nullTopic, type StoredValue } from '../storage/contract/messaging.js';

/** A message that was sent to a workflow. */
export interface MessageInfo {
  /** Undefined if the message was sent without a topic. */
  readonly topic: string | undefined;
  readonly message: unknown;
  /** Epoch milliseconds. */
  readonly sentAt: number;
  /** True once the workflow has received the message. */
  readonly consumed: boolean;
}

/** Returns the last value of every event that a workflow has set, by key. */
export async function eventsOf(engine: Engine, workflowId: string): Promise<Record<string, unknown>> {
  const events = await engine.storage.events.list(workflowId);
  return Object.fromEntries(await Promise.all(events.map(async (each) => [each.key, await decoded(engine, each)])));
}

/** Returns all messages that were sent to a workflow, oldest first. */
export async function messagesOf(engine: Engine, workflowId: string): Promise<MessageInfo[]> {
  const messages = await engine.storage.messages.list(workflowId);
  return Promise.all(
    messages.map(async ({ topic, sentAt, consumed, ...stored }) => ({
      topic: topic === null || topic === nullTopic ? undefined : topic,
      message: await decoded(engine, stored),
      sentAt,
      consumed,
    })),
  );
}

/** Returns the values that a workflow has written to each of its streams, in order. */
export async function streamsOf(engine: Engine, workflowId: string): Promise<Record<string, unknown[]>> {
  const streams = new Map<string, unknown[]>();
  for (const entry of await engine.storage.streams.list(workflowId)) {
    const values = streams.get(entry.key) ?? [];
    streams.set(entry.key, values);
    if (!isStreamEnd(entry)) values.push(await decoded(engine, entry));
  }
  return Object.fromEntries(streams);
}

function decoded({ codecs }: Engine, { value, serialization }: StoredValue): Promise<unknown> {
  return readable(value, (text) => codecs.for(serialization).decode(text));
}
