import { createHash, randomUUID } from 'node:crypto';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type Codec, checkMaxValueBytes } from '../codec/codecs.js';
import { currentScope } from '../engine/api/context.js';
import type { Engine } from '../engine/engine.js';
import type { Execution } from '../engine/execution/execution.js';
import { once } from '../engine/execution/once.js';
import { rejecting } from '../engine/execution/rejecting.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import { checkOpenFor, resolveEngine } from '../engine/running-apps.js';
import { transactionStorage } from '../engine/start/enqueue-in-transaction.js';
import { schemaError } from '../engine/start/workflow-row.js';
import { watchKey } from '../engine/wait/watches.js';
import type { Duration } from '../model/duration.js';
import { HoldfastError } from '../model/errors.js';
import { checkName, checkUserName } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { type NewMessage, nullTopic } from '../storage/contract/messaging.js';
import { admit, type InboxRules, inboxRulesOf, releaseCapacity, sendInTransaction } from './admission.js';
import { hasEarlierCalls, inCallOrder } from './call-order.js';
import { checkSerialization, codecFor, effectsOutcome, type Serialization } from './message-outcomes.js';
import { receive } from './receive.js';

export interface TopicOptions<Schema extends StandardSchemaV1 = StandardSchemaV1> {
  /** Any Standard Schema. Sending a message that does not match it fails. */
  readonly schema?: Schema;
  /** The format of stored messages (default `native`; `portable` in a portable workflow). */
  readonly serialization?: Serialization;
  /** The maximum size of a stored message in bytes. Default: the limit of `launch` or `connect`. */
  readonly maxValueBytes?: number;
  /** The maximum number of waiting messages in the inbox of one workflow (default 10,000). Sending more fails. */
  readonly maxWaiting?: number;
  /** The maximum total size of these messages in bytes (default 64 MiB). */
  readonly maxWaitingBytes?: number;
  /** Messages to an ended workflow: `keep` stores them (default), `refuse` makes sending fail. */
  readonly toEnded?: 'keep' | 'refuse';
}

export interface SendOptions {
  /** A second message to the same workflow with the same key is not stored. */
  readonly idempotencyKey?: string;
  /** The app whose database is used: the result of `launch` or `connect`. */
  readonly app?: object;
}

/** One of several messages that are sent together with `sendAll`. */
export interface Message<Sent> {
  readonly to: string;
  readonly value: Sent;
  readonly idempotencyKey?: string;
}

/**
 * Messages of one kind to workflows. Each workflow has an inbox per topic. Messages arrive in the order of sending.
 */
export interface Topic<Sent, Received = Sent> {
  readonly topicName: string | undefined;
  /**
   * Sends a message to a workflow, even if the workflow does not wait for it yet. Resolves when the message is
   * durable. A workflow sends a message exactly once. A step sends it immediately and again with each attempt, unless
   * the message has an `idempotencyKey`.
   */
  send(workflowId: string, value: Sent, options?: SendOptions): Promise<void>;
  /**
   * Sends a message inside the caller's own transaction in the database of the app. The message arrives only if the
   * transaction commits. `tx` is the transaction object of the database library, as for `client.startIn`.
   */
  sendIn(tx: unknown, workflowId: string, value: Sent, options?: SendOptions): Promise<void>;
  /** Sends several messages: all of them or none. */
  sendAll(messages: readonly Message<Sent>[], options?: Pick<SendOptions, 'app'>): Promise<void>;
  /**
   * In a workflow: resolves with the oldest message that the workflow has not received, or waits for the next
   * message. Resolves with `undefined` if no message arrives before the timeout (default 60 seconds).
   */
  receive(options?: { readonly timeout?: Duration }): Promise<Received | undefined>;
}

const sendName = 'DBOS.send';

/**
 * Defines a topic: messages of one kind to workflows. A topic without a name has the messages that were sent without
 * a topic name.
 *
 * @example
 * ```ts
 * const payments = topic<{ amount: number }>('payments');
 *
 * const checkout = workflow('checkout', async () => {
 *   const payment = await payments.receive({ timeout: '1h' });
 *   return payment === undefined ? 'expired' : 'paid';
 * });
 *
 * await payments.send('order-7', { amount: 40 }); // to the workflow with the ID "order-7"
 * ```
 */
