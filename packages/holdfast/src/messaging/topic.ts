import { createHash, randomUUID } from 'node:crypto';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type Codec, checkMaxValueBytes } from '../codec/codec.js';
import { currentScope, requireExecution } from '../engine/api/context.js';
import type { Engine } from '../engine/engine.js';
import { sleepName } from '../engine/execution/deliveries.js';
import type { Execution } from '../engine/execution/execution.js';
import { once, onceAt, reserve } from '../engine/execution/once.js';
import { notFoundError } from '../engine/execution/workflow-errors.js';
import { checkOpenFor, resolveEngine } from '../engine/running-apps.js';
import { storageIn } from '../engine/start/enqueue-in-transaction.js';
import { schemaError } from '../engine/start/workflow-row.js';
import { watchKey } from '../engine/wait/watches.js';
import { type Duration, parseDuration } from '../model/duration.js';
import { HoldfastError } from '../model/errors.js';
import { checkName, checkOwnName } from '../model/ids.js';
import { checkKnownOptions, invalidOption } from '../model/options.js';
import { type NewMessage, nullTopic } from '../storage/contract/messaging.js';
import { admitted, type Rules, rulesOf, sendWithin, sent } from './admission.js';
import { inCallOrder, isAnyBefore } from './call-order.js';
import { inboxOf } from './inbox.js';
import { checkSerialization, codecFor, effectsOutcome, type Serialization, valueOutcome } from './message-outcomes.js';
import { foundBefore } from './wait-for.js';

export interface TopicOptions<Schema extends StandardSchemaV1 = StandardSchemaV1> {
  /** Any Standard Schema: a message that does not fit it is refused where it is sent. */
  readonly schema?: Schema;
  /** How messages are stored (default `native`, in a portable workflow `portable`). */
  readonly serialization?: Serialization;
  /** Most bytes of a message as it is stored. Default: that of `launch` or `connect`. */
  readonly maxValueBytes?: number;
  /** Most messages of the topic that wait in the inbox of one workflow (default 10,000): more are refused where they are sent. */
  readonly maxWaiting?: number;
  /** Most bytes of them (default 64 MiB). */
  readonly maxWaitingBytes?: number;
  /** Messages to workflows that have ended: `keep` (default), or `refuse` where they are sent. */
  readonly toEnded?: 'keep' | 'refuse';
}

export interface SendOptions {
  /** A second message with it, to the same workflow, is the first one. */
  readonly idempotencyKey?: string;
  /** Which app's database: what `launch` or `connect` returned. */
  readonly app?: object;
}

/** One of several messages that are sent together. */
export interface Message<Sent> {
  readonly to: string;
  readonly value: Sent;
  readonly idempotencyKey?: string;
}

/** Messages of one kind to workflows. Each workflow has an inbox per topic; what is sent first arrives first. */
export interface Topic<Sent, Received = Sent> {
  readonly topicName: string | undefined;
  /**
   * Sends a message to a workflow, which need not be waiting for it yet. Resolves once it is durable. In a workflow it is
   * sent exactly once; in a step at once, and again with each attempt, unless it has an `idempotencyKey`.
   */
  send(workflowId: string, value: Sent, options?: SendOptions): Promise<void>;
  /**
   * Sends a message inside a transaction of the caller's own, of the app's database: it is there when, and only if, that
   * commits. `tx` is what the library gives, as for `client.startIn`.
   */
  sendIn(tx: unknown, workflowId: string, value: Sent, options?: SendOptions): Promise<void>;
  /** Sends several, all or none. */
  sendAll(letters: readonly Message<Sent>[], options?: Pick<SendOptions, 'app'>): Promise<void>;
  /**
   * In a workflow: the oldest message to it that it has not received yet, or the next to come. `undefined` if none comes
   * in time (default 60 seconds).
   */
  receive(options?: { readonly timeout?: Duration }): Promise<Received | undefined>;
}

const receiveName = 'DBOS.recv';
const sendName = 'DBOS.send';
const defaultTimeoutMs = 60_000;

