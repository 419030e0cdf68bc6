import type pg from 'pg';
import { isHoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { unusableError } from '../contract/failure.js';
import type { Compat } from '../migrations/compat.js';
import { lacksAnnouncements } from './adopted.js';
import { applyCompat } from './compat.js';
import { notPermitted, unreachable } from './connect.js';
import { classifyPostgres, insufficientPrivilege, sqlState } from './failures.js';
import { checkLayout } from './layout.js';
import { migratePostgres } from './migrate.js';
import { checkRights } from './rights.js';
import type { Server } from './server.js';

interface TableOptions {
  readonly schema: string;
  readonly migrate: boolean;
  readonly triggers?: boolean;
  readonly checksRights?: boolean;
  readonly compat?: Compat | undefined;
  readonly mayChangeCompat?: boolean;
  readonly logger: Logger;
}

/**
 * Migrates or verifies the schema. Then checks the columns that statements name, and the rights of the role on the
 * tables. If anything is missing, the launch fails here, before the process takes work. Resolves to true if messages of
 * DBOS and of SQL clients are not announced.
 */
export async function prepareTables(server: Server, client: pg.Client, options: TableOptions): Promise<boolean> {
  const { schema, checksRights } = options;
  try {
    const found = await migratePostgres(client, options);
    await checkLayout(client, schema, `The schema "${schema}"`);
    const { compat, mayChangeCompat: mayChange = false } = options;
    if (compat) await applyCompat(client, { ...options, compat, mayChange });
    if (checksRights) await checkRights(client, schema);
    return lacksAnnouncements(found);
  } catch (error) {
    if (isHoldfastError(error)) throw server.tell(error);
    if (sqlState(error) === insufficientPrivilege) throw await missingRightsError(server, client, options, error);
    const failure = classifyPostgres(error);
    if (failure === 'unusable') throw unusableError('migrate', server.tell(error));
    // A lost connection says nothing about the schema.
    throw failure === 'lost' ? unreachable(server, error) : server.tell(error);
  }
}

/** Returns an error that lists every missing right, or a general error if the tables do not exist yet. */
async function missingRightsError(
  server: Server,
  client: pg.Client,
  options: TableOptions,
  error: unknown,
): Promise<unknown> {
  const { schema, checksRights } = options;
  try {
    // Ends the transaction in which the error occurred, if there is one.
    await client.query('rollback');
    if (checksRights) await checkRights(client, schema);
  } catch (found) {
    if (isHoldfastError(found)) return found;
  }
  return notPermitted(server, schema, error);
}
