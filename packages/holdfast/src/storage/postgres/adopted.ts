import type pg from 'pg';
import { describeError, HoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import {
  announcedBySender,
  createEnqueueWorkflow,
  createOwnTrigger,
  createSendMessage,
  createTrigger,
  messagesTrigger,
  type NotifyTrigger,
  ownMessagesTrigger,
  skipAnnounced,
} from '../migrations/functions.js';
import type { Ddl } from '../migrations/migration.js';
import { createQueueLocks, queueLocks } from '../migrations/queue-locks.js';
import { sqlState } from './failures.js';

/**
 * Objects that a schema of the right version may lack, because another program created the schema without them or
 * somebody dropped them: the triggers that announce messages (DBOS has an option to create none), and the SQL
 * functions.
 */
export interface SchemaObjects {
  /**
   * The trigger of DBOS that announces messages whose sender does not announce them.
   * `unconditional`: the trigger as DBOS creates it. It announces every message, inside the transaction that sends it.
   * `disabled`: an operator disabled the trigger. Holdfast does not undo that.
   */
  readonly trigger: 'present' | 'unconditional' | 'missing' | 'disabled';
  /** The trigger that announces the same messages to Holdfast processes. */
  readonly ownTrigger: 'present' | 'missing' | 'disabled';
  /** The missing SQL functions for clients. */
  readonly functions: readonly FunctionName[];
  /** The missing functions and triggers by which claims and enqueues lock queues. Without them no queue works. */
  readonly locks: readonly string[];
}

const creators = {
  enqueue_workflow: (d: Ddl) => createEnqueueWorkflow(d, 105),
  send_message: createSendMessage,
} as const;
type FunctionName = keyof typeof creators;
const functionNames = Object.keys(creators) as FunctionName[];

/** The names have the form that the query of {@link adoptedColumns} returns. */
const lockObjects = [
  ...queueLocks.functions.map((name) => `function ${name}`),
  ...queueLocks.triggers.map((name) => `trigger ${name}`),
];

const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;

/**
 * Columns for the one statement that reads the migration state of a schema.
 * The columns query the catalog, so a missing object does not make the statement fail.
 */
export function adoptedColumns(d: Ddl): string {
  const inSchema = `join pg_namespace n on n.oid = p.pronamespace where n.nspname = ${text(d.schema)} and p.proname`;
  const names = functionNames.map(text).join(', ');
  const lockFunctions = queueLocks.functions.map(text).join(', ');
  const lockTriggers = queueLocks.triggers.map(text).join(', ');
  return (
    `${triggerColumn(d, messagesTrigger)} as trigger, ${triggerColumn(d, ownMessagesTrigger)} as own_trigger, ` +
    `array(select p.proname::text from pg_proc p ${inSchema} in (${names})) as functions, ` +
    `array(select 'function ' || p.proname from pg_proc p ${inSchema} in (${lockFunctions}) union all ` +
    `select 'trigger ' || t.tgname from pg_trigger t where t.tgrelid = to_regclass(${text(d.table('queues'))}) ` +
    `and t.tgname in (${lockTriggers})) as locks`
  );
}

function triggerColumn(d: Ddl, t: Pick<NotifyTrigger, 'table' | 'trigger'>): string {
  return (
    '(select json_build_object(' +
    `'enabled', t.tgenabled::text, 'passes', position(${text(announcedBySender)} in pg_get_triggerdef(t.oid)) > 0) ` +
    `from pg_trigger t where t.tgrelid = to_regclass(${text(d.table(t.table))}) and t.tgname = ${text(t.trigger)})`
  );
}

type TriggerRow = { readonly enabled: string; readonly passes: boolean } | null;

interface AdoptedRow {
  readonly trigger: TriggerRow;
  readonly own_trigger: TriggerRow;
  readonly functions: readonly string[];
  readonly locks: readonly string[];
}

export function toSchemaObjects({ trigger, own_trigger: own, functions, locks }: AdoptedRow): SchemaObjects {
  const ownState = stateOf(own);
  return {
    trigger: stateOf(trigger),
    ownTrigger: ownState === 'unconditional' ? 'present' : ownState,
    functions: functionNames.filter((name) => !functions.includes(name)),
    locks: lockObjects.filter((name) => !locks.includes(name)),
  };
}

function stateOf(row: TriggerRow): SchemaObjects['trigger'] {
  if (row === null) return 'missing';
  const { enabled, passes } = row;
  if (enabled !== 'O' && enabled !== 'A') return 'disabled';
  // 'A': an operator enabled the trigger for replicas too (`enable always`). Replacing the trigger would undo that.
  return passes || enabled === 'A' ? 'present' : 'unconditional';
}

/** Returns true if no notification announces messages of DBOS and of SQL clients to Holdfast. */
export function lacksAnnouncements({ ownTrigger }: SchemaObjects): boolean {
  return ownTrigger !== 'present';
}

export function isComplete({ trigger, ownTrigger, functions, locks }: SchemaObjects, triggers: boolean): boolean {
  const isAnnounced = !triggers || (trigger === 'present' && ownTrigger === 'present');
  return isAnnounced && functions.length === 0 && locks.length === 0;
}

/**
 * Returns the statements with which a launch creates the missing objects.
 * If an operator has disabled the trigger of DBOS, both message triggers stay as they are.
 */
function creatingStatements(
  d: Ddl,
  { trigger, ownTrigger, functions, locks }: SchemaObjects,
  triggers: boolean,
): string[] {
  const missing = functions.flatMap((name) => creators[name](d));
  if (locks.length > 0) missing.push(...createQueueLocks(d));
  if (!triggers || trigger === 'disabled') return missing;
  return [
    ...(trigger === 'missing' ? createTrigger(d, messagesTrigger) : []),
    ...(trigger === 'present' ? [] : [skipAnnounced(d, messagesTrigger)]),
    ...(ownTrigger === 'missing' ? createOwnTrigger(d) : []),
    ...missing,
  ];
}

export function hasCreatableObjects(d: Ddl, found: SchemaObjects, triggers: boolean): boolean {
  return creatingStatements(d, found, triggers).length > 0;
}

/** Creates the missing objects. The caller holds the migration lock, and queried `found` under the lock. */
export async function createMissing(
  client: pg.ClientBase,
  d: Ddl,
  found: SchemaObjects,
  triggers: boolean,
): Promise<void> {
  const statements = creatingStatements(d, found, triggers);
  if (statements.length > 0)
    await client.query(['begin', `set local lock_timeout = '2s'`, ...statements, 'commit'].join(';\n'));
}

/**
 * Returns true if the role lacks the right to create an object, another process created the object first, or a lock was
 * not released in time. Every other error fails the launch.
 */
export function isToleratedFailure(error: unknown): boolean {
  return ['42501', '42710', '23505', '55P03'].includes(sqlState(error) ?? '');
}

/**
 * Throws if functions or triggers for queue locks are missing. Without a function every claim and enqueue fails.
 * Without a trigger no claim or enqueue waits for an edit or deletion of its queue.
 */
export function refuseWithoutLocks(d: Ddl, { locks }: SchemaObjects, reason: unknown): void {
  if (locks.length === 0) return;
  throw new HoldfastError(
    'SCHEMA_MISMATCH',
    `The schema "${d.schema}" lacks objects that queues need: the ${locks.join(', the ')}. ` +
      'A restore of only the tables leaves them out. ' +
      `They were not created: ${describeReason(reason)}. Call migrate() once with a role that owns the schema.`,
    { details: { problems: locks.map((name) => `the ${name} is missing`) } },
  );
}

function describeReason(reason: unknown): string {
  return reason === undefined ? '`migrate: false` creates nothing' : describeError(reason);
}

/** Warns about every object that is still missing, and names the consequence. */
export function warnAboutMissing(d: Ddl, found: SchemaObjects, reason: unknown, logger: Logger): void {
  const because = describeReason(reason);
  if (found.trigger === 'unconditional') {
    logger.warn(
      `The trigger ${messagesTrigger.trigger} in schema "${d.schema}" announces every message inside the transaction ` +
        'that sends the message, and Postgres commits only one such transaction at a time. ' +
        'Holdfast did not replace the trigger with one that skips the messages of Holdfast processes: ' +
        `${because}. Call migrate() once with a role that owns the tables.`,
    );
  }
  const states = [
    [messagesTrigger.trigger, found.trigger, 'DBOS receivers find these messages by polling'],
    [ownMessagesTrigger.trigger, found.ownTrigger, 'Holdfast finds these messages by polling, within a second'],
  ] as const;
  for (const [name, state, consequence] of states) {
    if (state !== 'missing' && state !== 'disabled') continue;
    const advice =
      state === 'disabled'
        ? `To enable it, run: alter table ${d.table(messagesTrigger.table)} enable trigger ${name}`
        : `It was not created: ${because}. Call migrate() once with a role that owns the tables`;
    logger.warn(
      `The trigger ${name}, which announces messages from DBOS and from SQL, is ${state} in schema "${d.schema}". ` +
        `${consequence}. ${advice}. If this is intended, launch with \`triggers: false\`.`,
    );
  }
  if (found.functions.length > 0) {
    logger.warn(
      `The SQL functions for clients are missing in schema "${d.schema}": ${found.functions.join(', ')}. ` +
        `They were not created: ${because}. Call migrate() once with a role that may create functions.`,
    );
  }
}

/** Drops the message triggers of a schema that was just created, for an app with `triggers: false`. */
export async function dropMessagesTriggers(client: pg.ClientBase, d: Ddl): Promise<void> {
  for (const statement of dropTriggerStatements(d)) await client.query(statement);
}

export function dropTriggerStatements(d: Ddl): string[] {
  return [messagesTrigger, ownMessagesTrigger].map(
    ({ trigger, table }) => `drop trigger if exists ${trigger} on ${d.table(table)}`,
  );
}
