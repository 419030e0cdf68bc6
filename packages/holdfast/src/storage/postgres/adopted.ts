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
  passOverAnnounced,
} from '../migrations/functions.js';
import type { Ddl } from '../migrations/migration.js';
import { createQueueLocks, queueLocks } from '../migrations/queue-locks.js';
import { sqlState } from './failures.js';

/**
 * What a schema of the right version may lack all the same, because someone else made it without, or dropped it: the trigger
 * that announces messages (DBOS can be told to make none), and the functions for clients with SQL.
 */
export interface Adopted {
  /**
   * Whether messages are announced that their sender does not announce. `unconditional`: so are all others, inside the
   * transactions that send them; it is the trigger as DBOS makes it. `disabled`: an operator has switched the trigger off,
   * which is not ours to undo.
   */
  readonly trigger: 'present' | 'unconditional' | 'missing' | 'disabled';
  /** The same of the trigger that announces them to processes of Holdfast. */
  readonly ownTrigger: 'present' | 'missing' | 'disabled';
  /** The functions that are missing. */
  readonly functions: readonly FunctionName[];
  /** What is missing of that by which claims and enqueues hold queues. Without it no queue works. */
  readonly locks: readonly string[];
}

const creators = {
  enqueue_workflow: (d: Ddl) => createEnqueueWorkflow(d, 105),
  send_message: createSendMessage,
} as const;
type FunctionName = keyof typeof creators;
const functionNames = Object.keys(creators) as FunctionName[];

/** As a look at the catalog names them. */
const lockNames = [
  ...queueLocks.functions.map((name) => `function ${name}`),
  ...queueLocks.triggers.map((name) => `trigger ${name}`),
];

const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;

