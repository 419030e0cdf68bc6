import type pg from 'pg';
import { describeError, HoldfastError } from '../../model/errors.js';
import { sqlState } from './failures.js';
import { quoteIdentifier } from './identifiers.js';

/** Databases that every server has, to connect to when the wanted one is missing. */
const maintenanceDatabases = ['postgres', 'template1'];

/**
 * Creates the database of a server that its settings name. Two processes may do so at once: whoever comes second finds it there.
 *
 * `connect` opens a connection to another database of the server; this function closes it.
 */
export async function ensureDatabase(name: string, connect: (database: string) => Promise<pg.Client>): Promise<void> {
  let reason: unknown;
  for (const maintenance of maintenanceDatabases) {
    let client: pg.Client;
    try {
      client = await connect(maintenance);
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
  const right = `Create it (\`createdb ${name}\`), or give the role of the URL the right to (\`alter role ... createdb\`).`;
  throw missingDatabase(name, `could not be created: ${describeError(reason)}`, right, reason);
}

/** What to do about it where processes create nothing. */
export const onceByHand =
  'Call migrate({ database }) once with a role that may create databases: it creates the database and its tables.';

export function missingDatabase(name: string, why: string, advice: string, cause: unknown): HoldfastError {
  return new HoldfastError('DATABASE_MISSING', `The database "${name}" does not exist and ${why}. ${advice}`, {
    details: { database: name },
    cause,
  });
}