export function topic<Schema extends StandardSchemaV1>(
  name: string | undefined,
  options: TopicOptions<Schema> & { readonly schema: Schema },
): Topic<StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>>;
export function topic<T>(name?: string, options?: TopicOptions): Topic<T>;
export function topic<T>(name?: string, options: TopicOptions = {}): Topic<T> {
  const what = name === undefined ? 'The topic without a name' : `Topic "${checkUserName('A topic name', name)}"`;
  checkKnownOptions(what, options, [
    ...['schema', 'serialization', 'maxValueBytes'],
    ...['maxWaiting', 'maxWaitingBytes', 'toEnded'],
  ]);
  checkMaxValueBytes(what, options.maxValueBytes);
  checkSerialization(what, options.serialization);
  if (name === nullTopic) {
    throw new HoldfastError(
      'INVALID_NAME',
      `"${nullTopic}" is the internal name of the topic without a name. Call topic() without a name to get that topic.`,
    );
  }
  const { schema } = options;
  if (schema !== undefined && (Object(schema) !== schema || !('~standard' in schema))) {
    throw invalidOption(what, 'schema', schema, 'a Standard Schema');
  }
  const parts: TopicParts = { what, topic: name ?? nullTopic, options, rules: inboxRulesOf(what, options) };
  return {
    topicName: name,
    send: (workflowId, value, sendOptions = {}) =>
      rejecting(`send() of ${what}`, () => {
        checkKnownOptions(`send() of ${what}`, sendOptions, ['idempotencyKey', 'app']);
        const { app, ...ofMessage } = sendOptions;
        return send(parts, [{ to: workflowId, value, ...ofMessage }], app);
      }),
    sendIn: async (tx, workflowId, value, sendOptions = {}) => {
      checkKnownOptions(`sendIn() of ${what}`, sendOptions, ['idempotencyKey', 'app']);
      const { app, ...ofMessage } = sendOptions;
      await sendIn(parts, tx, { to: workflowId, value, ...ofMessage }, app);
    },
    sendAll: (messages, sendOptions = {}) =>
      rejecting(`sendAll() of ${what}`, () => {
        checkKnownOptions(`sendAll() of ${what}`, sendOptions, ['app']);
        return send(parts, checkMessages(what, messages), sendOptions.app);
      }),
    receive: (receiveOptions = {}) =>
      rejecting(`receive() of ${what}`, () => receive(parts, receiveOptions) as Promise<T | undefined>),
  };
}

interface TopicParts {
  readonly what: string;
  readonly topic: string;
  readonly options: TopicOptions;
  readonly rules: InboxRules;
}

function checkMessages(what: string, messages: unknown): readonly Message<unknown>[] {
  if (!Array.isArray(messages)) throw invalidOption(what, 'messages', messages, 'a list of { to, value }');
  for (const each of messages) checkKnownOptions(`A message of ${what}`, each, ['to', 'value', 'idempotencyKey']);
  return messages;
}

function send(own: TopicParts, messages: readonly Message<unknown>[], app: object | undefined): Promise<void> {
  for (const { to, idempotencyKey } of messages) {
    checkName('A workflow ID', to);
    if (idempotencyKey !== undefined) checkName('An idempotency key', idempotencyKey);
  }
  const engine = resolveEngine(`send() of ${own.what}`, app);
  const scope = currentScope();
  if (scope?.step) {
    checkOpenFor(engine);
    return scope.execution.calls.follow(sendName, scope.step.stepNumber, sendNow(own, messages, engine));
  }
  // A message to another database cannot be committed together with the checkpoint of this workflow.
  if (scope && scope.execution.engine === engine) return sendRecorded(own, messages, scope.execution);
  if (scope) throw otherDatabase(own);
  checkOpenFor(engine);
  return sendNow(own, messages, engine);
}

async function sendIn(own: TopicParts, tx: unknown, message: Message<unknown>, app: object | undefined): Promise<void> {
  const { to, idempotencyKey } = message;
  checkName('A workflow ID', to);
  if (idempotencyKey !== undefined) checkName('An idempotency key', idempotencyKey);
  const what = `sendIn() of ${own.what}`;
  const engine = resolveEngine(what, app);
  checkOpenFor(engine);
  const newMessages = await prepare(own, [message], engine);
  releaseCapacity(engine, newMessages);
  const storage = await transactionStorage(engine, what, tx, 'send a message');
  for (const each of newMessages) {
    if (!(await sendInTransaction(own.rules, tx as object, storage, each))) throw notFoundError(to);
  }
}

function otherDatabase({ what }: TopicParts): HoldfastError {
  return new HoldfastError(
    'UNSUPPORTED_CALL',
    `${what}: a workflow can send a message exactly once only through its own app. Send through another app in a step.`,
  );
}

