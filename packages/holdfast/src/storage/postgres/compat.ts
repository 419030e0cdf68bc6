import type pg from 'pg';
import type { Logger } from '../../model/logger.js';
import { type Compat, compatConflict, compatSettings, indexesOfOthers } from '../migrations/compat.js';
import { dropIndex } from '../migrations/migration.js';
import { postgresDdl } from './ddl.js';
import { insufficientPrivilege, sqlState } from './failures.js';
import { withMigrationLock } from './migration-lock.js';
import { buildIndexes } from './online-index.js';

export interface CompatTerms {
  readonly schema: string;
  readonly compat: Compat;
  readonly migrate: boolean;
  /** Whether a layout that somebody has chosen may be changed: by `migrate()`, not by a launch. */
  readonly mayChange: boolean;
  readonly logger: Logger;
}

/**
 * Gives the tables the layout that was asked for, and puts the choice on record: a process without the option keeps it.
 *
 * The record comes before the first index is dropped, and after the last is built. Killed in between, the database has more
 * indexes than its record says, which costs time and nothing else; `migrate` with the same option goes on from there. A launch
 * does not: it believes the record.
 *
 * Settings come before the record, because only the owner of a table may change them. A role that may write all rows, but
 * owns nothing, would otherwise put a choice on record that it cannot carry out.
 */
export async function applyCompat(client: pg.ClientBase, terms: CompatTerms): Promise<void> {
  const { schema, compat, migrate, mayChange, logger } = terms;
  const ddl = postgresDdl(schema);
  const counter = ddl.table('holdfast_migrations');
  const read = async (): Promise<Compat | null> => {
    const { rows } = await client.query(`select compat from ${counter}`);
    return rows[0]?.compat ?? null;
  };
  const record = () => client.query(`update ${counter} set compat = $1`, [compat]);
  const found = await read();
  if (found === compat && !mayChange) return;
  if (!mayChange && (found !== null || !migrate)) throw compatConflict(compat, found, `the schema "${schema}"`);
  const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
  // Another process that asks for the same does it once more after this one, and finds nothing to do.
  await withMigrationLock({ client, logger, pause, done: async () => false }, async () => {
    await client.query('set statement_timeout = 0');
    try {
      if (compat === 'none') {
        await client.query(compatSettings(ddl, compat));
        await record();
        for (const { name } of indexesOfOthers) await client.query(dropIndex(ddl, name, true));
      } else {
        const migration = { version: 0, name: 'indexes of DBOS', indexes: indexesOfOthers };
        await buildIndexes(client, ddl, migration, true);
        if (found === 'none') await client.query(compatSettings(ddl, compat));
        await record();
      }
    } catch (error) {
      if (sqlState(error) === insufficientPrivilege) throw compatConflict(compat, found, `the schema "${schema}"`);
      throw error;
    } finally {
      await client.query('reset statement_timeout').catch(() => {});
    }
  });
  if (found !== compat) logger.info(`schema "${schema}" is laid out for compat: "${compat}"`);
}