/** Columns for the one statement that reads how far a schema is migrated. By the catalog, so that nothing fails. */
export function adoptedColumns(d: Ddl): string {
  const inSchema = `join pg_namespace n on n.oid = p.pronamespace where n.nspname = ${text(d.schema)} and p.proname`;
  const names = functionNames.map(text).join(', ');
  const ofLocks = queueLocks.functions.map(text).join(', ');
  const lockTriggers = queueLocks.triggers.map(text).join(', ');
  return (
    `${triggerColumn(d, messagesTrigger)} as trigger, ${triggerColumn(d, ownMessagesTrigger)} as own_trigger, ` +
    `array(select p.proname::text from pg_proc p ${inSchema} in (${names})) as functions, ` +
    `array(select 'function ' || p.proname from pg_proc p ${inSchema} in (${ofLocks}) union all ` +
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

export function toAdopted({ trigger, own_trigger: own, functions, locks }: AdoptedRow): Adopted {
  const ownState = stateOf(own);
  return {
    trigger: stateOf(trigger),
    ownTrigger: ownState === 'unconditional' ? 'present' : ownState,
    functions: functionNames.filter((name) => !functions.includes(name)),
    locks: lockNames.filter((name) => !locks.includes(name)),
  };
}

function stateOf(row: TriggerRow): Adopted['trigger'] {
  if (row === null) return 'missing';
  const { enabled, passes } = row;
  if (enabled !== 'O' && enabled !== 'A') return 'disabled';
  // Enabled for replicas too, by an operator: to replace it would undo that.
  return passes || enabled === 'A' ? 'present' : 'unconditional';
}

/** Whether messages of DBOS and from SQL come to Holdfast without news. */
export function isSilent({ ownTrigger }: Adopted): boolean {
  return ownTrigger !== 'present';
}

export function isComplete({ trigger, ownTrigger, functions, locks }: Adopted, triggers: boolean): boolean {
  const isAnnounced = !triggers || (trigger === 'present' && ownTrigger === 'present');
  return isAnnounced && functions.length === 0 && locks.length === 0;
}

/** What a launch may create of what is missing. What an operator has disabled, and what goes with it, stays as it is. */
function missingOf(d: Ddl, { trigger, ownTrigger, functions, locks }: Adopted, triggers: boolean): string[] {
  const missing = functions.flatMap((name) => creators[name](d));
  if (locks.length > 0) missing.push(...createQueueLocks(d));
  if (!triggers || trigger === 'disabled') return missing;
  return [
    ...(trigger === 'missing' ? createTrigger(d, messagesTrigger) : []),
    ...(trigger === 'present' ? [] : [passOverAnnounced(d, messagesTrigger)]),
    ...(ownTrigger === 'missing' ? createOwnTrigger(d) : []),
    ...missing,
  ];
}

export function canBeCompleted(d: Ddl, found: Adopted, triggers: boolean): boolean {
  return missingOf(d, found, triggers).length > 0;
}

/** Creates what is missing. Under the migration lock, and looked at again there. */
export async function createMissing(client: pg.ClientBase, d: Ddl, found: Adopted, triggers: boolean): Promise<void> {
  const statements = missingOf(d, found, triggers);
  if (statements.length > 0)
    await client.query(['begin', `set local lock_timeout = '2s'`, ...statements, 'commit'].join(';\n'));
}

/** This role may not, another process was first, or the table is locked for long. All else is a failure of the launch. */
export function mayNotCreate(error: unknown): boolean {
  return ['42501', '42710', '23505', '55P03'].includes(sqlState(error) ?? '');
}

/** Without the locks each claim and enqueue would fail, or none would wait for an edit of its queue. */
export function refuseWithoutLocks(d: Ddl, { locks }: Adopted, why: unknown): void {
  if (locks.length === 0) return;
  throw new HoldfastError(
    'SCHEMA_MISMATCH',
    `The schema "${d.schema}" lacks what queues need: the ${locks.join(', the ')}. A restore of the tables alone leaves these out. ` +
      `They were not created: ${becauseOf(why)}. Call migrate() once with a role that owns the schema.`,
    { details: { problems: locks.map((name) => `the ${name} is missing`) } },
  );
}

function becauseOf(why: unknown): string {
  return why === undefined ? '`migrate: false` creates nothing' : describeError(why);
}

/** Says what is still missing, and what follows from that. */
export function warnOfMissing(d: Ddl, found: Adopted, why: unknown, logger: Logger): void {
  const because = becauseOf(why);
  if (found.trigger === 'unconditional') {
    logger.warn(
      `The trigger ${messagesTrigger.trigger} in schema "${d.schema}" announces every message inside the transaction that sends it, ` +
        'and Postgres lets only one such transaction commit at a time. It was not replaced by one that leaves the messages of ' +
        `Holdfast's processes to them: ${because}. Call migrate() once with a role that owns the tables.`,
    );
  }
  const states = [
    [messagesTrigger.trigger, found.trigger, 'receivers of DBOS find by polling'],
    [ownMessagesTrigger.trigger, found.ownTrigger, 'Holdfast finds by polling, within a second'],
  ] as const;
  for (const [name, state, consequence] of states) {
    if (state !== 'missing' && state !== 'disabled') continue;
    const advice =
      state === 'disabled'
        ? `Enable it: alter table ${d.table(messagesTrigger.table)} enable trigger ${name}`
        : `It was not created: ${because}. Call migrate() once with a role that owns the tables`;
    logger.warn(
      `The trigger ${name}, which announces messages from DBOS and from SQL, is ${state} in schema "${d.schema}". Such messages ` +
        `${consequence}. ${advice}; or, if that is on purpose, launch with \`triggers: false\`.`,
    );
  }
  if (found.functions.length > 0) {
    logger.warn(
      `Functions for clients with SQL are missing in schema "${d.schema}": ${found.functions.join(', ')}. They were not created: ` +
        `${because}. Call migrate() once with a role that may create them.`,
    );
  }
}

/** A schema that was just made, for an app that wants no trigger. */
export async function dropMessagesTriggers(client: pg.ClientBase, d: Ddl): Promise<void> {
  for (const statement of withoutTriggers(d)) await client.query(statement);
}

export function withoutTriggers(d: Ddl): string[] {
  return [messagesTrigger, ownMessagesTrigger].map(
    ({ trigger, table }) => `drop trigger if exists ${trigger} on ${d.table(table)}`,
  );
}
