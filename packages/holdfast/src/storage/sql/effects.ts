import type { Effect } from '../contract/messaging.js';
import type { EffectfulStep } from '../contract/steps.js';
import { type NewStep, stepKey } from '../contract/storage.js';
import type { BatchStatement, Columns, Database, Dialect } from '../database.js';
import { inLockOrder } from './lock-order.js';
import { predecessorsOnRecord } from './predecessors.js';
import { newStepColumns } from './rows.js';

/** `recipients`: of all messages of the step, where `effects` has only the first portion of them. */
type Row = NewStep & {
  readonly effects: string;
  readonly recipients: string | null;
  /** The message that the step received: a step receives one. */
  readonly consumes: string | null;
  readonly errorIfAbsent: string | null;
};

/** As many take about a fifth of a second. */
const portion = 10_000;

/**
 * Steps that bring something about beside their record: messages sent and consumed, events set, streams written. One
 * statement commits both, so that neither is ever there without the other. A step with very many effects takes several
 * statements in one transaction, because Postgres limits the time of each.
 */
export class EffectfulSteps {
  private readonly statements = new Map<string, Statements>();

  constructor(private readonly database: Database) {}

  /** The keys (`stepKey`) of the steps that were recorded, and whether each had its effects. */
  async record(appName: string, steps: readonly EffectfulStep[]): Promise<Map<string, boolean>> {
    const isLong = ({ effects }: EffectfulStep) => this.database.dialect.locksRows && effects.length > portion;
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
      for (let i = portion; i < step.effects.length; i += portion) {
        yield [toRow(step, step.effects.slice(i, i + portion))];
      }
    };
    const first = { ...toRow(step, step.effects.slice(0, portion)), recipients };
    return this.database.batch({ ...record, portions: { text: append, lists } }, [appName], [first]);
  }

  /** Only with what is needed: each kind of effect costs something even where there is nothing of it. */
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
  /** Adds more effects to a step that this very transaction has recorded. */
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

/** One shape for all kinds. `id`: of a message; `key`: of an event or stream, or a topic. */
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

/** An error is the absence of a recipient, but for a receive: what cannot be read is consumed all the same. */
const landed = (step: string): string => `(${step}.error is null or ${step}.function_name = 'DBOS.recv')`;

/** A message that a database has lost is sent again by whoever lost the record of that. It must not be received twice. */
function consumedOnRecord(d: Dialect): string {
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
    needed.includes('consume') ? `and ${consumedOnRecord(d)}` : '',
    'on conflict (workflow_uuid, function_id) do nothing',
    `returning workflow_uuid, function_id, ${landed('operation_outputs')} as landed`,
  ].join(' ');
  const recorded = [
    `select o.workflow_uuid, o.function_id, ${landed('o')} as landed from ${d.rows('r', rowColumns, 2)}`,
    `join ${d.table('operation_outputs')} o on o.workflow_uuid = r."workflowId" and o.function_id = r."stepNumber"`,
    // Of an earlier sending that was committed, or of another owner: then nothing is to be added.
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
    event: [setEvents(d, effects), noteEvents(d, effects)],
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

/** In the order in which they were sent: each gets its place from the order in which it is inserted. */
function sendMessages(d: Dialect, effects: string): string {
  return [
    `insert into ${d.table('notifications')} (message_uuid, destination_uuid, topic, message, serialization,`,
    'created_at_epoch_ms, announced_by_sender) select e.id, e.destination, e.key, e.value, e.serialization, e.at, true',
    `from ${effects} where e.kind = 'message' order by e."completionSeq", e.position`,
    'on conflict (message_uuid) do nothing',
  ].join(' ');
}

/** With the step that did: a retry that takes the step off the record gives the message back. */
function consume(d: Dialect, effects: string): string {
  return [
    `update ${d.table('notifications')} as n set consumed = true, consumed_by = e."stepNumber"`,
    `from ${effects} where e.kind = 'consume' and n.message_uuid = e.id`,
  ].join(' ');
}

/** An event that is set twice at once has the later value: a statement cannot change a row twice. */
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

function noteEvents(d: Dialect, effects: string): string {
  return [
    `insert into ${d.table('workflow_events_history')} (workflow_uuid, function_id, key, value, serialization)`,
    `select last."workflowId", last."stepNumber", last.key, last.value, last.serialization`,
    `from ${lastOfEach(effects, 'e."workflowId"', 'e."stepNumber"', 'e.key')}`,
    'on conflict (workflow_uuid, function_id, key) do update',
    'set value = excluded.value, serialization = excluded.serialization',
  ].join(' ');
}

/**
 * Offsets without gaps: only the owner of a workflow writes to its streams, and one statement at a time.
 *
 * Only the first value of a stream looks the last offset up. Postgres reads the index from its end, and passes over every
 * row that this very statement has inserted so far: a look-up for each value would cost the square of their number.
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
