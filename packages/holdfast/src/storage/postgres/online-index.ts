import type pg from 'pg';
import { createIndex, type Ddl, dropIndex, type Index, indexesOf, type Migration } from '../migrations/migration.js';

/**
 * Builds and drops the indexes of a migration on tables in use. `concurrently` blocks no writer, but cannot run in a
 * transaction. If a concurrent build is killed, an invalid index remains: no query reads the index, every write updates
 * it, and `create index if not exists` does nothing. Therefore this function first checks for an unusable index.
 */
export async function buildIndexes(
  client: pg.ClientBase,
  ddl: Ddl,
  migration: Migration,
  concurrently: boolean,
): Promise<void> {
  for (const index of indexesOf(ddl, migration)) {
    if (await isUnusable(client, ddl, index)) await client.query(dropIndex(ddl, index.name, concurrently));
    await client.query(createIndex(ddl, index, concurrently));
  }
  for (const name of migration.dropsIndexes ?? []) await client.query(dropIndex(ddl, name, concurrently));
}

/** Returns true if an index of this name is invalid, or is not partial although it must be, or the reverse. */
async function isUnusable(client: pg.ClientBase, ddl: Ddl, index: Index): Promise<boolean> {
  const { rows } = await client.query(
    'select indisvalid as valid, indpred is not null as partial from pg_index where indexrelid = to_regclass($1)',
    [ddl.table(index.name)],
  );
  const [existing] = rows;
  if (!existing) return false;
  return !existing.valid || (index.replaces === true && existing.partial !== (index.where !== undefined));
}
