import type { Effect } from '../contract/messaging.js';
import type { EffectfulStep } from '../contract/steps.js';
import { type NewStep, stepKey } from '../contract/storage.js';
import type { BatchStatement, Columns, Database, Dialect } from '../database.js';
import { inLockOrder } from './lock-order.js';
import { predecessorsOnRecord } from './predecessors.js';
import { newStepColumns } from './rows.js';

/** `recipients`: the recipients of all messages of the step, if `effects` contains only the first portion. */
type Row = NewStep & {
  readonly effects: string;
  readonly recipients: string | null;
  /** The ID of the message that the step received. A step receives at most one message. */
  readonly consumes: string | null;
  readonly errorIfAbsent: string | null;
};

/** The number of effects per statement. A statement of this size takes about 200 ms. */
const portionSize = 10_000;

/**
 * Records steps that have effects: messages sent and consumed, events set, stream values written. One statement
 * commits the step and its effects together. A step with very many effects takes several statements in one
 * transaction, because Postgres limits the duration of each statement.
 */
export class EffectfulSteps {
  private readonly statements = new Map<string, Statements>();

  constructor(private readonly database: Database) {}

  /** Returns the keys (`stepKey`) of the recorded steps, and for each step whether its effects were applied. */
  async record(appName: string, steps: readonly EffectfulStep[]): Promise<Map<string, boolean>> {
    const isLong = ({ effects }: EffectfulStep) => this.database.dialect.locksRows && effects.length > portionSize;
    const found = await this.recordTogether(
      appName,
      steps.filter((step) => !isLong(step)),
    );
    for (const step of steps.filter(isLong)) found.push(...(await this.recordInPortions(appName, step)));
    return new Map(
      found.map((row) => [
        stepKey({ workflowId: row.workflow_uuid as string, stepNumber: Number(row.function_id) }),
        Boolean(row.landed),
      ]),
    );
  }

  private recordTogether(appName: string, steps: readonly EffectfulStep[]) {
    const rows = steps.map((step) => toRow(step, step.effects));
    const sorted = inLockOrder(this.database.dialect, rows, (row) => row.workflowId);
    return this.database.batch(this.statementsFor(steps).record, [appName], sorted);
  }

  private recordInPortions(appName: string, step: EffectfulStep) {
    const { record, append } = this.statementsFor([step]);
    const to = step.effects.flatMap((effect) => (effect.kind === 'message' ? [effect.destination] : []));
    const recipients = JSON.stringify([...new Set(to)].map((destination) => ({ kind: 'message', destination })));
    const lists = function* () {
      for (let i = portionSize; i < step.effects.length; i += portionSize) {
        yield [toRow(step, step.effects.slice(i, i + portionSize))];
      }
    };
    const first = { ...toRow(step, step.effects.slice(0, portionSize)), recipients };
    return this.database.batch({ ...record, portions: { text: append, lists } }, [appName], [first]);
  }

  /**
   * Returns statements with only the needed kinds of effects. Each kind has a cost even if no row has such an effect.
   */
  private statementsFor(steps: readonly EffectfulStep[]): Statements {
    const present = new Set(steps.flatMap(({ effects }) => effects.map(({ kind }) => kind)));
    const needed = kinds.filter((kind) => present.has(kind));
    const known = this.statements.get(needed.join());
    if (known) return known;
    const made = effectsStatements(this.database.dialect, needed);
    this.statements.set(needed.join(), made);
    return made;
  }
}

interface Statements {
  readonly record: BatchStatement<Row>;
  /** Adds more effects to a step that the same transaction has recorded. */
  readonly append: string;
}

function toRow(step: EffectfulStep, effects: readonly Effect[]): Row {
  const consumed = effects.find((effect) => effect.kind === 'consume');
  return {
    ...step,
    effects: JSON.stringify(effects.map(toJson)),
    recipients: null,
    consumes: consumed?.messageId ?? null,
  };
}

