import type { Effect, NewMessage } from '../../src/storage/contract/messaging.js';
import type { EffectfulStep } from '../../src/storage/contract/steps.js';
import { newStep, type Store } from './contract-support.js';

export function message(messageId: string, destination: string, more: Partial<NewMessage> = {}): NewMessage {
  return { messageId, destination, topic: 't', value: `"${messageId}"`, serialization: 'js', sentAt: 1500, ...more };
}

/** A step with these effects. */
export function effectful(
  workflowId: string,
  stepNumber: number,
  effects: readonly Effect[],
  more: Partial<EffectfulStep> = {},
): EffectfulStep {
  return { ...newStep(workflowId, stepNumber, { output: null }), effects, errorIfAbsent: null, ...more };
}

export function sent(messageId: string, destination: string, more: Partial<NewMessage> = {}): Effect {
  return { kind: 'message', ...message(messageId, destination, more) };
}

export function written(key: string, value: string): Effect {
  return { kind: 'stream', key, value, serialization: 'js' };
}

export function set(key: string, value: string): Effect {
  return { kind: 'event', key, value, serialization: 'js' };
}

/** Reads all messages, events and stream values of all workflows. */
export async function said(store: Store): Promise<Record<string, string[]>> {
  const rows = async (columns: string, table: string): Promise<string[]> => {
    const found = await store.sql(`select ${columns} from ${store.table(table)}`);
    return found.map((row) => Object.values(row).map(String).join(' ')).sort();
  };
  return {
    messages: await rows("message_uuid, case when consumed then 'read' else 'unread' end as state", 'notifications'),
    events: await rows('workflow_uuid, key, value', 'workflow_events'),
    history: await rows('workflow_uuid, function_id, key, value', 'workflow_events_history'),
    streams: await rows('workflow_uuid, key, "offset", value, function_id', 'streams'),
  };
}
