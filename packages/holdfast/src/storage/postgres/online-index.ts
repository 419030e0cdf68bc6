import type pg from 'pg';
import { createIndex, type Ddl, dropIndex, type Index, indexesOf, type Migration } from '../migrations/migration.js';

/**
 * Builds and drops a migration's indexes on tables in use. `concurrently` blocks no writer, but it cannot run in a
 * transaction, and a build that was killed leaves an index behind that is invalid: never read, still written to, and
 * in the way of `if not exists`. So what is there is looked at first.
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

/** Whether an index of this name is invalid, or is a full one where a partial one is wanted. */
async function isUnusable(client: pg.ClientBase, ddl: Ddl, index: Index): Promise<boolean> {
  const { rows } = await client.query(
    'select indisvalid as valid, indpred is not null as partial from pg_index where indexrelid = to_regclass($1)',
    [ddl.table(index.name)],
  );
  const [found] = rows;
  if (!found) return false;
  return !found.valid || (index.replaces === true && found.partial !== (index.where !== undefined));
}
