import type pg from 'pg';
import { HoldfastError } from '../../model/errors.js';
import { quoteIdentifier } from './identifiers.js';

/**
 * Exactly the rights that a role needs to run workflows without creating or changing tables. `launch` checks the rights
 * in one statement. `holdfast schema --grants` prints the statements that grant them.
 *
 * A test compares the list with every statement of `storage/sql` in both directions: with these rights the server plans
 * every statement, and without any one of these rights the server refuses at least one statement.
 */
const tablePrivileges: Readonly<Record<string, string>> = {
  workflow_status: 'select, insert, update, delete',
  operation_outputs: 'select, insert, update, delete',
  workflow_input: 'select, delete',
  workflow_output: 'select, delete',
  notifications: 'select, insert, update',
  workflow_events: 'select, insert, update',
  workflow_events_history: 'select, insert, update, delete',
  streams: 'select, insert, delete',
  queues: 'select, insert, update, delete',
  workflow_schedules: 'select, insert, update, delete',
  application_versions: 'select, insert, update',
  executors: 'select, insert, update, delete',
  step_attempts: 'select, insert, update, delete',
  dbos_migrations: 'select',
  holdfast_migrations: 'select',
};

const sequences = ['holdfast_enqueue_seq', 'holdfast_message_seq'];

/**
 * Every role may execute a function unless that right has been revoked. The trigger on the deletion of a queue runs
 * `holdfast_close_queue` as the role that deletes the queue, although no statement names that function.
 */
const functions = ['holdfast_hold_turn', 'holdfast_hold_queues', 'holdfast_close_queue'];

interface Right {
  readonly kind: 'schema' | 'table' | 'sequence' | 'function';
  readonly name: string;
  readonly privilege: string;
}

export function neededRights(schema: string): Right[] {
  const tables = Object.entries(tablePrivileges).flatMap(([name, list]) =>
    list.split(', ').map((privilege): Right => ({ kind: 'table', name, privilege })),
  );
  return [
    { kind: 'schema', name: schema, privilege: 'usage' },
    ...tables,
    ...sequences.map((name): Right => ({ kind: 'sequence', name, privilege: 'usage' })),
    ...functions.map((name): Right => ({ kind: 'function', name, privilege: 'execute' })),
  ];
}

/** Returns the statements that grant these rights to a role, one statement for each object. */
export function grantStatements(schema: string, role: string, rights: readonly Right[]): string[] {
  const to = quoteIdentifier(role);
  const quotedSchema = quoteIdentifier(schema);
  const objects = [...new Set(rights.map(({ kind, name }) => `${kind} ${name}`))];
  return objects.map((object) => {
    const objectRights = rights.filter(({ kind, name }) => `${kind} ${name}` === object);
    const { kind, name } = objectRights[0] as Right;
    const what = kind === 'schema' ? quotedSchema : `${quotedSchema}.${quoteIdentifier(name)}`;
    return `grant ${objectRights.map(({ privilege }) => privilege).join(', ')} on ${kind} ${what} to ${to}`;
  });
}

/**
 * Finds the missing rights by name in the catalog, which even a role without any right on the schema may read.
 * The query skips objects that do not exist.
 */
const missingRights = `
  select r.kind, r.name, r.privilege, current_user as role
  from unnest($2::text[], $3::text[], $4::text[]) with ordinality as r (kind, name, privilege, position)
  join pg_namespace s on s.nspname = $1
  left join pg_class c on c.relnamespace = s.oid and c.relname = r.name
    and c.relkind = any (case r.kind when 'sequence' then array['S'] else array['r', 'p', 'v', 'f'] end::"char"[])
  where not case r.kind
    when 'schema' then has_schema_privilege(s.oid, r.privilege)
    when 'table' then c.oid is null or has_table_privilege(c.oid, r.privilege)
    when 'sequence' then c.oid is null or has_sequence_privilege(c.oid, r.privilege)
    else not exists (select 1 from pg_proc p where p.pronamespace = s.oid and p.proname = r.name
      and not has_function_privilege(p.oid, r.privilege))
  end
  order by r.position`;

/** Throws an error that lists every missing right of the role, with the statements that grant these rights. */
export async function checkRights(client: pg.ClientBase, schema: string): Promise<void> {
  const needed = neededRights(schema);
  const columns = (['kind', 'name', 'privilege'] as const).map((column) => needed.map((right) => right[column]));
  const { rows } = await client.query(missingRights, [schema, ...columns]);
  if (rows.length === 0) return;
  const { role } = rows[0];
  const missing = rows.map(({ kind, name, privilege }) => `${privilege} on ${kind} ${name}`);
  const grants = grantStatements(schema, role, rows);
  throw new HoldfastError(
    'RIGHTS_MISSING',
    `The role "${role}" lacks rights on the tables of Holdfast in the schema "${schema}": ${missing.join('; ')}. ` +
      `Run this as the owner of the tables:\n\n${grants.join(';\n')};\n`,
    { details: { schema, role, missing, grants } },
  );
}
