import { createHash } from 'node:crypto';
import { preparedName, type Statement } from '../database.js';

const names = new WeakMap<Statement, string>();

/**
 * Returns the name under which a session keeps the prepared statement. The name contains a hash of the text.
 *
 * Behind a pooler a session may also serve another app, or another version of this app. That app may prepare another
 * text under the same statement name, for example for another schema. Without the hash each app would run the other
 * app's text.
 */
export function sessionName(statement: Statement): string {
  const known = names.get(statement);
  if (known !== undefined) return known;
  const hash = createHash('sha256').update(statement.text).digest('hex').slice(0, 8);
  const name = `${preparedName(statement)}.${hash}`;
  names.set(statement, name);
  return name;
}
