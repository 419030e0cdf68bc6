import { channelInSql, generalChannel } from '../channel-names.js';
import type { Ddl } from './migration.js';

/**
 * The functions and triggers of the shared layout. Postgres only.
 *
 * The functions let any SQL client enqueue a workflow or send a message in its own transaction. Values have the
 * portable format. Clients recognize two failures by their SQLSTATE and message:
 *
 * - 23505 `DBOS queue duplicated`
 * - 23503 `DBOS non-existent workflow`
 */

/** Unqualified names are searched only in pg_catalog, so no other role can place its own object in front. */
const pinned = 'set search_path = pg_catalog, pg_temp';

export interface Parameter {
  readonly name: string;
  readonly type: string;
  readonly default?: string;
}

const optional = (name: string, type: string, value = 'null'): Parameter => ({ name, type, default: value });

const enqueueParameters: readonly Parameter[] = [
  { name: 'workflow_name', type: 'text' },
  { name: 'queue_name', type: 'text' },
  optional('positional_args', 'json[]', 'array[]::json[]'),
  optional('named_args', 'json', "'{}'::json"),
  optional('class_name', 'text'),
  optional('config_name', 'text'),
  optional('workflow_id', 'text'),
  optional('app_version', 'text'),
  optional('timeout_ms', 'bigint'),
  optional('deadline_epoch_ms', 'bigint'),
  optional('deduplication_id', 'text'),
  optional('priority', 'integer'),
  optional('queue_partition_key', 'text'),
];
const withIdentityAndDelay = [
  ...enqueueParameters,
  optional('authenticated_user', 'text'),
  optional('authenticated_roles', 'text'),
  optional('delay_until_epoch_ms', 'bigint'),
];
const withApplication = [...withIdentityAndDelay, optional('application_name', 'text')];

/** The parameters of `enqueue_workflow`, by the version that introduced them. */
const enqueueSignatures = { 14: enqueueParameters, 38: withIdentityAndDelay, 105: withApplication } as const;
export type EnqueueSignature = keyof typeof enqueueSignatures;

export function dropEnqueueWorkflow(d: Ddl, since: EnqueueSignature): string {
  return `drop function if exists ${enqueueIdentity(d, since)}`;
}

export function pinEnqueueWorkflow(d: Ddl, since: EnqueueSignature): string {
  return `alter function ${enqueueIdentity(d, since)} ${pinned}`;
}

function enqueueIdentity(d: Ddl, since: EnqueueSignature): string {
  const types = enqueueSignatures[since].map((parameter) => parameter.type);
  return `${d.table('enqueue_workflow')}(${types.join(', ')})`;
}

/** Qualifies a parameter with the function name, because parameters and columns have the same names. */
const given = (name: string): string => `enqueue_workflow.${name}`;

export function createEnqueueWorkflow(d: Ddl, since: EnqueueSignature): string {
  const body = `
declare
  id text := coalesce(${given('workflow_id')}, gen_random_uuid()::text);
  taken record;
begin
  if coalesce(${given('workflow_name')}, '') = '' then
    raise exception 'Workflow name cannot be null or empty';
  end if;
  if coalesce(${given('queue_name')}, '') = '' then
    raise exception 'Queue name cannot be null or empty';
  end if;
  if id = '' then
    raise exception 'Workflow ID cannot be an empty string if provided.';
  end if;
  if json_typeof(${given('named_args')}) <> 'object' then
    raise exception 'Named args must be a JSON object';
  end if;${checkDelay(since)}
  begin
    ${insertWorkflow(d, since)};
  exception when unique_violation then
    -- The ID cannot be what clashes, so it is the deduplication ID.
    raise exception 'DBOS queue duplicated' using errcode = 'unique_violation', detail = format(
      'Workflow %s with queue %s and deduplication ID %s already exists',
      id, ${given('queue_name')}, ${given('deduplication_id')});
  end;
  if not found then
    select w.name, w.class_name, w.config_name into taken
      from ${d.table('workflow_status')} w where w.workflow_uuid = id;
    if (taken.name, taken.class_name, taken.config_name)
      is distinct from (${given('workflow_name')}, ${given('class_name')}::varchar, ${given('config_name')}::varchar) then
      raise exception 'DBOS conflicting workflow' using detail = format(
        'Workflow ID %s belongs to %s, so %s cannot use it', id, taken.name, ${given('workflow_name')});
    end if;
  end if;
  return id;
end;`;
  return define(d, 'enqueue_workflow', enqueueSignatures[since], 'text', body, since > 20);
}

