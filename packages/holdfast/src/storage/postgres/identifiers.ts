import { checkName } from '../../model/ids.js';
import { invalidOption } from '../../model/options.js';

/** A Postgres identifier, quoted so that any name is safe. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** The name of the schema on Postgres. */
export function checkSchema(what: string, schema: string): void {
  checkName('A schema name', schema);
  if (schema.startsWith('pg_')) {
    throw invalidOption(
      what,
      'schema',
      schema,
      'a name that does not begin with "pg_": Postgres keeps those for itself',
    );
  }
  // Postgres cuts longer identifiers off, silently.
  if (Buffer.byteLength(schema) > 63) throw invalidOption(what, 'schema', schema, 'at most 63 bytes long');
}