function sendRecorded(own: TopicParts, messages: readonly Message<unknown>[], execution: Execution): Promise<void> {
  return once(execution, sendName, () =>
    effectsOutcome(execution, lineOf(own), async () => {
      const newMessages = await prepare(own, messages, execution.engine, execution);
      // The reserved inbox capacity is released before the commit: if the execution ends, no code would release it.
      releaseCapacity(execution.engine, newMessages);
      const absent = await execution.engine.codecs.native.encodeError(absentError(messages));
      return { effects: newMessages.map((message) => ({ kind: 'message', ...message })), errorIfAbsent: absent };
    }),
  );
}

function lineOf({ topic }: TopicParts): string {
  return `message:${topic}`;
}

/** Sends in call order. Sends synchronously unless this call or an earlier call is still being prepared. */
async function sendNow(own: TopicParts, messages: readonly Message<unknown>[], engine: Engine): Promise<void> {
  const prepared = prepare(own, messages, engine);
  const isFirst = Array.isArray(prepared) && !hasEarlierCalls(engine, lineOf(own));
  const newMessages = isFirst ? prepared : await inCallOrder(engine, lineOf(own), async () => prepared);
  try {
    if (newMessages.length > 0 && !(await engine.messageWriter.send(newMessages))) throw absentError(messages);
  } finally {
    releaseCapacity(engine, newMessages);
  }
  for (const { destination } of newMessages) engine.news.announce(`message:${watchKey(destination, own.topic)}`);
}

function absentError(messages: readonly Message<unknown>[]): HoldfastError {
  const [first, second] = messages;
  if (first && !second) return notFoundError(first.to);
  return new HoldfastError(
    'WORKFLOW_NOT_FOUND',
    `Nothing was sent, because at least one of the ${messages.length} recipients does not exist. Check their IDs.`,
    { details: { workflowIds: messages.slice(0, 100).map(({ to }) => to) } },
  );
}

/** Returns the messages, encoded and admitted: synchronously if nothing has to be awaited. */
function prepare(
  own: TopicParts,
  messages: readonly Message<unknown>[],
  engine: Engine,
  execution?: Execution,
): NewMessage[] | Promise<NewMessage[]> {
  const encoded = toNewMessages(own, messages, engine, execution);
  if (Array.isArray(encoded)) return admit(engine, own.rules, encoded);
  return encoded.then((newMessages) => admit(engine, own.rules, newMessages));
}

/**
 * Without a schema, encodes the values before anything is awaited, because the caller may change them later. Returns
 * synchronously if neither the schema nor the serializer is async.
 */
function toNewMessages(
  own: TopicParts,
  messages: readonly Message<unknown>[],
  engine: Engine,
  execution?: Execution,
): NewMessage[] | Promise<NewMessage[]> {
  const codec = codecFor(engine, own.options.serialization, execution);
  const sentAt = engine.clock.now();
  const toNewMessage = ({ to, idempotencyKey }: Message<unknown>, value: string): NewMessage => ({
    messageId: idempotencyKey === undefined ? randomUUID() : keyedId(idempotencyKey, to),
    destination: to,
    topic: own.topic,
    value,
    serialization: codec.name,
    sentAt,
  });
  const encoded = messages.map((message) => {
    const text = toText(own, message.value, codec);
    return typeof text === 'string' ? toNewMessage(message, text) : text.then((later) => toNewMessage(message, later));
  });
  // Libraries such as zone.js replace the global Promise, so `instanceof Promise` is unreliable here.
  return encoded.some((each) => 'then' in each) ? Promise.all(encoded) : (encoded as NewMessage[]);
}

/** Rejects instead of throwing: a synchronous throw would leave the promises of the other messages unhandled. */
function toText(own: TopicParts, value: unknown, codec: Codec): string | Promise<string> {
  const { schema } = own.options;
  const encode = (checked: unknown) => codec.encode(checked, `A message of ${own.what}`, own.options.maxValueBytes);
  if (schema) return validate(own, schema, value).then(encode);
  try {
    return encode(value);
  } catch (error) {
    return Promise.reject(error);
  }
}

/**
 * Returns the message ID in the form of DBOS. A key with "::" or a final ":" would be ambiguous, so its hash is used.
 */
function keyedId(idempotencyKey: string, to: string): string {
  const isPlain = !/::|:$/.test(idempotencyKey);
  return `${isPlain ? idempotencyKey : createHash('sha256').update(idempotencyKey).digest('hex')}::${to}`;
}

async function validate(own: TopicParts, schema: StandardSchemaV1, value: unknown): Promise<unknown> {
  const result = await schema['~standard'].validate(value);
  if (result.issues) throw schemaError('INVALID_INPUT', `A message of ${own.what}`, result.issues);
  return result.value;
}
