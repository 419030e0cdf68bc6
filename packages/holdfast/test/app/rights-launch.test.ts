import { expect, it, onTestFinished } from 'vitest';
import { connect, launch } from '../../src/index.js';
import { neededRights } from '../../src/storage/postgres/rights.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';
import { restrictedRole } from '../support/roles.js';

describeBackends(
  'launch',
  (backend) => {
    const place = async () => {
      const { database, url, role, grant } = await restrictedRole(await backend.newDatabase());
      const options = { name: 'test', database: url, migrate: false, logger: silent };
      return { database, role, grant, options };
    };

    it.each(neededRights('dbos'))(
      'names $privilege on $kind $name, and the grant, if exactly this right is missing',
      async (right) => {
        const { kind, name, privilege } = right;
        const { database, role, grant, options } = await place();
        await grant();
        const object = kind === 'schema' ? 'dbos' : `dbos.${name}`;
        await tamper(database, `revoke ${privilege} on ${kind} ${object} from ${role}`);
        const error = await failure(launch(options));
        expect(error).toMatchObject({
          code: 'RIGHTS_MISSING',
          details: { schema: 'dbos', role, missing: [`${privilege} on ${kind} ${name}`] },
        });
        const { grants } = error.details as { grants: string[] };
        expect(error.message).toContain(`${grants.join(';\n')};`);
        for (const each of grants) await tamper(database, each);
        await (await launch(options)).shutdown();
      },
    );

    it('lists all rights if the role has none, with grants that are sufficient', async () => {
      const { database, options } = await place();
      const error = await failure(launch(options));
      expect(error).toMatchObject({ code: 'RIGHTS_MISSING' });
      const { missing, grants } = error.details as { missing: string[]; grants: string[] };
      expect(missing).toHaveLength(neededRights('dbos').length);
      for (const each of grants) await tamper(database, each);
      await (await launch(options)).shutdown();
    });

    it('names the missing right even with `migrate: true` if the tables are current', async () => {
      const { database, role, grant, options } = await place();
      await grant();
      await tamper(database, `revoke usage on sequence holdfast_enqueue_seq from ${role}`);
      expect(await failure(launch({ ...options, migrate: true }))).toMatchObject({ code: 'RIGHTS_MISSING' });
    });

    it('checks these rights only for an app: a client needs fewer', async () => {
      const { database, role, grant, options } = await place();
      await grant();
      await tamper(database, `revoke delete on workflow_status from ${role}`);
      const client = await connect({ database: options.database, logger: silent });
      onTestFinished(() => client.close());
      expect(await client.workflows.list()).toEqual([]);
    });
  },
  ['postgres'],
);
