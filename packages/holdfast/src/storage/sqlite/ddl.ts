import type { Ddl } from '../migrations/migration.js';

export const sqliteDdl: Ddl = {
  name: 'sqlite',
  schema: 'main',
  table: (name) => name,
  // SQLite adds one column per statement and has no `if not exists` for columns. It is not needed: a migration and its
  // version commit together.
  addColumns: (name, ...columns) => columns.map((column) => `alter table ${name} add column ${column}`),
  bigint: 'integer',
  double: 'real',
  boolean: 'integer',
  json: 'text',
  shortText: 'text',
  false: '0',
  // The product is rounded, because it is a fraction below or above a whole millisecond. A cast alone could truncate it
  // to the previous millisecond.
  nowMs: "(cast(round((julianday('now') - 2440587.5) * 86400000) as integer))",
  uuid:
    "(lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' || " +
    "substr('89AB', 1 + (abs(random()) % 4), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))",
};
