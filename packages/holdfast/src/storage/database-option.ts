import { HoldfastError } from '../model/errors.js';

/** Where the database is, by the option `database`: else by the environment, else a file beside the process. */
export function databaseOf(what: string, database: unknown, name: string | undefined): { readonly url: string } {
  const file = name === undefined ? '' : `sqlite:./${name}.sqlite`;
  const given = database ?? process.env.HOLDFAST_DATABASE_URL ?? file;
  if (typeof given === 'string' && given.trim() !== '') return { url: given.trim() };
  throw new HoldfastError(
    'DATABASE_URL_INVALID',
    `${what}: the database URL ${typeof given === 'string' ? 'is missing or empty' : `must be a text, but it is ${kindOf(given)}`}. ` +
      'Give { database: "postgres://..." } or { database: "sqlite:path" }.',
  );
}

/** Not the value, whatever it is: it may have a password in it. */
function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (value === null) return 'null';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
