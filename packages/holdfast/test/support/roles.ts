import { onTestFinished } from 'vitest';
import { grantStatements, neededRights } from '../../src/storage/postgres/rights.js';
import { tamper } from './faults.js';

/** Creates a role without any rights on the tables of a database. The role is dropped after the test. */
export async function restrictedRole(database: string) {
  const role = `r${Math.random().toString(36).slice(2, 12)}`;
  await tamper(database, `create role ${role} login password 'restricted'`);
  // By default every role may execute a function, and revoking the right from a single role changes nothing.
  await tamper(database, 'revoke execute on all functions in schema dbos from public');
  // Sessions of the role may still be open.
  onTestFinished(async () => {
    await tamper(database, `drop owned by ${role}; drop role ${role}`);
  });
  const url = new URL(database);
  Object.assign(url, { username: role, password: 'restricted' });
  const grants = grantStatements('dbos', role, neededRights('dbos')).join('; ');
  return {
    database,
    role,
    url: url.href,
    /** Grants exactly the documented rights. */
    grant: () => tamper(database, grants),
    revoke: (what: string) => tamper(database, `revoke ${what} from ${role}`),
  };
}
