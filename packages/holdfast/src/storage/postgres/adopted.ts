import type pg from 'pg';
import { describeError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { createEnqueueWorkflow, createSendMessage, createTrigger, messagesTrigger } from '../migrations/functions.js';
import type { Ddl } from '../migrations/migration.js';
import { sqlState } from './failures.js';

/**
 * What a schema of the right version may lack all the same, because someone else made it without, or dropped it: the trigger
 * that announces messages (DBOS can be told to make none), and the functions for clients with SQL.
 */
export interface Adopted {
  /** Whether messages are announced. `disabled`: an operator has switched the trigger off, which is not ours to undo. */
  readonly trigger: 'present' | 'missing' | 'disabled';
  /** The functions that are missing. */
  readonly functions: readonly FunctionName[];
}

const creators = {
  enqueue_workflow: (d: Ddl) => createEnqueueWorkflow(d, 105),
  send_message: createSendMessage,
} as const;
type FunctionName = keyof typeof creators;
const functionNames = Object.keys(creators) as FunctionName[];

const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;

/** Columns for the one statement that reads how far a schema is migrated. By the catalog, so that nothing fails. */
export function adoptedColumns(d: Ddl): string {
  const names = functionNames.map(text).join(', ');
  return (
    `(select t.tgenabled::text from pg_trigger t where t.tgrelid = to_regclass(${text(d.table(messagesTrigger.table))}) ` +
    `and t.tgname = ${text(messagesTrigger.trigger)}) as trigger, ` +
    `array(select p.proname::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace ` +
    `where n.nspname = ${text(d.schema)} and p.proname in (${names})) as functions`
  );
}

export function toAdopted(row: { readonly trigger: string | null; readonly functions: readonly string[] }): Adopted {
  const enabled = row.trigger === 'O' || row.trigger === 'A';
  return {
    trigger: row.trigger === null ? 'missing' : enabled ? 'present' : 'disabled',
    functions: functionNames.filter((name) => !row.functions.includes(name)),
  };
}

export function isComplete({ trigger, functions }: Adopted, triggers: boolean): boolean {
  return (trigger === 'present' || !triggers) && functions.length === 0;
}

/** Creates what is missing. Under the migration lock, and looked at again there. */
export async function createMissing(client: pg.ClientBase, d: Ddl, found: Adopted, triggers: boolean): Promise<void> {
  const statements = [
    ...(found.trigger === 'missing' && triggers ? createTrigger(d, messagesTrigger) : []),
    ...found.functions.map((name) => creators[name](d)),
  ];
  if (statements.length > 0)
    await client.query(['begin', `set local lock_timeout = '2s'`, ...statements, 'commit'].join(';\n'));
}

/** This role may not, another process was first, or the table is locked for long. All else is a failure of the launch. */
export function mayNotCreate(error: unknown): boolean {
  return ['42501', '42710', '23505', '55P03'].includes(sqlState(error) ?? '');
}

/** Says what is still missing, and what follows from that. */
export function warnOfMissing(d: Ddl, found: Adopted, why: unknown, logger: Logger): void {
  const because = why === undefined ? '`migrate: false` creates nothing' : describeError(why);
  if (found.trigger !== 'present') {
    const advice =
      found.trigger === 'disabled'
        ? `Enable it: alter table ${d.table(messagesTrigger.table)} enable trigger ${messagesTrigger.trigger}`
        : `It was not created: ${because}. Call migrate() once with a role that owns the tables`;
    logger.warn(
      `The trigger ${messagesTrigger.trigger}, which announces messages, is ${found.trigger} in schema "${d.schema}". Messages ` +
        `from DBOS and from SQL are found by polling, within a second. ${advice}; or, if that is on purpose, launch with ` +
        '`triggers: false`.',
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
export async function dropMessagesTrigger(client: pg.ClientBase, d: Ddl): Promise<void> {
  await client.query(`drop trigger if exists ${messagesTrigger.trigger} on ${d.table(messagesTrigger.table)}`);
}
