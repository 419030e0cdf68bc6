import { readFileSync } from 'node:fs';
import { expect, inject, it } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { target } from '../../src/storage/migrations/migration-state.js';
import { describeBackends } from '../support/backends.js';
import { tamper } from '../support/faults.js';

/**
 * Compares docs/reference/schema.md with a database: the page names everything in the right section, and nothing that
 * does not exist.
 */
const page = readFileSync(new URL('../../../../docs/reference/schema.md', import.meta.url), 'utf8');

/** The text about a table: the section whose heading begins with its name, or lists it. */
function sectionOf(table: string): string {
  const sections = page.split(/^### /m).slice(1);
  const found = sections.filter((section) => (section.split('\n')[0] ?? '').split(/[^\w]+/).includes(table));
  expect(found, `sections of docs/reference/schema.md about ${table}`).toHaveLength(1);
  return (found[0] ?? '').split(/^## /m)[0] ?? '';
}

const has = (text: string, name: string): boolean => new RegExp(`(^|[^\\w])${name}([^\\w]|$)`).test(text);

interface Found {
  readonly tables: readonly string[];
  readonly columns: readonly (readonly [table: string, column: string])[];
  /** The indexes, without those of primary keys and unique columns, whose names the page does not give. */
  readonly indexes: readonly { readonly table: string; readonly name: string; readonly definition: string }[];
  /** Sequences, triggers and functions. */
  readonly others: readonly string[];
}

describeBackends('docs/reference/schema.md', (backend) => {
  const read = async (): Promise<Found> => {
    const database = await backend.newDatabase();
    return backend.name === 'sqlite' ? ofSqlite(database.slice('sqlite:'.length)) : ofPostgres(database);
  };

  it('names every table, column, index, sequence, trigger and function', async () => {
    const { tables, columns, indexes, others } = await read();
    expect(tables.length).toBeGreaterThan(12);
    const counters = new Set(['dbos_migrations', 'holdfast_migrations']);
    const described = (table: string): string => (counters.has(table) ? page : sectionOf(table));
    const missing = [
      ...tables.filter((table) => described(table) === ''),
      ...columns.filter(([table, column]) => !has(described(table), column)).map((names) => names.join('.')),
      ...indexes.filter(({ table, name }) => !has(described(table), name)).map(({ name }) => name),
      ...others.filter((name) => !has(page, name)),
    ];
    expect(missing).toEqual([]);
  });

  it('gives the exact columns of each index', async () => {
    const { indexes } = await read();
    const given = indexes.flatMap(({ name, definition }) => {
      const told = new RegExp(`(?<!\\w)${name}(?: unique)? \\(([^)]*)\\)`).exec(page)?.[1];
      const real = /\(([^)]*)\)/.exec(definition)?.[1] ?? '';
      return told === undefined ? [] : [[name, told, real.replace(/ nulls first|"| (?=,)/gi, '')] as const];
    });
    expect(given.length).toBeGreaterThan(15);
    expect(given.filter(([, told, real]) => told !== real)).toEqual([]);
  });

  it.runIf(backend.name === 'postgres')('names only indexes, sequences and triggers that exist', async () => {
    const both = [ofSqlite(inject('sqliteTemplate')), await read()];
    const real = new Set(both.flatMap(({ indexes, others }) => [...indexes.map(({ name }) => name), ...others]));
    const named = page.match(/\b(idx_\w+|uq_\w+|holdfast_\w+_seq|dbos_\w+_trigger)\b/g) ?? [];
    expect([...new Set(named)].filter((name) => !real.has(name))).toEqual([]);
  });

  it('gives the versions of both counters', () => {
    expect(page).toMatch(new RegExp(`\\| \`dbos_migrations\` .* \\| ${target.shared} \\|`));
    expect(page).toMatch(new RegExp(`\\| \`holdfast_migrations\` .* \\| ${target.own} \\|`));
  });
});

function ofSqlite(file: string): Found {
  const db = openSqlite(file, { readonly: true });
  try {
    const all = <Row>(sql: string): Row[] => db.prepare(sql).all() as Row[];
    const tables = all<{ name: string }>(
      "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'",
    ).map(({ name }) => name);
    return {
      tables,
      columns: tables.flatMap((table) =>
        all<{ name: string }>(`select name from pragma_table_info('${table}')`).map(
          ({ name }) => [table, name] as const,
        ),
      ),
      indexes: all(
        "select tbl_name as 'table', name, sql as definition from sqlite_master where type = 'index' and sql is not null",
      ),
      others: all<{ name: string }>("select name from sqlite_master where type = 'trigger'").map(({ name }) => name),
    };
  } finally {
    db.close();
  }
}

async function ofPostgres(database: string): Promise<Found> {
  const relations = await tamper(
    database,
    `select c.relname as name, c.relkind as kind, t.relname as on_table, pg_get_indexdef(c.oid) as definition
     from pg_class c left join pg_index i on i.indexrelid = c.oid left join pg_class t on t.oid = i.indrelid
     where c.relnamespace = 'dbos'::regnamespace
     and not exists (select 1 from pg_constraint k where k.conindid = c.oid)`,
  );
  const columns = await tamper(
    database,
    `select table_name, column_name from information_schema.columns where table_schema = 'dbos'`,
  );
  const others = await tamper(
    database,
    `select tgname as name from pg_trigger where not tgisinternal
     union select proname from pg_proc where pronamespace = 'dbos'::regnamespace`,
  );
  const of = (...kinds: string[]) => relations.filter(({ kind }) => kinds.includes(kind as string));
  return {
    tables: of('r').map(({ name }) => name as string),
    columns: columns.map((row) => [row.table_name as string, row.column_name as string] as const),
    indexes: of('i').map((row) => ({
      table: row.on_table as string,
      name: row.name as string,
      definition: row.definition as string,
    })),
    others: [...of('S'), ...others].map(({ name }) => name as string),
  };
}
