import type { Ddl } from '../migrations/migration.js';
import { quoteIdentifier } from './identifiers.js';

export function postgresDdl(schema: string): Ddl {
  const prefix = quoteIdentifier(schema);
  const table = (name: string): string => `${prefix}.${name}`;
  return {
    name: 'postgres',
    schema,
    table,
    addColumns: (name, ...columns) => [
      `alter table ${table(name)} ${columns.map((column) => `add column if not exists ${column}`).join(', ')}`,
    ],
    bigint: 'bigint',
    double: 'double precision',
    boolean: 'boolean',
    json: 'jsonb',
    shortText: 'varchar(255)',
    false: 'false',
    nowMs: '(extract(epoch from now()) * 1000.0)::bigint',
    uuid: 'gen_random_uuid()',
  };
}
