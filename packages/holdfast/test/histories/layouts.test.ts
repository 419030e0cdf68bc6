import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';

/** A column, described in the same way for both databases. */
interface Column {
  readonly table: string;
  readonly column: string;
  /** True if a row can be inserted without this column. */
  readonly dispensable: boolean;
}

const folder = new URL('./', import.meta.url);
const releases = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((name) => JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as { release: string; schema: string[] });

const sqliteColumns =
  'select m.name as "table", c.name as "column", (c."notnull" = 0 or c.dflt_value is not null or c.pk > 0) as dispensable ' +
  "from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table' and m.name not like 'sqlite_%'";
const postgresColumns =
  'select table_name as "table", column_name as "column", (is_nullable = \'YES\' or column_default is not null ' +
  "or is_identity = 'YES') as dispensable from information_schema.columns where table_schema = 'dbos'";
const uniqueIndexes =
  "select m.tbl_name || ' ' || i.name as key from sqlite_master m, pragma_index_list(m.name) i " +
  'where m.type = \'table\' and i."unique" = 1';

function past(schema: readonly string[]): { columns: Column[]; unique: unknown[] } {
  const db = openSqlite(':memory:');
  for (const statement of schema) db.exec(statement);
  const columns = db.prepare(sqliteColumns).all() as Column[];
  const unique = db.prepare(uniqueIndexes).pluck().all();
  db.close();
  return { columns, unique };
}

/**
 * During a deploy, processes of the previous release work on a database that the new release has migrated. They read
 * and write the columns that they know.
 */
describeBackends('the current layout', (backend) => {
  const nameOf = ({ table, column }: Column): string => `${table}.${column}`;

  it.each(releases)('has every column that $release uses, and requires no other', async ({ schema }) => {
    const sql = backend.name === 'sqlite' ? sqliteColumns : postgresColumns;
    const now = (await tamper(await backend.newDatabase(), sql)) as unknown as Column[];
    const then = past(schema).columns;
    const known = new Set(now.map(nameOf));
    expect(then.map(nameOf).filter((name) => !known.has(name))).toEqual([]);
    const tables = new Set(then.map(({ table }) => table));
    const old = new Set(then.map(nameOf));
    const added = now.filter((each) => tables.has(each.table) && !old.has(nameOf(each)));
    expect(added.filter(({ dispensable }) => !dispensable).map(nameOf)).toEqual([]);
    // Without an added column, this test would prove nothing.
    expect(added.length).toBeGreaterThan(0);
  });
});

describeBackends(
  'the current layout on SQLite',
  (backend) => {
    it.each(releases)('refuses no pair of rows that $release could have', async ({ schema }) => {
      const now = await tamper(await backend.newDatabase(), uniqueIndexes);
      const then = new Set(past(schema).unique);
      const tables = new Set(past(schema).columns.map(({ table }) => table));
      const added = now.map(({ key }) => String(key)).filter((key) => !then.has(key));
      expect(added.filter((key) => tables.has(key.split(' ')[0] ?? ''))).toEqual([]);
    });
  },
  ['sqlite'],
);
