import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Statement } from '../../src/storage/database.js';
import { postgresDialect } from '../../src/storage/postgres/dialect.js';
import { grantStatements, neededRights } from '../../src/storage/postgres/rights.js';
import { describeBackends } from '../support/backends.js';
import { everyStatement } from './every-statement.js';

describeBackends(
  'the rights that a process needs',
  (backend) => {
    const role = `needs_${randomUUID().slice(0, 8)}`;
    let client: pg.Client;
    let statements: readonly Statement[];
    const needed = neededRights('dbos');
    const asOwner = async (...texts: readonly string[]) => {
      await client.query('reset role');
      for (const text of texts) await client.query(text);
      await client.query(`set role ${role}`);
    };

    beforeAll(async () => {
      statements = await everyStatement(postgresDialect('dbos'));
      client = new pg.Client(await backend.newDatabase());
      await client.connect();
      // Careful operators revoke this. By default every role may execute a function.
      await client.query('revoke execute on all functions in schema dbos from public');
      await client.query(`create role ${role}`);
      await asOwner(...grantStatements('dbos', role, needed));
    });
    afterAll(async () => {
      await client.query(`reset role; drop owned by ${role}; drop role ${role}`);
      await client.end();
    });

    it('are enough for every statement', async () => {
      expect(await refused(client, statements)).toEqual([]);
    });

    // No statement names the version tables or the function that a trigger calls. Other tests cover these.
    const named = needed.filter(
      ({ kind, name }) =>
        (kind === 'table' && !name.endsWith('_migrations')) || (kind === 'function' && name !== 'holdfast_close_queue'),
    );
    it.each(named)('are not more than statements need: $privilege on $name', async ({ kind, privilege, name }) => {
      await asOwner(`revoke ${privilege} on ${kind} dbos.${name} from ${role}`);
      const using = statements.filter(({ first = '', text }) => `${first} ${text}`.includes(`"dbos".${name}`));
      const lacking = await refused(client, using, 1);
      await asOwner(`grant ${privilege} on ${kind} dbos.${name} to ${role}`);
      expect(lacking.length).toBeGreaterThan(0);
    });
  },
  ['postgres'],
);

/** Lists the statements that the server refuses for this role. The server also checks rights for `explain`. */
async function refused(client: pg.Client, statements: readonly Statement[], most = 1000): Promise<string[]> {
  const found: string[] = [];
  for (const { name, first, text } of statements) {
    if (found.length >= most) break;
    for (const each of first ? [first, text] : [text]) {
      await client.query(`prepare explained as ${each}`);
      const { rows } = await client.query('select parameter_types::text[] as types from pg_prepared_statements');
      const values = (rows[0].types as string[]).map(() => 'null').join(', ');
      try {
        await client.query(`explain execute explained${values && `(${values})`}`);
      } catch (error) {
        found.push(`${name}: ${(error as Error).message}`);
      }
      await client.query('deallocate explained');
    }
  }
  return found;
}
