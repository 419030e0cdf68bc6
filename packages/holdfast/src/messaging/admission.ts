import type { Engine } from '../engine/engine.js';
import { InboxCapacity, type InboxLimits, type InboxLoad } from '../engine/wait/inbox-capacity.js';
import { watchKey } from '../engine/wait/watches.js';
import { HoldfastError } from '../model/errors.js';
import { invalidOption } from '../model/options.js';
import { isTerminal, type WorkflowStatus } from '../model/status.js';
import type { InboxState, NewMessage } from '../storage/contract/messaging.js';
import type { TransactionStorage } from '../storage/contract/storage.js';

/** Which messages of a topic are refused for what waits at, or became of, their recipient. */
export interface Rules {
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

export function rulesOf(what: string, options: RuleOptions): Rules {
  const { maxWaiting = defaultLimits.messages, maxWaitingBytes = defaultLimits.bytes, toEnded = 'keep' } = options;
  for (const [option, value] of Object.entries({ maxWaiting, maxWaitingBytes })) {
    const isLimit = value === Number.POSITIVE_INFINITY || (Number.isInteger(value) && value >= 1);
    if (!isLimit) throw invalidOption(what, option, value, 'a whole number of at least 1, or Infinity for no limit');
  }
  if (toEnded !== 'keep' && toEnded !== 'refuse') throw invalidOption(what, 'toEnded', toEnded, '"keep" or "refuse"');
  return { what, limits: { messages: maxWaiting, bytes: maxWaitingBytes }, toEnded };
}

/**
 * The messages, if there is room for all of them, and their recipients may get any. It is told at once as long as a few messages
 * go to each inbox; only then room is taken, which {@link sent} gives back.
 */
export function admitted(engine: Engine, rules: Rules, messages: NewMessage[]): NewMessage[] | Promise<NewMessage[]> {
  const loads = loadsOf(messages);
  if (rules.toEnded === 'refuse') return afterLooks(engine, rules, messages, loads);
  const taken = new Map<string, InboxLoad>();
  for (const [key, { load }] of loads) {
    if (!engine.messageWriter.room.take(key, load, rules.limits)) {
      giveBack(engine, taken);
      return afterLooks(engine, rules, messages, loads);
    }
    taken.set(key, load);
  }
  return messages;
}

/** The messages are stored, or will not be. */
export function sent(engine: Engine, messages: readonly NewMessage[]): void {
  for (const [key, { load }] of loadsOf(messages)) engine.messageWriter.room.done(key, load);
}

/** What a transaction sends is seen by nobody else before it commits, so that it has to look for itself. */
const roomsIn = new WeakMap<object, InboxCapacity>();

/** Stores a message in a transaction of the caller, if there is room beside what the transaction has sent before. False: no recipient. */
export async function sendWithin(
  rules: Rules,
  tx: object,
  within: TransactionStorage,
  message: NewMessage,
): Promise<boolean> {
  const room = roomsIn.get(tx) ?? new InboxCapacity();
  roomsIn.set(tx, room);
  const { messageId, destination: workflowId, topic } = message;
  const key = watchKey(workflowId, topic);
  const load = loadOf(message);
  const full = await room.find(key, load, rules.limits, () => within.messages.inboxState({ workflowId, topic }));
  // The repetition of a send that has succeeded succeeds.
  if (full && (await within.messages.stored([messageId])).has(messageId)) return true;
  if (full) throw inboxFull(rules, workflowId, full);
  try {
    return (await within.messages.send([message])).has(messageId);
  } finally {
    room.done(key, load);
  }
}

async function afterLooks(
  engine: Engine,
  rules: Rules,
  messages: NewMessage[],
  loads: ReadonlyMap<string, LoadedInbox>,
): Promise<NewMessage[]> {
  if (rules.toEnded === 'refuse') await refuseEnded(engine, rules, messages);
  const taken = new Map<string, InboxLoad>();
  try {
    for (const [key, { load, first }] of loads) {
      await takeAfterLook(engine, rules, messages, key, { load, first });
      taken.set(key, load);
    }
  } catch (error) {
    giveBack(engine, taken);
    throw error;
  }
  return messages;
}

async function takeAfterLook(
  engine: Engine,
  rules: Rules,
  messages: readonly NewMessage[],
  key: string,
  { load, first: { destination: workflowId, topic } }: LoadedInbox,
): Promise<void> {
  const look = () => engine.storage.messages.inboxState({ workflowId, topic });
  const full = await engine.messageWriter.room.find(key, load, rules.limits, () =>
    engine.untilAnswered('Looking into an inbox', look),
  );
  if (!full) return;
  const own = messages.filter(({ destination }) => destination === workflowId);
  if (!(await areStored(engine, own))) throw inboxFull(rules, workflowId, full);
}

/** A workflow that ends between this look and the insertion has ended after the message was sent, as far as anybody can tell. */
async function refuseEnded(engine: Engine, rules: Rules, messages: readonly NewMessage[]): Promise<void> {
  const ids = [...new Set(messages.map(({ destination }) => destination))];
  const read = () => engine.storage.workflows.endings(ids);
  const endings = (await engine.untilAnswered('Reading whether workflows have ended', read)) ?? [];
  for (const { workflowId, status } of endings) {
    if (!isTerminal(status) || status === 'STALLED') continue;
    const own = messages.filter(({ destination }) => destination === workflowId);
    if (!(await areStored(engine, own))) throw workflowEnded(rules, workflowId, status);
  }
}

/** The repetition of a send that has succeeded, by its idempotency key, succeeds. */
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

function giveBack(engine: Engine, taken: ReadonlyMap<string, InboxLoad>): void {
  for (const [key, load] of taken) engine.messageWriter.room.done(key, load);
}

function inboxFull({ what, limits }: Rules, workflowId: string, { waiting, bytes }: InboxState): HoldfastError {
  return new HoldfastError(
    'INBOX_FULL',
    `${what}: workflow "${workflowId}" has ${waiting} messages of ${bytes} bytes that it has not received, and its inbox takes ` +
      `${limits.messages} of ${limits.bytes} bytes, so that nothing was sent. Send again when it has received some, check why it ` +
      'does not, or raise "maxWaiting" or "maxWaitingBytes" of the topic.',
    { details: { workflowId, waiting, bytes, maxWaiting: limits.messages, maxWaitingBytes: limits.bytes } },
  );
}

function workflowEnded({ what }: Rules, workflowId: string, status: WorkflowStatus): HoldfastError {
  return new HoldfastError(
    'WORKFLOW_ENDED',
    `${what}: workflow "${workflowId}" has ended (${status}) and would never receive the message, so that nothing was sent. ` +
      'Send to another workflow, or leave out { toEnded: "refuse" } of the topic.',
    { details: { workflowId, status } },
  );
}
