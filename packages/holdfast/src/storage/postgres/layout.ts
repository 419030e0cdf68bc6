import type pg from 'pg';
import { type ColumnKind, expectedColumns, expectedKeys, refuseLayout } from '../migrations/layout.js';

/**
 * The accepted types. DBOS for TypeScript stores some texts as `varchar`. A larger integer type also holds an integer.
 */
const types: Readonly<Record<ColumnKind, readonly string[]>> = {
  text: ['text', 'varchar'],
  bigint: ['int8'],
  integer: ['int4', 'int8'],
  double: ['float8'],
  boolean: ['bool'],
  json: ['jsonb'],
};

const relations =
  "case c.relkind when 'r' then 'table' when 'p' then 'table' when 'v' then 'view' when 'm' then 'materialized view' " +
  "when 'f' then 'foreign table' when 'S' then 'sequence' else 'relation of another kind' end";

/** Finds the expected columns that are missing, have another type, or do not belong to a table. */
const unsuitableColumns = `
  select e.tab as "table", e.col as "column", e.kind as expected, r.relation, format_type(a.atttypid, a.atttypmod) as type
  from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as e (tab, col, kind, types)
  left join (
    select c.oid, c.relname, ${relations} as relation from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = $1
  ) r on r.relname = e.tab
  left join pg_attribute a on a.attrelid = r.oid and a.attname = e.col and a.attnum > 0 and not a.attisdropped
  left join pg_type t on t.oid = a.atttypid
  where r.relation is distinct from 'table' or t.typname is null or not t.typname::text = any (string_to_array(e.types, ' '))`;

/** Finds the expected keys that no valid index keeps unique. */
const unguardedKeys = `
  select e.tab as "table", e.cols as columns from unnest($2::text[], $3::text[], $4::bool[]) as e (tab, cols, may_be_partial)
  where not exists (
    select 1 from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
    cross join lateral (
      select array_agg(a.attname::text) as columns from pg_attribute a
      where a.attrelid = i.indrelid and a.attnum = any (i.indkey)
    ) k
    where n.nspname = $1 and c.relname = e.tab and i.indisunique and i.indisvalid and (i.indpred is null or e.may_be_partial)
    and k.columns @> string_to_array(e.cols, ' ') and string_to_array(e.cols, ' ') @> k.columns
  )`;

export async function checkLayout(client: pg.ClientBase, schema: string, where: string): Promise<void> {
  const expected = expectedColumns('postgres');
  const { rows } = await client.query(unsuitableColumns, [
    schema,
    expected.map(({ table }) => table),
    expected.map(({ column }) => column),
    expected.map(({ kind }) => kind),
    expected.map(({ kind }) => types[kind].join(' ')),
  ]);
  const keys = await client.query<{ table: string; columns: string }>(unguardedKeys, [
    schema,
    expectedKeys.map(({ table }) => table),
    expectedKeys.map(({ columns }) => columns),
    expectedKeys.map(({ mayBePartial = false }) => mayBePartial),
  ]);
  // A missing table is already reported by its columns.
  const missing = new Set(rows.filter(({ relation }) => relation !== 'table').map(({ table }) => table));
  const unguarded = keys.rows.filter(({ table }) => !missing.has(table));
  refuseLayout(
    rows,
    where,
    unguarded.map(
      ({ table, columns }) => `no valid index keeps ${columns.replaceAll(' ', ', ')} unique in the table ${table}`,
    ),
  );
}