type Kind = Effect['kind'];
const kinds: readonly Kind[] = ['message', 'consume', 'event', 'stream'];

/** Gives all kinds of effects one shape. `id` is a message ID; `key` is the key of an event or stream, or a topic. */
function toJson(effect: Effect): object {
  switch (effect.kind) {
    case 'message': {
      const { kind, messageId, destination, topic, value, serialization, sentAt } = effect;
      return { kind, id: messageId, destination, key: topic, value, serialization, at: sentAt };
    }
    case 'consume':
      return { kind: effect.kind, id: effect.messageId };
    default:
      return effect;
  }
}

const effectColumns = {
  kind: 'text',
  id: 'text',
  destination: 'text',
  key: 'text',
  value: 'text',
  serialization: 'text',
  at: 'bigint',
} as const;

const rowColumns: Columns<Row> = {
  ...newStepColumns,
  effects: 'text',
  recipients: 'text',
  consumes: 'text',
  errorIfAbsent: 'text',
};

/**
 * Returns a condition: the effects of the step are applied. An error means that a recipient is missing, so nothing is
 * sent. A receive is an exception: it consumes its message even if the message cannot be read.
 */
const landed = (step: string): string => `(${step}.error is null or ${step}.function_name = 'DBOS.recv')`;

/**
 * Returns a condition: the message that the step consumes is in the database. After a restore from a backup, the
 * message may be missing. Its sender then lost the record of the send as well and sends the message again. Without
 * this condition, the workflow would receive the message twice.
 */
function consumedMessageExists(d: Dialect): string {
  const message = `select 1 from ${d.table('notifications')} n where n.message_uuid = r.consumes`;
  return `(r.consumes is null or (${message}) = 1)`;
}

function effectsStatements(d: Dialect, needed: readonly Kind[]): Statements {
  const workflows = d.table('workflow_status');
  const recipients = d.jsonRows('x', { kind: 'text', destination: 'text' }, 'coalesce(r.recipients, r.effects)');
  const absent =
    `exists (select 1 from ${recipients} where x.kind = 'message' and not exists ` +
    `(select 1 from ${workflows} d where d.workflow_uuid = x.destination))`;
  const main = [
    `insert into ${d.table('operation_outputs')} (workflow_uuid, function_id, function_name, output, error,`,
    'serialization, child_workflow_id, started_at_epoch_ms, completed_at_epoch_ms, completion_seq, requested_after, application_name)',
    'select r."workflowId", r."stepNumber", r.name, r.output,',
    needed.includes('message')
      ? `case when r."errorIfAbsent" is not null and ${absent} then r."errorIfAbsent" else r.error end,`
      : 'r.error,',
    'r.serialization, r."childWorkflowId", r."startedAt", r."completedAt", r."completionSeq", r."requestedAfter", $1',
    `from ${d.rows('r', rowColumns, 2)} ${d.fence('r."workflowId"', 'r.owner')} where ${predecessorsOnRecord(d)}`,
    needed.includes('consume') ? `and ${consumedMessageExists(d)}` : '',
    'on conflict (workflow_uuid, function_id) do nothing',
    `returning workflow_uuid, function_id, ${landed('operation_outputs')} as landed`,
  ].join(' ');
  const recorded = [
    `select o.workflow_uuid, o.function_id, ${landed('o')} as landed from ${d.rows('r', rowColumns, 2)}`,
    `join ${d.table('operation_outputs')} o on o.workflow_uuid = r."workflowId" and o.function_id = r."stepNumber"`,
    // Only a step that this transaction inserted gets more effects. A step that was recorded before, by an earlier
    // attempt of this write or by another owner, already has all its effects.
    'where o.xmin = pg_current_xact_id()::xid and $1::text is not null',
  ].join(' ');
  const effects = d.effects<Row>({
    rows: rowColumns,
    first: 2,
    list: 'effects',
    columns: effectColumns,
    carry: ['completionSeq'],
    keys: [
      ['workflowId', 'workflow_uuid'],
      ['stepNumber', 'function_id'],
    ],
  });
  const changes: Record<Kind, readonly string[]> = {
    message: [sendMessages(d, effects)],
    consume: [consume(d, effects)],
    event: [setEvents(d, effects), recordEventHistory(d, effects)],
    stream: [writeStreams(d, effects)],
  };
  const also = needed.flatMap((kind) => changes[kind]);
  return {
    record: {
      name: 'steps.record-effects',
      variant: needed.join('-'),
      columns: rowColumns,
      ...d.together(main, also),
    },
    append: d.together(recorded, also).text,
  };
}