/** Defines a topic. Without a name it is the one of messages that have none. */
export function topic<Schema extends StandardSchemaV1>(
  name: string | undefined,
  options: TopicOptions<Schema> & { readonly schema: Schema },
): Topic<StandardSchemaV1.InferInput<Schema>, StandardSchemaV1.InferOutput<Schema>>;
export function topic<T>(name?: string, options?: TopicOptions): Topic<T>;
export function topic<T>(name?: string, options: TopicOptions = {}): Topic<T> {
  const what = name === undefined ? 'The topic without a name' : `Topic "${checkOwnName('A topic name', name)}"`;
  checkKnownOptions(what, options, [
    ...['schema', 'serialization', 'maxValueBytes'],
    ...['maxWaiting', 'maxWaitingBytes', 'toEnded'],
  ]);
  checkMaxValueBytes(what, options.maxValueBytes);
  checkSerialization(what, options.serialization);
  if (name === nullTopic) {
    throw new HoldfastError('INVALID_NAME', `"${nullTopic}" stands for no name. For that topic, leave the name out.`);
  }
  const { schema } = options;
  if (schema !== undefined && (Object(schema) !== schema || !('~standard' in schema))) {
    throw invalidOption(what, 'schema', schema, 'a Standard Schema');
  }
  const parts: TopicParts = { what, topic: name ?? nullTopic, options, rules: rulesOf(what, options) };
  return {
    topicName: name,
    send: (workflowId, value, rest = {}) => {
      checkKnownOptions(`send() of ${what}`, rest, ['idempotencyKey', 'app']);
      const { app, ...own } = rest;
      return send(parts, [{ to: workflowId, value, ...own }], app);
    },
    sendIn: async (tx, workflowId, value, rest = {}) => {
      checkKnownOptions(`sendIn() of ${what}`, rest, ['idempotencyKey', 'app']);
      const { app, ...own } = rest;
      await sendIn(parts, tx, { to: workflowId, value, ...own }, app);
    },
    sendAll: (letters, rest = {}) => {
      checkKnownOptions(`sendAll() of ${what}`, rest, ['app']);
      return send(parts, checkLetters(what, letters), rest.app);
    },
    receive: (rest = {}) => receive(parts, rest) as Promise<T | undefined>,
  };
}

interface TopicParts {
  readonly what: string;
  readonly topic: string;
  readonly options: TopicOptions;
  readonly rules: Rules;
}

function checkLetters(what: string, letters: unknown): readonly Message<unknown>[] {
  if (!Array.isArray(letters)) throw invalidOption(what, 'letters', letters, 'a list of { to, value }');
  for (const letter of letters) checkKnownOptions(`A letter of ${what}`, letter, ['to', 'value', 'idempotencyKey']);
  return letters;
}

function send(own: TopicParts, letters: readonly Message<unknown>[], app: object | undefined): Promise<void> {
  for (const { to, idempotencyKey } of letters) {
    checkName('A workflow ID', to);
    if (idempotencyKey !== undefined) checkName('An idempotency key', idempotencyKey);
  }
  const engine = resolveEngine(`send() of ${own.what}`, app);
  const scope = currentScope();
  if (scope?.step) {
    checkOpenFor(engine);
    return scope.execution.calls.follow(sendName, scope.step.stepNumber, sendNow(own, letters, engine));
  }
  // To another database it cannot go together with this workflow's record.
  if (scope && scope.execution.engine === engine) return sendRecorded(own, letters, scope.execution);
  if (scope) throw otherDatabase(own);
  checkOpenFor(engine);
  return sendNow(own, letters, engine);
}

async function sendIn(own: TopicParts, tx: unknown, letter: Message<unknown>, app: object | undefined): Promise<void> {
  const { to, idempotencyKey } = letter;
  checkName('A workflow ID', to);
  if (idempotencyKey !== undefined) checkName('An idempotency key', idempotencyKey);
  const what = `sendIn() of ${own.what}`;
  const engine = resolveEngine(what, app);
  checkOpenFor(engine);
  const messages = await ready(own, [letter], engine);
  sent(engine, messages);
  const within = await storageIn(engine, what, tx, 'send a message');
  for (const message of messages) {
    if (!(await sendWithin(own.rules, tx as object, within, message))) throw notFoundError(to);
  }
}

function otherDatabase({ what }: TopicParts): HoldfastError {
  return new HoldfastError(
    'UNSUPPORTED_CALL',
    `${what}: a workflow can send exactly once only through its own app. To send through another one, do so in a step.`,
  );
}

function sendRecorded(own: TopicParts, letters: readonly Message<unknown>[], execution: Execution): Promise<void> {
  return once(execution, sendName, () =>
    effectsOutcome(execution, lineOf(own), async () => {
      const messages = await ready(own, letters, execution.engine, execution);
      // Not counted as under way: nobody would learn that a message is lost together with its execution.
      sent(execution.engine, messages);
      const absent = await execution.engine.codecs.native.encodeError(absentError(letters));
      return { effects: messages.map((message) => ({ kind: 'message', ...message })), errorIfAbsent: absent };
    }),
  );
}

function lineOf({ topic }: TopicParts): string {
  return `message:${topic}`;
}

