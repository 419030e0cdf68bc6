import { HoldfastError } from '../../model/errors.js';
import { invalidOption } from '../../model/options.js';
import type { Ddl, Index } from './migration.js';
import { sharedMigrations } from './shared.js';

/** Who else uses the database: DBOS applications may (`shared`), or there are none (`none`). Postgres only. */
export type Compat = 'shared' | 'none';

const compats: readonly unknown[] = ['shared', 'none'] satisfies Compat[];

export function checkCompat(what: string, compat: unknown): Compat | undefined {
  if (compat === undefined || compats.includes(compat)) return compat as Compat | undefined;
  throw invalidOption(what, 'compat', compat, "'shared' or 'none'");
}

/**
 * Indexes of the shared layout that no statement of Holdfast needs. A test plans every statement without them. Where no DBOS
 * application uses the database they are only written: each row of a workflow and each step has entries there.
 */
const ofOthersOnly = [
  'idx_workflow_status_started_at',
  'idx_workflow_status_pending',
  'idx_workflow_status_in_flight',
  'idx_workflow_status_partition_dequeue_v2',
  'idx_workflow_status_attributes',
  'idx_operation_outputs_completed_at_function_name',
  'idx_notifications',
];

/** Those indexes as the migrations last built them, for the way back. */
export const indexesOfOthers: readonly Index[] = ofOthersOnly.map((name) => {
  const built = sharedMigrations.flatMap(({ indexes = [] }) => indexes).filter((index) => index.name === name);
  const last = built.at(-1);
  if (!last) throw new Error(`No migration builds ${name}.`);
  return last;
});

/**
 * Room for the second write of a sleep or a receive beside the first. Without the index on the end of steps these updates change no
 * indexed column, and are HOT where the page has room. With it they never are, and room is only room.
 */
export function compatSettings(d: Ddl, compat: Compat): string {
  const change = compat === 'none' ? 'set (fillfactor = 80)' : 'reset (fillfactor)';
  return `alter table ${d.table('operation_outputs')} ${change}`;
}

export function compatConflict(asked: Compat, recorded: Compat | null, where: string): HoldfastError {
  const now = recorded === null ? 'has not been decided for' : `is "${recorded}" in`;
  return new HoldfastError(
    'COMPAT_CONFLICT',
    `The layout ${now} ${where}, and this process asks for \`compat: '${asked}'\`. To change the layout for all processes, ` +
      `call migrate({ compat: '${asked}' }) once, or run \`holdfast migrate --compat ${asked}\`, with a role that owns the ` +
      'tables. To keep the layout, leave the option out.',
    { details: { asked, recorded } },
  );
}
