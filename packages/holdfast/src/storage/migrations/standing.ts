import { HoldfastError } from '../../model/errors.js';
import { holdfastMigrations } from './holdfast.js';
import { contradiction } from './landmarks.js';
import { latestVersion } from './migration.js';
import { sharedMigrations } from './shared.js';

/** How far a database has been migrated: the numbers in its two counter tables, 0 where there is none. */
export interface Standing {
  readonly shared: number;
  readonly own: number;
}

export const target: Standing = {
  shared: latestVersion(sharedMigrations),
  own: latestVersion(holdfastMigrations),
};

/**
 * Whether there is nothing to do. A shared version beyond ours is a database that a newer DBOS has migrated; what it
 * adds leaves our columns in place. A Holdfast version beyond ours is one whose meaning we cannot know.
 */
export function isCurrent(standing: Standing): boolean {
  if (standing.own > target.own) {
    throw new HoldfastError(
      'SCHEMA_TOO_NEW',
      `The database was migrated by a newer Holdfast (its holdfast_migrations is at ${standing.own}, this one knows ` +
        `${target.own}). Upgrade the holdfast package of this process.`,
      { details: { found: standing.own, known: target.own } },
    );
  }
  return standing.shared >= target.shared && standing.own === target.own;
}

export function migrationRequired(standing: Standing, where: string): HoldfastError {
  return new HoldfastError(
    'MIGRATION_REQUIRED',
    `${where} is not migrated for this version of Holdfast: dbos_migrations is at ${standing.shared} and needs ` +
      `${target.shared}, holdfast_migrations is at ${standing.own} and needs ${target.own}. ` +
      `Start one process with \`migrate: true\` (the default), with a database role that may create tables.`,
    { details: { found: standing, needed: target } },
  );
}

/** Refuses a database whose number means something else than ours; nothing has been changed in it. */
export function checkNumbering(standing: Standing, facts: ReadonlySet<string>, where: string): void {
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
