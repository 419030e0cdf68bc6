import { type ColumnKind, expectedColumns, type FoundColumn, refuseLayout } from '../migrations/layout.js';
import { type SqliteConnection, transact } from './connection.js';

/** The declared types that can hold such values (https://sqlite.org/datatype3.html, affinities). */
const types: Readonly<Record<ColumnKind, RegExp>> = {
  text: /char|clob|text/i,
  bigint: /int|bool/i,
  integer: /int|bool/i,
  double: /real|floa|doub|numeric|int/i,
  boolean: /int|bool/i,
  json: /char|clob|text|json/i,
};

/**
 * Throws if the file lacks columns that Holdfast needs. One read transaction covers all reads, because another process
 * may be migrating.
 */
export function checkLayout(db: SqliteConnection): void {
  const tables = new Map<string, { readonly relation: string; readonly columns: ReadonlyMap<string, string> }>();
  transact(db, 'begin', () => {
    const rows = db.prepare("select name, type from sqlite_master where type in ('table', 'view')").all();
    for (const { name, type } of rows) {
      const columns = db.prepare('select name, type from pragma_table_info($1)').all([name]);
      tables.set(String(name), {
        relation: String(type),
        columns: new Map(columns.map((each) => [String(each.name), String(each.type)])),
      });
    }
  });
  const unfit = expectedColumns('sqlite').flatMap(({ table, column, kind }): FoundColumn[] => {
    const { relation = null, columns } = tables.get(table) ?? {};
    const type = columns?.get(column) ?? null;
    const fits = relation === 'table' && type !== null && types[kind].test(type);
    return fits ? [] : [{ table, column, expected: kind, relation, type }];
  });
  refuseLayout(unfit, `The database file ${db.path}`);
}
