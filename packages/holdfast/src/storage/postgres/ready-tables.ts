import type pg from 'pg';
import { isHoldfastError } from '../../model/errors.js';
import type { Logger } from '../../model/logger.js';
import { unusable } from '../contract/failure.js';
import type { Compat } from '../migrations/compat.js';
import { isSilent } from './adopted.js';
import { applyCompat } from './compat.js';
import { notPermitted, unreachable } from './connect.js';
import { classifyPostgres, insufficientPrivilege, sqlState } from './failures.js';
import { checkLayout } from './layout.js';
import { migratePostgres } from './migrate.js';
import { checkRights } from './rights.js';
import type { Server } from './server.js';

interface Terms {
  readonly schema: string;
  readonly migrate: boolean;
  readonly triggers?: boolean;
  readonly checksRights?: boolean;
  readonly compat?: Compat | undefined;
  readonly mayChangeCompat?: boolean;
  readonly logger: Logger;
}

/**
 * Migrates or verifies, and then looks at what is there: the columns that statements name, and the rights of this role on them.
 * A process that lacks one of them is refused here, before it takes on work. Returns whether messages are silent.
 */
export async function readyTables(server: Server, client: pg.Client, terms: Terms): Promise<boolean> {
  const { schema, checksRights } = terms;
  try {
    const found = await migratePostgres(client, terms);
    await checkLayout(client, schema, `The schema "${schema}"`);
    const { compat, mayChangeCompat: mayChange = false } = terms;
    if (compat) await applyCompat(client, { ...terms, compat, mayChange });
    if (checksRights) await checkRights(client, schema);
    return isSilent(found);
  } catch (error) {
    if (isHoldfastError(error)) throw server.tell(error);
    if (sqlState(error) === insufficientPrivilege) throw await lackingRights(server, client, terms, error);
    const failure = classifyPostgres(error);
    if (failure === 'unusable') throw unusable('migrate', server.tell(error));
    // Not what it says of the schema: the connection broke under it.
    throw failure === 'lost' ? unreachable(server, error) : server.tell(error);
  }
}

/** Each right by its name, if there is anything yet that the role could have rights on. */
async function lackingRights(server: Server, client: pg.Client, terms: Terms, error: unknown): Promise<unknown> {
  const { schema, checksRights } = terms;
  try {
    // Whatever transaction the error came from.
    await client.query('rollback');
    if (checksRights) await checkRights(client, schema);
  } catch (found) {
    if (isHoldfastError(found)) return found;
  }
  return notPermitted(server, schema, error);
}
