import { isEnded, type Row } from '../faults/rows.js';
import { groupBy, rootOf, type SoakEvidence, storedValue } from './evidence.js';

/** What must be true of messages, streams and events when a soak is over. See checks.ts. */

const streamEnd = '__DBOS_STREAM_CLOSED__';

/**
 * I6: a message is received at most once, and it is marked as consumed exactly if it was received. An acknowledged
 * message was received if its workflow waits for all messages and succeeded. Messages arrive in the order of sending.
 */
export function messagesOnce({ messages, steps, workflows, entries, undone }: SoakEvidence): string[] {
  const received = receivedBy(steps);
  const consumed = new Set(messages.filter((row) => isTrue(row.consumed)).map(keyOf));
  const succeeded = new Set(workflows.filter((row) => row.status === 'SUCCESS').map((row) => row.workflow_uuid));
  const acked = entries.filter(({ kind, workflowId }) => kind === 'sent' && succeeded.has(workflowId));
  const all = [...received.values()].flat();
  return [
    ...repeated(all).map((key) => `I6: ${key} was received twice`),
    ...repeated(messages.map(keyOf)).map((key) => `I6: ${key} is there twice`),
    ...all.filter((key) => !consumed.has(key)).map((key) => `I6: ${key} was received, and is not marked as consumed`),
    ...missing(consumed, new Set(all)).map((key) => `I6: ${key} is marked as consumed, and nobody received it`),
    ...missing(new Set(acked.map(({ workflowId, detail }) => `${workflowId} <- ${detail}`)), new Set(all)).map(
      (key) => `I6: ${key} was acknowledged, and never received`,
    ),
    // After a restore, lost messages were sent again, behind later ones.
    ...[...received].flatMap(([id, keys]) =>
      inOrder(keys) || undone?.has(rootOf(id)) ? [] : [`I6: ${id} received ${keys} out of order`],
    ),
  ];
}

/** The received messages by recipient, in the order of receipt. */
function receivedBy(steps: readonly Row[]): Map<string, string[]> {
  const receipts = steps.filter(
    (step) => step.function_name === 'DBOS.recv' && typeof storedValue(step.output) === 'string',
  );
  const found = new Map<string, string[]>();
  for (const [id, own] of groupBy(receipts, (step) => String(step.workflow_uuid))) {
    const inTurn = own.sort((a, b) => Number(a.function_id) - Number(b.function_id));
    found.set(
      id,
      inTurn.map((step) => `${id} <- ${storedValue(step.output)}`),
    );
  }
  return found;
}

function keyOf(message: Row): string {
  return `${message.destination_uuid} <- ${storedValue(message.message)}`;
}

/** Each program numbers its messages to one recipient from 0, and sends one after the other. */
function inOrder(keys: readonly string[]): boolean {
  return keys.every((key, i) => key.endsWith(`/${i}`));
}

/**
 * I6: a stream has no gap and no duplicate, is in the order of writing, and is complete if the writer succeeded.
 * Readers got the same stream. An event has the value that was set last.
 */
export function streamsWhole({ streams, events, workflows, entries }: SoakEvidence): string[] {
  const rows = groupBy(streams, (row) => String(row.workflow_uuid));
  const shown = new Map(events.map((row) => [String(row.workflow_uuid), Number(storedValue(row.value))]));
  const found: string[] = [];
  const written = new Map<string, unknown[]>();
  for (const [id, own] of rows) {
    const inTurn = own.sort((a, b) => Number(a.offset) - Number(b.offset));
    const values = inTurn.map((row) => storedValue(row.value));
    if (inTurn.some((row, i) => Number(row.offset) !== i)) found.push(`I6: the stream of ${id} has a gap`);
    const lines = values.filter((value) => value !== streamEnd);
    if (lines.some((value, i) => value !== i)) found.push(`I6: the stream of ${id} is ${lines}`);
    written.set(id, values);
  }
  for (const row of workflows.filter((each) => each.name === 'teller' && isEnded(each))) {
    if (row.status !== 'SUCCESS') continue;
    const id = String(row.workflow_uuid);
    const count = Number(storedValue(row.output));
    const values = written.get(id) ?? [];
    if (values.length !== count + 1 || values.at(-1) !== streamEnd) {
      found.push(`I6: the stream of ${id} has ${values.length} entries instead of ${count} and its end`);
    }
    if (shown.get(id) !== count) found.push(`I6: the event of ${id} is ${shown.get(id)} instead of ${count}`);
  }
  // A client that read a cancelled workflow's stream to its end may have seen less than the stream has after a
  // resume.
  const resumed = new Set(entries.filter(({ kind }) => kind === 'resume').map(({ workflowId }) => workflowId));
  for (const { kind, workflowId, by, detail } of entries) {
    if (kind !== 'read' || resumed.has(workflowId)) continue;
    const lines = (written.get(workflowId) ?? []).filter((value) => value !== streamEnd);
    if (JSON.stringify(lines) !== detail) {
      found.push(`I6: ${by} read ${detail} from ${workflowId}, and ${JSON.stringify(lines)} is there`);
    }
  }
  return found;
}

function missing(from: ReadonlySet<string>, among: ReadonlySet<string>): string[] {
  return [...from].filter((key) => !among.has(key));
}

function repeated(values: readonly string[]): string[] {
  const seen = new Set<string>();
  return values.filter((value) => seen.size === seen.add(value).size);
}

/** SQLite has no booleans. */
function isTrue(value: unknown): boolean {
  return value === true || value === 1;
}
