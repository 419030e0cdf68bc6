import { HoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { contradiction } from './dbos-version-check.js';
import { holdfastMigrations } from './holdfast-migrations.js';
import { untestedVersionWarning } from './layout.js';
import { latestVersion } from './migration.js';
import { sharedMigrations } from './shared.js';

/** The migration state of a database: the numbers in its two counter tables, or 0 for a missing table. */
export interface MigrationState {
  readonly shared: number;
  readonly own: number;
  /**
   * The oldest code that can work on the database, as a newer Holdfast declared it. Absent if no newer Holdfast
   * migrated the database. Null: the database declares nothing.
   */
  readonly oldestCode?: number | null;
}

export const target: Required<Pick<MigrationState, 'shared' | 'own'>> = {
  shared: latestVersion(sharedMigrations),
  own: latestVersion(holdfastMigrations),
};

/**
 * Returns true if there is nothing to migrate.
 *
 * A higher shared version means that a newer DBOS has migrated the database. Newer DBOS migrations keep the columns
 * that Holdfast uses. A higher Holdfast version is unknown to this code, so this function throws, unless the database
 * declares that code as old as this can work on it. In that case a process of the previous release may start during a
 * deploy.
 */
export function isCurrent(state: MigrationState): boolean {
  if (isNewer(state) && (state.oldestCode ?? Number.POSITIVE_INFINITY) > target.own) {
    const { own: found, oldestCode = null } = state;
    const needed = oldestCode === null ? '' : ` and requires code that knows at least ${oldestCode}`;
    throw new HoldfastError(
      'SCHEMA_TOO_NEW',
      `The database was migrated by a newer Holdfast: holdfast_migrations is at ${found}${needed}, ` +
        `but this process knows only ${target.own}. Upgrade the holdfast package of this process.`,
      { details: { found, known: target.own, oldestCode } },
    );
  }
  return state.shared >= target.shared && state.own >= target.own;
}

/** Returns true if a newer Holdfast has migrated the database. */
export function isNewer(state: Pick<MigrationState, 'own'>): boolean {
  return state.own > target.own;
}

/** Logs a warning if a newer Holdfast has migrated the database, and another warning if a newer DBOS has. */
export function warnIfNewer(state: MigrationState, where: string, logger: Logger): void {
  const untested = untestedVersionWarning(state.shared, where);
  if (untested) logger.warn(untested);
  if (!isNewer(state)) return;
  logger.warn(
    `${where} was migrated by a newer Holdfast (holdfast_migrations is at ${state.own}, this process knows ` +
      `${target.own}). This process can still work on it, as is normal during a deploy, but upgrade this process soon.`,
  );
}

export function migrationRequired(state: MigrationState, where: string): HoldfastError {
  return new HoldfastError(
    'MIGRATION_REQUIRED',
    `${where} is not migrated for this version of Holdfast: dbos_migrations is at ${state.shared} and needs ` +
      `${target.shared}, holdfast_migrations is at ${state.own} and needs ${target.own}. ` +
      'Call migrate({ database }) once with a database role that may create tables, or start one process with ' +
      '`migrate: true` (the default).',
    { details: { found: state, needed: target } },
  );
}

/** Throws if the number in `dbos_migrations` has another meaning than in Holdfast. The check changes nothing. */
export function checkNumbering(state: MigrationState, facts: ReadonlySet<string>, where: string): void {
  const mismatch = contradiction(state.shared, facts);
  if (mismatch === null) return;
  throw new HoldfastError(
    'MIGRATION_REQUIRED',
    `${where} was not created by Holdfast and cannot be adopted yet: dbos_migrations is at ${state.shared}, ` +
      `but ${mismatch}. Below version 100, each DBOS language numbers its migrations differently. ` +
      `Upgrade the database with its own DBOS first (any release that reaches version 100; for TypeScript ` +
      `\`npx dbos migrate\`), or give Holdfast another schema or database. Nothing was changed.`,
    { details: { found: state, needed: target, reason: 'foreign-numbering', contradiction: mismatch } },
  );
}
