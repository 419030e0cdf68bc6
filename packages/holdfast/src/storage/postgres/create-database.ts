import type pg from 'pg';
import { describeError, HoldfastError } from '../../model/errors.js';
import { sqlState } from './failures.js';
import { quoteIdentifier } from './identifiers.js';

/** Databases that every server has. A connection to one of them can create the missing database. */
const maintenanceDatabases = ['postgres', 'template1'];

/**
 * Creates the database. If another process creates it at the same time, this function succeeds too.
 *
 * `connect` opens a connection to another database of the server. This function closes that connection.
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
      // The database exists already: the server found it in the catalog (42P04), or failed to insert a second one
      // (23505).
      if (['42P04', '23505'].includes(sqlState(error) ?? '')) return;
      reason = error;
    } finally {
      await client.end().catch(() => {});
    }
  }
  const advice =
    `Create it (\`createdb ${name}\`), or give the role in the URL the right to create databases ` +
    '(`alter role ... createdb`).';
  throw missingDatabase(name, `could not be created: ${describeError(reason)}`, advice, reason);
}

/** The advice for processes that create no database, because of `migrate: false`. */
export const migrateOnceAdvice =
  'Call migrate({ database }) once with a role that may create databases: it creates the database and its tables.';

export function missingDatabase(name: string, why: string, advice: string, cause: unknown): HoldfastError {
  return new HoldfastError('DATABASE_MISSING', `The database "${name}" does not exist and ${why}. ${advice}`, {
    details: { database: name },
    cause,
  });
}
