import type pg from 'pg';
import { describeError, HoldfastError } from '../../model/errors.js';
import { sqlState } from './failures.js';
import { quoteIdentifier } from './identifiers.js';

/** Databases that every server has, to connect to when the wanted one is missing. */
const maintenanceDatabases = ['postgres', 'template1'];

/**
 * Creates the database of a URL. Two processes may do so at once: whoever comes second finds it there.
 *
 * `connect` opens a connection to a URL; this function closes it.
 */
export async function ensureDatabase(url: string, connect: (url: string) => Promise<pg.Client>): Promise<void> {
  const name = databaseName(url);
  let reason: unknown;
  for (const maintenance of maintenanceDatabases) {
    let client: pg.Client;
    try {
      client = await connect(withDatabase(url, maintenance));
    } catch (error) {
      reason = error;
      continue;
    }
    try {
      await client.query(`create database ${quoteIdentifier(name)}`);
      return;
    } catch (error) {
      // Duplicate database, seen in the catalog before (42P04) or only on insert (23505).
      if (['42P04', '23505'].includes(sqlState(error) ?? '')) return;
      reason = error;
    } finally {
      await client.end().catch(() => {});
    }
  }
  throw missingDatabase(url, `could not be created: ${describeError(reason)}`, reason);
}

export function missingDatabase(url: string, why: string, cause: unknown): HoldfastError {
  const name = databaseName(url);
  return new HoldfastError(
    'DATABASE_MISSING',
    `The database "${name}" does not exist and ${why}. ` +
      `Create it (\`createdb ${name}\`), or give the role of the URL the right to (\`alter role ... createdb\`).`,
    { details: { database: name }, cause },
  );
}

/** The database of a URL as the driver reads it. Where it names none, the driver uses the user's name. */
function databaseName(url: string): string {
  const { pathname, username } = new URL(url);
  // The driver decodes with decodeURI as well, which leaves %3B and the like as they are.
  return decodeURI(pathname.slice(1)) || decodeURIComponent(username) || 'postgres';
}

function withDatabase(url: string, database: string): string {
  const parsed = new URL(url);
  parsed.pathname = `/${database}`;
  return parsed.href;
}
