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
  /** True if a recorded layout may be changed. `migrate()` may change it, a launch may not. */
  readonly mayChange: boolean;
  readonly logger: Logger;
}

/**
 * Gives the tables the requested layout and records the choice. A process without the option keeps the recorded layout.
 *
 * The choice is recorded before the first index is dropped, or after the last index is built. If the process is killed
 * in between, the database has more indexes than the recorded layout, which only costs time. `migrate` with the same
 * option completes the change. A launch does not complete it, because a launch trusts the record.
 *
 * Settings change before the choice is recorded, because only the owner of a table may change them. Otherwise a role
 * that may write all rows but owns no table could record a choice and then fail to apply it.
 */
export async function applyCompat(client: pg.ClientBase, options: CompatTerms): Promise<void> {
  const { schema, compat, migrate, mayChange, logger } = options;
  const ddl = postgresDdl(schema);
  const counter = ddl.table('holdfast_migrations');
  const read = async (): Promise<Compat | null> => {
    const { rows } = await client.query(`select compat from ${counter}`);
    return rows[0]?.compat ?? null;
  };
  const record = () => client.query(`update ${counter} set compat = $1`, [compat]);
  const recorded = await read();
  if (recorded === compat && !mayChange) return;
  if (!mayChange && (recorded !== null || !migrate)) throw compatConflict(compat, recorded, `the schema "${schema}"`);
  const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
  // Another process with the same option runs the same change after this process, and finds nothing to do.
  await withMigrationLock({ client, logger, pause, done: async () => false }, async () => {
    await client.query('set statement_timeout = 0');
    try {
      if (compat === 'none') {
        logger.info(
          `schema "${schema}": dropping the indexes that only DBOS applications need. This waits for transactions that ` +
            'use the tables, and blocks none.',
        );
        await client.query(compatSettings(ddl, compat));
        await record();
        for (const { name } of indexesOfOthers) await client.query(dropIndex(ddl, name, true));
      } else {
        const migration = { version: 0, name: 'indexes of DBOS', indexes: indexesOfOthers };
        await buildIndexes(client, ddl, migration, true);
        if (recorded === 'none') await client.query(compatSettings(ddl, compat));
        await record();
      }
    } catch (error) {
      if (sqlState(error) === insufficientPrivilege) throw compatConflict(compat, recorded, `the schema "${schema}"`);
      throw error;
    } finally {
      await client.query('reset statement_timeout').catch(() => {});
    }
  });
  if (recorded !== compat) logger.info(`schema "${schema}" is laid out for compat: "${compat}"`);
}