/** Goes out in the order of the calls: at once, unless it, or one before it, is still being made ready. */
async function sendNow(own: TopicParts, letters: readonly Message<unknown>[], engine: Engine): Promise<void> {
  const made = ready(own, letters, engine);
  const isFirst = Array.isArray(made) && !isAnyBefore(engine, lineOf(own));
  const messages = isFirst ? made : await inCallOrder(engine, lineOf(own), async () => made);
  try {
    if (messages.length > 0 && !(await engine.messageWriter.send(messages))) throw absentError(letters);
  } finally {
    sent(engine, messages);
  }
  for (const { destination } of messages) engine.news.announce(`message:${watchKey(destination, own.topic)}`);
}

function absentError(letters: readonly Message<unknown>[]): HoldfastError {
  const [first, second] = letters;
  if (first && !second) return notFoundError(first.to);
  return new HoldfastError(
    'WORKFLOW_NOT_FOUND',
    `One of the ${letters.length} recipients does not exist, so that nothing was sent. Check their IDs.`,
    { details: { workflowIds: letters.slice(0, 100).map(({ to }) => to) } },
  );
}

/** The messages, encoded and admitted: at once, where nothing has to be waited for. */
function ready(
  own: TopicParts,
  letters: readonly Message<unknown>[],
  engine: Engine,
  execution?: Execution,
): NewMessage[] | Promise<NewMessage[]> {
  const made = toMessages(own, letters, engine, execution);
  if (Array.isArray(made)) return admitted(engine, own.rules, made);
  return made.then((messages) => admitted(engine, own.rules, messages));
}

/**
 * Encoded before anything is awaited, unless there is a schema: the caller may change the values afterwards. Answers at
 * once where schema and serializer do not have to be waited for.
 */
function toMessages(
  own: TopicParts,
  letters: readonly Message<unknown>[],
  engine: Engine,
  execution?: Execution,
): NewMessage[] | Promise<NewMessage[]> {
  const codec = codecFor(engine, own.options.serialization, execution);
  const sentAt = engine.clock.now();
  const toMessage = ({ to, idempotencyKey }: Message<unknown>, value: string): NewMessage => ({
    messageId: idempotencyKey === undefined ? randomUUID() : keyedId(idempotencyKey, to),
    destination: to,
    topic: own.topic,
    value,
    serialization: codec.name,
    sentAt,
  });
  const made = letters.map((letter) => {
    const text = toText(own, letter.value, codec);
    return typeof text === 'string' ? toMessage(letter, text) : text.then((later) => toMessage(letter, later));
  });
  // Not told by its class: programs that replace the global Promise have promises of two.
  return made.some((each) => 'then' in each) ? Promise.all(made) : (made as NewMessage[]);
}

/** Never throws: what another letter is still waiting for must not be left behind. */
function toText(own: TopicParts, value: unknown, codec: Codec): string | Promise<string> {
  const { schema } = own.options;
  const encode = (fit: unknown) => codec.encode(fit, `A message of ${own.what}`, own.options.maxValueBytes);
  if (schema) return checked(own, schema, value).then(encode);
  try {
    return encode(value);
  } catch (error) {
    return Promise.reject(error);
  }
}

/** As DBOS forms it; a key that would leave open where it ends and the recipient begins goes by its hash. */
function keyedId(idempotencyKey: string, to: string): string {
  const isPlain = !/::|:$/.test(idempotencyKey);
  return `${isPlain ? idempotencyKey : createHash('sha256').update(idempotencyKey).digest('hex')}::${to}`;
}

async function checked(own: TopicParts, schema: StandardSchemaV1, value: unknown): Promise<unknown> {
  const result = await schema['~standard'].validate(value);
  if (result.issues) throw schemaError('INVALID_INPUT', `A message of ${own.what}`, result.issues);
  return result.value;
}

/**
 * Takes two numbers, as DBOS does: one for what is received, one for the end of the wait. The message is consumed in the
 * statement that records it; if this execution has lost the workflow by then, neither happens.
 */
function receive(own: TopicParts, options: { readonly timeout?: Duration }): Promise<unknown> {
  const execution = requireExecution(`receive() of ${own.what}`);
  checkKnownOptions(`receive() of ${own.what}`, options, ['timeout']);
  const { timeout = defaultTimeoutMs } = options;
  const timeoutMs = parseDuration(timeout, `The timeout of receive() of ${own.what}`);
  const stepNumber = execution.takeStepNumber();
  const timer = reserve(execution, sleepName);
  return onceAt(execution, stepNumber, receiveName, async () => {
    const startedAt = execution.engine.clock.now();
    const inbox = inboxOf(execution, own.topic);
    const message = await foundBefore(execution, { stepNumber: timer, timeoutMs, startedAt }, inbox.receive());
    const outcome = await valueOutcome(execution, startedAt, message);
    if (!message) return outcome;
    const { messageId } = message;
    const onCommit = (): void => inbox.consumed(messageId);
    return { ...outcome, effects: [{ kind: 'consume', messageId }], onCommit };
  });
}
