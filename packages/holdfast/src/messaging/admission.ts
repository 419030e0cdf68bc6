import type { Engine } from '../engine/engine.js';
import { InboxCapacity, type InboxLimits, type InboxLoad } from '../engine/wait/inbox-capacity.js';
import { watchKey } from '../engine/wait/watches.js';
import { HoldfastError } from '../model/errors.js';
import { invalidOption } from '../model/options.js';
import { isTerminal, type WorkflowStatus } from '../model/status.js';
import type { InboxState, NewMessage } from '../storage/contract/messaging.js';
import type { TransactionStorage } from '../storage/contract/storage.js';

/**
 * The rules by which messages of a topic are refused: limits of the inbox, and whether the recipient may have ended.
 */
export interface InboxRules {
  readonly what: string;
  readonly limits: InboxLimits;
  readonly toEnded: 'keep' | 'refuse';
}

export interface RuleOptions {
  readonly maxWaiting?: number;
  readonly maxWaitingBytes?: number;
  readonly toEnded?: 'keep' | 'refuse';
}

const defaultLimits: InboxLimits = { messages: 10_000, bytes: 64 * 1024 * 1024 };

export function inboxRulesOf(what: string, options: RuleOptions): InboxRules {
  const { maxWaiting = defaultLimits.messages, maxWaitingBytes = defaultLimits.bytes, toEnded = 'keep' } = options;
  for (const [option, value] of Object.entries({ maxWaiting, maxWaitingBytes })) {
    const isLimit = value === Number.POSITIVE_INFINITY || (Number.isInteger(value) && value >= 1);
    if (!isLimit) throw invalidOption(what, option, value, 'a whole number of at least 1, or Infinity for no limit');
  }
  if (toEnded !== 'keep' && toEnded !== 'refuse') throw invalidOption(what, 'toEnded', toEnded, '"keep" or "refuse"');
  return { what, limits: { messages: maxWaiting, bytes: maxWaitingBytes }, toEnded };
}

/**
 * Returns the messages if the inboxes have capacity for all of them and the recipients may receive messages. Otherwise
 * throws. Reserves the capacity, which {@link releaseCapacity} releases. Returns synchronously, without a query, if
 * only a few messages go to each inbox and no recipient has to be checked.
 */
export function admit(engine: Engine, rules: InboxRules, messages: NewMessage[]): NewMessage[] | Promise<NewMessage[]> {
  const loads = loadsOf(messages);
  if (rules.toEnded === 'refuse') return admittedByQuery(engine, rules, messages, loads);
  const reserved = new Map<string, InboxLoad>();
  for (const [key, { load }] of loads) {
    if (!engine.messageWriter.capacity.take(key, load, rules.limits)) {
      release(engine, reserved);
      return admittedByQuery(engine, rules, messages, loads);
    }
    reserved.set(key, load);
  }
  return messages;
}

/** Releases the reserved capacity: the messages are stored, or will not be stored. */
export function releaseCapacity(engine: Engine, messages: readonly NewMessage[]): void {
  for (const [key, { load }] of loadsOf(messages)) engine.messageWriter.capacity.release(key, load);
}

/**
 * The inbox capacity for each transaction of a caller. Before the commit only the transaction itself sees its
 * messages, so it runs its own queries.
 */
const capacities = new WeakMap<object, InboxCapacity>();

/**
 * Stores a message in a transaction of the caller, if the inbox has capacity beside the messages that the transaction
 * has already sent. Returns false if the recipient does not exist.
 */
export async function sendInTransaction(
  rules: InboxRules,
  tx: object,
  storage: TransactionStorage,
  message: NewMessage,
): Promise<boolean> {
  const capacity = capacities.get(tx) ?? new InboxCapacity();
  capacities.set(tx, capacity);
  const { messageId, destination: workflowId, topic } = message;
  const key = watchKey(workflowId, topic);
  const load = loadOf(message);
  const full = await capacity.takeAfterQuery(key, load, rules.limits, () =>
    storage.messages.inboxState({ workflowId, topic }),
  );
  // Repeating a successful send succeeds.
  if (full && (await storage.messages.stored([messageId])).has(messageId)) return true;
  if (full) throw inboxFull(rules, workflowId, full);
  try {
    return (await storage.messages.send([message])).has(messageId);
  } finally {
    capacity.release(key, load);
  }
}