/** The error message is that of DBOS. */
function checkDelay(since: EnqueueSignature): string {
  if (since < 38) return '';
  return `
  if ${given('delay_until_epoch_ms')} < 0 then
    raise exception 'delay_until_epoch_ms must be >= 0';
  end if;`;
}

/**
 * Returns a query that has a row if `enqueue_workflow` is not the function of Holdfast: the function does not exist, or
 * DBOS created it. The text of DBOS differs in the line that the query searches for.
 */
export function hasOtherEnqueueWorkflow(d: Ddl, since: EnqueueSignature): string {
  const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;
  return (
    `select 1 where not exists (select 1 from pg_proc where oid = to_regprocedure(${text(enqueueIdentity(d, since))}) ` +
    `and position(${text(`id text := coalesce(${given('workflow_id')}`)} in prosrc) > 0)`
  );
}

function insertWorkflow(d: Ddl, since: EnqueueSignature): string {
  const extra = enqueueSignatures[since].slice(enqueueParameters.length).map((parameter) => parameter.name);
  const values: Record<string, string> = {
    workflow_uuid: 'id',
    status: extra.includes('delay_until_epoch_ms')
      ? `case when ${given('delay_until_epoch_ms')} is null then 'ENQUEUED' else 'DELAYED' end`
      : `'ENQUEUED'`,
    name: given('workflow_name'),
    class_name: given('class_name'),
    config_name: given('config_name'),
    inputs: `json_build_object(
        'positionalArgs', array_to_json(coalesce(${given('positional_args')}, array[]::json[])),
        'namedArgs', coalesce(${given('named_args')}, '{}'::json))::text`,
    serialization: `'portable_json'`,
    queue_name: given('queue_name'),
    queue_partition_key: given('queue_partition_key'),
    deduplication_id: given('deduplication_id'),
    priority: `coalesce(${given('priority')}, 0)`,
    application_version: given('app_version'),
    workflow_timeout_ms: given('timeout_ms'),
    workflow_deadline_epoch_ms: given('deadline_epoch_ms'),
    recovery_attempts: '0',
    owner_xid: 'gen_random_uuid()::text',
    ...Object.fromEntries(extra.map((name) => [name, given(name)])),
  };
  return `insert into ${d.table('workflow_status')} (${Object.keys(values).join(', ')})
    values (${Object.values(values).join(', ')})
    on conflict (workflow_uuid) do nothing`;
}

const sendParameters: readonly Parameter[] = [
  { name: 'destination_id', type: 'text' },
  { name: 'message', type: 'json' },
  optional('topic', 'text'),
  optional('message_id', 'text'),
];

export function createSendMessage(d: Ddl): string {
  const body = `
begin
  insert into ${d.table('notifications')} (message_uuid, destination_uuid, topic, message, serialization)
  values (
    coalesce(send_message.message_id, gen_random_uuid()::text), send_message.destination_id,
    coalesce(send_message.topic, '__null__topic__'), send_message.message::text, 'portable_json'
  )
  on conflict (message_uuid) do nothing;
exception when foreign_key_violation then
  raise exception 'DBOS non-existent workflow' using errcode = 'foreign_key_violation',
    detail = format('Destination workflow %s does not exist', send_message.destination_id);
end;`;
  return define(d, 'send_message', sendParameters, 'void', body, false);
}

export function pinSendMessage(d: Ddl): string {
  const types = sendParameters.map((parameter) => parameter.type);
  return `alter function ${d.table('send_message')}(${types.join(', ')}) ${pinned}`;
}

export interface NotifyTrigger {
  readonly table: string;
  readonly trigger: string;
  readonly function: string;
  readonly channel: string;
  /** The two columns of the payload `<workflow id>::<topic or key>`. */
  readonly payload: readonly [string, string];
}

export const messagesTrigger: NotifyTrigger = {
  table: 'notifications',
  trigger: 'dbos_notifications_trigger',
  function: 'notifications_function',
  channel: 'dbos_notifications_channel',
  payload: ['destination_uuid', 'topic'],
};

export const eventsTrigger: NotifyTrigger = {
  table: 'workflow_events',
  trigger: 'dbos_workflow_events_trigger',
  function: 'workflow_events_function',
  channel: 'dbos_workflow_events_channel',
  payload: ['workflow_uuid', 'key'],
};

export const streamsTrigger = {
  table: 'streams',
  trigger: 'dbos_streams_trigger',
  function: 'streams_function',
} as const;

export function createTrigger(d: Ddl, t: NotifyTrigger): string[] {
  // A payload over the limit of NOTIFY would make the insert fail. Skipping the notification is safe: every receiver
  // also polls.
  const body = `
declare
  payload text := concat(new.${t.payload[0]}, '::', new.${t.payload[1]});
begin
  if octet_length(payload) < 8000 then
    perform pg_notify('${t.channel}', payload);
  end if;
  return new;
end;`;
  return [
    define(d, t.function, [], 'trigger', body, false),
    `create trigger ${t.trigger} after insert on ${d.table(t.table)} for each row execute function ${d.table(t.function)}()`,
  ];
}

/** The column by which a sender declares that it announces its message itself. */
export const announcedBySender = 'announced_by_sender';

/**
 * Returns the statement that makes the trigger skip messages that their sender announces. Postgres commits only one
 * notifying transaction at a time, over all databases of a server. If a commit takes 5 ms, all senders together would
 * store only 200 messages per second. The statement sets a condition of the trigger, because the function belongs to
 * DBOS.
 */
export function skipAnnounced(d: Ddl, t: NotifyTrigger): string {
  return (
    `create or replace trigger ${t.trigger} after insert on ${d.table(t.table)} for each row ` +
    `when (new.${announcedBySender} is not true) execute function ${d.table(t.function)}()`
  );
}

/**
 * Announces the messages of the other trigger to Holdfast processes, on the channel that the waiting processes follow.
 */
export const ownMessagesTrigger = {
  table: 'notifications',
  trigger: 'holdfast_messages_trigger',
  function: 'holdfast_messages_function',
} as const;

export function createOwnTrigger(d: Ddl): string[] {
  const t = ownMessagesTrigger;
  const body = `
declare
  topic text := concat('message:', new.destination_uuid, '::', new.topic);
  payload text := json_build_object('topics', json_build_array(topic))::text;
begin
  if octet_length(payload) < 8000 then
    perform pg_notify(${channelInSql(generalChannel(d.schema), 'topic')}, payload);
  end if;
  return new;
end;`;
  return [
    define(d, t.function, [], 'trigger', body, true),
    `create or replace trigger ${t.trigger} after insert on ${d.table(t.table)} for each row ` +
      `when (new.${announcedBySender} is not true) execute function ${d.table(t.function)}()`,
  ];
}

/**
 * Returns a query that has a row unless the trigger exists and is enabled in the default way. A disabled trigger must
 * stay as it is, because replacing a trigger enables it.
 */
export function hasNoTrigger(d: Ddl, t: Pick<NotifyTrigger, 'table' | 'trigger'>): string {
  const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;
  return (
    'select 1 where not exists (select 1 from pg_trigger ' +
    `where tgrelid = to_regclass(${text(d.table(t.table))}) and tgname = ${text(t.trigger)} and tgenabled = 'O')`
  );
}

export function pinTrigger(d: Ddl, t: NotifyTrigger): string {
  return `alter function ${d.table(t.function)}() ${pinned}`;
}

export function dropTrigger(d: Ddl, t: Pick<NotifyTrigger, 'table' | 'trigger' | 'function'>): string[] {
  return [
    `drop trigger if exists ${t.trigger} on ${d.table(t.table)}`,
    `drop function if exists ${d.table(t.function)}()`,
  ];
}

export function define(
  d: Ddl,
  name: string,
  parameters: readonly Parameter[],
  returns: string,
  body: string,
  pin: boolean,
): string {
  const list = parameters.map((p) => `${p.name} ${p.type}${p.default ? ` default ${p.default}` : ''}`);
  const quote = dollarQuote(body);
  return (
    `create or replace function ${d.table(name)}(${list.join(', ')}) returns ${returns} ` +
    `language plpgsql ${pin ? `${pinned} ` : ''}as ${quote}${body}${quote}`
  );
}

/** Returns a dollar quote that the body does not contain. A schema name in the body may contain any text, even `$$`. */
function dollarQuote(body: string): string {
  let tag = 'body';
  while (body.includes(`$${tag}$`)) tag += '_';
  return `$${tag}$`;
}
