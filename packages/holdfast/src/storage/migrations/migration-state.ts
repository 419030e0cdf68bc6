import { HoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { contradiction } from './dbos-version-check.js';
import { holdfastMigrations } from './holdfast.js';
import { beyondTested } from './layout.js';
import { latestVersion } from './migration.js';
import { sharedMigrations } from './shared.js';

/** How far a database has been migrated: the numbers in its two counter tables, 0 where there is none. */
export interface MigrationState {
  readonly shared: number;
  readonly own: number;
  /** Of a database beyond what this code knows: the oldest code that it says can work on it. Null: it does not say. */
  readonly oldestCode?: number | null;
}

export const target: Required<Pick<MigrationState, 'shared' | 'own'>> = {
  shared: latestVersion(sharedMigrations),
  own: latestVersion(holdfastMigrations),
};

/**
 * Whether there is nothing to do. A shared version beyond ours is a database that a newer DBOS has migrated; what it
 * adds leaves our columns in place. A Holdfast version beyond ours is one whose meaning we cannot know, unless the database
 * says that code as old as this can work on it: then a process of the release before may start while a deploy is under way.
 */
export function isCurrent(standing: MigrationState): boolean {
  if (isBeyond(standing) && (standing.oldestCode ?? Number.POSITIVE_INFINITY) > target.own) {
    const { own: found, oldestCode = null } = standing;
    const needed = oldestCode === null ? '' : ` and needs code that knows at least ${oldestCode}`;
    throw new HoldfastError(
      'SCHEMA_TOO_NEW',
      `The database was migrated by a newer Holdfast (its holdfast_migrations is at ${found}${needed}, this one knows ` +
        `${target.own}). Upgrade the holdfast package of this process.`,
      { details: { found, known: target.own, oldestCode } },
    );
  }
  return standing.shared >= target.shared && standing.own >= target.own;
}

/** Whether it was migrated by a newer Holdfast than this. */
export function isBeyond(standing: Pick<MigrationState, 'own'>): boolean {
  return standing.own > target.own;
}

/** What a process says, once each, that starts on a database which a newer Holdfast or a newer DBOS has migrated. */
export function warnIfBeyond(standing: MigrationState, where: string, logger: Logger): void {
  const untested = beyondTested(standing.shared, where);
  if (untested) logger.warn(untested);
  if (!isBeyond(standing)) return;
  logger.warn(
    `${where} was migrated by a newer Holdfast (holdfast_migrations is at ${standing.own}, this process knows ` +
      `${target.own}). It says that this one can work on it, as during a deploy: upgrade this process soon.`,
  );
}

export function migrationRequired(standing: MigrationState, where: string): HoldfastError {
  return new HoldfastError(
    'MIGRATION_REQUIRED',
    `${where} is not migrated for this version of Holdfast: dbos_migrations is at ${standing.shared} and needs ` +
      `${target.shared}, holdfast_migrations is at ${standing.own} and needs ${target.own}. ` +
      'Call migrate({ database }) once with a database role that may create tables, or start one process with ' +
      '`migrate: true` (the default).',
    { details: { found: standing, needed: target } },
  );
}

/** Refuses a database whose number means something else than ours; nothing has been changed in it. */
export function checkNumbering(standing: MigrationState, facts: ReadonlySet<string>, where: string): void {
  const against = contradiction(standing.shared, facts);
  if (against === null) return;
  throw new HoldfastError(
    'MIGRATION_REQUIRED',
    `${where} was made by another system than Holdfast and cannot be adopted yet: dbos_migrations says ` +
      `${standing.shared}, but ${against}. DBOS counts its migrations differently per language below version 100. ` +
      `Upgrade the database with its own DBOS first (any release that reaches version 100; for TypeScript ` +
      `\`npx dbos migrate\`), or give Holdfast another schema or database. Nothing was changed.`,
    { details: { found: standing, needed: target, reason: 'foreign-numbering', contradiction: against } },
  );
}