async function admittedByQuery(
  engine: Engine,
  rules: InboxRules,
  messages: NewMessage[],
  loads: ReadonlyMap<string, LoadedInbox>,
): Promise<NewMessage[]> {
  if (rules.toEnded === 'refuse') await refuseEnded(engine, rules, messages);
  const reserved = new Map<string, InboxLoad>();
  try {
    for (const [key, { load, first }] of loads) {
      await reserveByQuery(engine, rules, messages, key, { load, first });
      reserved.set(key, load);
    }
  } catch (error) {
    release(engine, reserved);
    throw error;
  }
  return messages;
}

async function reserveByQuery(
  engine: Engine,
  rules: InboxRules,
  messages: readonly NewMessage[],
  key: string,
  { load, first: { destination: workflowId, topic } }: LoadedInbox,
): Promise<void> {
  const query = () => engine.storage.messages.inboxState({ workflowId, topic });
  const full = await engine.messageWriter.capacity.takeAfterQuery(key, load, rules.limits, () =>
    engine.untilAnswered('Reading the size of an inbox', query),
  );
  if (!full) return;
  const own = messages.filter(({ destination }) => destination === workflowId);
  if (!(await areStored(engine, own))) throw inboxFull(rules, workflowId, full);
}

/**
 * A workflow may still end between this query and the insertion. The result is as if it had ended after the
 * insertion.
 */
async function refuseEnded(engine: Engine, rules: InboxRules, messages: readonly NewMessage[]): Promise<void> {
  const ids = [...new Set(messages.map(({ destination }) => destination))];
  const read = () => engine.storage.workflows.endings(ids);
  const endings = (await engine.untilAnswered('Checking whether workflows have ended', read)) ?? [];
  for (const { workflowId, status } of endings) {
    if (!isTerminal(status) || status === 'STALLED') continue;
    const own = messages.filter(({ destination }) => destination === workflowId);
    if (!(await areStored(engine, own))) throw workflowEnded(rules, workflowId, status);
  }
}

/** Returns true if all messages are already stored: repeating a successful send with its idempotency key succeeds. */
async function areStored(engine: Engine, messages: readonly NewMessage[]): Promise<boolean> {
  const ids = messages.map(({ messageId }) => messageId);
  const stored = await engine.untilAnswered('Reading messages', () => engine.storage.messages.stored(ids));
  return ids.every((id) => stored?.has(id));
}

interface LoadedInbox {
  readonly load: InboxLoad;
  readonly first: NewMessage;
}

function loadsOf(messages: readonly NewMessage[]): Map<string, LoadedInbox> {
  const loads = new Map<string, LoadedInbox>();
  for (const message of messages) {
    const key = watchKey(message.destination, message.topic);
    const { load: before, first } = loads.get(key) ?? { load: { messages: 0, bytes: 0 }, first: message };
    const more = loadOf(message);
    loads.set(key, { load: { messages: before.messages + more.messages, bytes: before.bytes + more.bytes }, first });
  }
  return loads;
}

function loadOf({ value }: NewMessage): InboxLoad {
  return { messages: 1, bytes: Buffer.byteLength(value) };
}

function release(engine: Engine, reserved: ReadonlyMap<string, InboxLoad>): void {
  for (const [key, load] of reserved) engine.messageWriter.capacity.release(key, load);
}

function inboxFull({ what, limits }: InboxRules, workflowId: string, { waiting, bytes }: InboxState): HoldfastError {
  return new HoldfastError(
    'INBOX_FULL',
    `${what}: nothing was sent, because the inbox of workflow "${workflowId}" is full. It has ${waiting} messages ` +
      `(${bytes} bytes) that the workflow has not received; the limit is ${limits.messages} messages ` +
      `(${limits.bytes} bytes). Send again later, check why the workflow does not receive them, or raise ` +
      '"maxWaiting" or "maxWaitingBytes" of the topic.',
    { details: { workflowId, waiting, bytes, maxWaiting: limits.messages, maxWaitingBytes: limits.bytes } },
  );
}

function workflowEnded({ what }: InboxRules, workflowId: string, status: WorkflowStatus): HoldfastError {
  return new HoldfastError(
    'WORKFLOW_ENDED',
    `${what}: nothing was sent, because workflow "${workflowId}" has ended (${status}) and would never receive the ` +
      'message. Send to another workflow, or remove { toEnded: "refuse" } from the topic.',
    { details: { workflowId, status } },
  );
}