/** Inserts messages in the order in which they were sent. The order of insertion decides the order in the inbox. */
function sendMessages(d: Dialect, effects: string): string {
  return [
    `insert into ${d.table('notifications')} (message_uuid, destination_uuid, topic, message, serialization,`,
    'created_at_epoch_ms, announced_by_sender) select e.id, e.destination, e.key, e.value, e.serialization, e.at, true',
    `from ${effects} where e.kind = 'message' order by e."completionSeq", e.position`,
    'on conflict (message_uuid) do nothing',
  ].join(' ');
}

/**
 * Marks messages as consumed, with the number of the receiving step. A retry that removes this step from the history
 * makes the message available again.
 */
function consume(d: Dialect, effects: string): string {
  return [
    `update ${d.table('notifications')} as n set consumed = true, consumed_by = e."stepNumber"`,
    `from ${effects} where e.kind = 'consume' and n.message_uuid = e.id`,
  ].join(' ');
}

/** Selects the latest value of an event that is set several times. One statement cannot change the same row twice. */
function lastOfEach(effects: string, ...per: string[]): string {
  const order = 'e."completionSeq" desc, e.position desc';
  return (
    `(select e.*, row_number() over (partition by ${per.join(', ')} order by ${order}) as nth ` +
    `from ${effects} where e.kind = 'event') last where last.nth = 1`
  );
}

function setEvents(d: Dialect, effects: string): string {
  return [
    `insert into ${d.table('workflow_events')} (workflow_uuid, key, value, serialization)`,
    `select last."workflowId", last.key, last.value, last.serialization`,
    `from ${lastOfEach(effects, 'e."workflowId"', 'e.key')}`,
    'on conflict (workflow_uuid, key) do update set value = excluded.value, serialization = excluded.serialization',
  ].join(' ');
}

function recordEventHistory(d: Dialect, effects: string): string {
  return [
    `insert into ${d.table('workflow_events_history')} (workflow_uuid, function_id, key, value, serialization)`,
    `select last."workflowId", last."stepNumber", last.key, last.value, last.serialization`,
    `from ${lastOfEach(effects, 'e."workflowId"', 'e."stepNumber"', 'e.key')}`,
    'on conflict (workflow_uuid, function_id, key) do update',
    'set value = excluded.value, serialization = excluded.serialization',
  ].join(' ');
}

/**
 * Appends values to streams, with offsets without gaps: only the owner of a workflow writes to its streams, and only
 * one statement at a time.
 *
 * Only the first value of a stream reads the last offset. Postgres reads the index from its end and skips every row
 * that the same statement has already inserted. A lookup for each value would take quadratic time.
 */
function writeStreams(d: Dialect, effects: string): string {
  const streams = d.table('streams');
  const stream = 'partition by e."workflowId", e.key';
  const last = `select max(s."offset") from ${streams} s where s.workflow_uuid = e."workflowId" and s.key = e.key`;
  return [
    `insert into ${streams} (workflow_uuid, key, value, "offset", function_id, serialization)`,
    `select e."workflowId", e.key, e.value, e.nth + max(case when e.nth = 1 then coalesce((${last}), -1) end)`,
    `over (${stream}), e."stepNumber", e.serialization`,
    `from (select e.*, row_number() over (${stream} order by e."completionSeq", e.position) as nth`,
    `from ${effects} where e.kind = 'stream') e`,
  ].join(' ');
}
