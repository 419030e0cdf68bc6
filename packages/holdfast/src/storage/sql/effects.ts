import type { BatchStatement, Columns, Database, Dialect } from '../database.js';
import type { Effect } from '../messaging.js';
import type { EffectfulStep } from '../steps.js';
import { type NewStep, stepKey } from '../storage.js';
import { inLockOrder } from './lock-order.js';
import { newStepColumns } from './rows.js';

type Row = NewStep & { readonly effects: string; readonly errorIfAbsent: string | null };

/**
 * Steps that bring something about beside their record: messages sent and consumed, events set, streams written. One
 * statement commits both, so that neither is ever there without the other.
 */
export class EffectfulSteps {
  private readonly statements = new Map<string, BatchStatement<Row>>();

  constructor(private readonly database: Database) {}

  /** The keys (`stepKey`) of the steps that were recorded, and whether each had its effects. */
  async record(appName: string, steps: readonly EffectfulStep[]): Promise<Map<string, boolean>> {
    const rows: Row[] = steps.map((step) => ({ ...step, effects: JSON.stringify(step.effects.map(toJson)) }));
    const sorted = inLockOrder(this.database.dialect, rows, (row) => row.workflowId);
    const found = await this.database.batch(this.statementFor(steps), [appName], sorted);
    return new Map(
      found.map((row) => [
        stepKey({ workflowId: row.workflow_uuid as string, stepNumber: Number(row.function_id) }),
        Boolean(row.landed),
      ]),
    );
  }

  /** Only with what is needed: each kind of effect costs something even where there is nothing of it. */
  private statementFor(steps: readonly EffectfulStep[]): BatchStatement<Row> {
    const present = new Set(steps.flatMap(({ effects }) => effects.map(({ kind }) => kind)));
    const needed = kinds.filter((kind) => present.has(kind));
    const known = this.statements.get(needed.join());
    if (known) return known;
    const made = effectsStatement(this.database.dialect, needed);
    this.statements.set(needed.join(), made);
    return made;
  }
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

const rowColumns: Columns<Row> = { ...newStepColumns, effects: 'text', errorIfAbsent: 'text' };

function effectsStatement(d: Dialect, needed: readonly Kind[]): BatchStatement<Row> {
  const workflows = d.table('workflow_status');
  const recipients = d.jsonRows('x', { kind: 'text', destination: 'text' }, 'r.effects');
  const absent =
    `exists (select 1 from ${recipients} where x.kind = 'message' and not exists ` +
    `(select 1 from ${workflows} d where d.workflow_uuid = x.destination))`;
  const main = [
    `insert into ${d.table('operation_outputs')} (workflow_uuid, function_id, function_name, output, error,`,
    'serialization, child_workflow_id, started_at_epoch_ms, completed_at_epoch_ms, completion_seq, application_name)',
    'select r."workflowId", r."stepNumber", r.name, r.output,',
    needed.includes('message')
      ? `case when r."errorIfAbsent" is not null and ${absent} then r."errorIfAbsent" else r.error end,`
      : 'r.error,',
    'r.serialization, r."childWorkflowId", r."startedAt", r."completedAt", r."completionSeq", $1',
    `from ${d.rows('r', rowColumns, 2)} ${d.fence('r."workflowId"', 'r.owner')} where true`,
    'on conflict (workflow_uuid, function_id) do nothing',
    // An error is the absence of a recipient, but for a receive: what cannot be read is consumed all the same.
    "returning workflow_uuid, function_id, (error is null or function_name = 'DBOS.recv') as landed",
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
  return {
    name: 'steps.record-effects',
    variant: needed.join('-'),
    columns: rowColumns,
    ...d.together(
      main,
      needed.flatMap((kind) => changes[kind]),
    ),
  };
}

/** In the order in which they were sent: each gets its place from the order in which it is inserted. */
function sendMessages(d: Dialect, effects: string): string {
  return [
    `insert into ${d.table('notifications')} (message_uuid, destination_uuid, topic, message, serialization,`,
    'created_at_epoch_ms) select e.id, e.destination, e.key, e.value, e.serialization, e.at',
    `from ${effects} where e.kind = 'message' order by e."completionSeq", e.position`,
    'on conflict (message_uuid) do nothing',
  ].join(' ');
}

function consume(d: Dialect, effects: string): string {
  return [
    `update ${d.table('notifications')} set consumed = true`,
    `where message_uuid in (select e.id from ${effects} where e.kind = 'consume')`,
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

/** Offsets without gaps: only the owner of a workflow writes to its streams, and one statement at a time. */
function writeStreams(d: Dialect, effects: string): string {
  const streams = d.table('streams');
  return [
    `insert into ${streams} (workflow_uuid, key, value, "offset", function_id, serialization)`,
    'select e."workflowId", e.key, e.value,',
    `coalesce((select max(s."offset") from ${streams} s where s.workflow_uuid = e."workflowId" and s.key = e.key), -1)`,
    '+ row_number() over (partition by e."workflowId", e.key order by e."completionSeq", e.position),',
    `e."stepNumber", e.serialization from ${effects} where e.kind = 'stream'`,
  ].join(' ');
}
