import { createHash } from 'node:crypto';
import { preparedName, type Statement } from '../database.js';

const names = new WeakMap<Statement, string>();

/**
 * The name under which a session keeps a statement, with a hash of its text. Behind a pooler a session may serve another
 * app, or another version of this one, that has another statement of the same name (of another schema, for one): by the
 * name alone each would run the other's.
 */
export function sessionName(statement: Statement): string {
  const known = names.get(statement);
  if (known !== undefined) return known;
  const hash = createHash('sha256').update(statement.text).digest('hex').slice(0, 8);
  const name = `${preparedName(statement)}.${hash}`;
  names.set(statement, name);
  return name;
}
