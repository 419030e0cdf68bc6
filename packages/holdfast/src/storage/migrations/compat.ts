import { HoldfastError } from '../../model/errors.js';
import { invalidOption } from '../../model/options.js';
import type { Ddl, Index } from './migration.js';
import { sharedMigrations } from './shared.js';

/** `shared`: DBOS applications may use the database, too. `none`: no DBOS application uses it. Postgres only. */
export type Compat = 'shared' | 'none';

const compats: readonly unknown[] = ['shared', 'none'] satisfies Compat[];

export function checkCompat(what: string, compat: unknown): Compat | undefined {
  if (compat === undefined || compats.includes(compat)) return compat as Compat | undefined;
  throw invalidOption(what, 'compat', compat, "'shared' or 'none'");
}

/**
 * Indexes of the shared layout that no statement of Holdfast needs. A test plans every statement without them. If no
 * DBOS application uses the database, no query reads these indexes, but every write of a workflow or a step maintains
 * them.
 */
const dbosOnlyIndexes = [
  'idx_workflow_status_started_at',
  'idx_workflow_status_pending',
  'idx_workflow_status_in_flight',
  'idx_workflow_status_partition_dequeue_v2',
  'idx_workflow_status_attributes',
  'idx_operation_outputs_completed_at_function_name',
  'idx_notifications',
];

/** The definitions of these indexes after the last migration, to build them again for `shared`. */
export const indexesOfOthers: readonly Index[] = dbosOnlyIndexes.map((name) => {
  const versions = sharedMigrations.flatMap(({ indexes = [] }) => indexes).filter((index) => index.name === name);
  const last = versions.at(-1);
  if (!last) throw new Error(`No migration builds the index ${name}.`);
  return last;
});

/**
 * Returns the statement for the fill factor of `operation_outputs`. Free space on a page is for the second write of a
 * sleep or a receive. Without the index on the end of steps these updates change no indexed column, and are HOT if the
 * page has free space. With that index these updates are never HOT, and the free space is wasted.
 */
export function compatSettings(d: Ddl, compat: Compat): string {
  const change = compat === 'none' ? 'set (fillfactor = 80)' : 'reset (fillfactor)';
  return `alter table ${d.table('operation_outputs')} ${change}`;
}

export function compatConflict(asked: Compat, recorded: Compat | null, where: string): HoldfastError {
  const status = recorded === null ? 'is not chosen yet for' : `is "${recorded}" in`;
  return new HoldfastError(
    'COMPAT_CONFLICT',
    `The layout ${status} ${where}, but this process asks for \`compat: '${asked}'\`. ` +
      `To change the layout for all processes, call migrate({ compat: '${asked}' }) once, ` +
      `or run \`holdfast migrate --compat ${asked}\`, with a role that owns the tables. ` +
      'To keep the layout, leave out the option.',
    { details: { asked, recorded } },
  );
}
