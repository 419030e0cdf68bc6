import { checkName } from '../../model/ids.js';
import { invalidOption } from '../../model/options.js';

/** Returns the name as a quoted Postgres identifier. The result is safe for any name. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Checks the option `schema`. `what` names the function that got the option. */
export function checkSchema(what: string, schema: string): void {
  checkName('A schema name', schema);
  if (schema.startsWith('pg_')) {
    throw invalidOption(what, 'schema', schema, 'a name that does not begin with "pg_": Postgres reserves such names');
  }
  // Postgres truncates longer identifiers without an error.
  if (Buffer.byteLength(schema) > 63) throw invalidOption(what, 'schema', schema, 'at most 63 bytes long');
}
