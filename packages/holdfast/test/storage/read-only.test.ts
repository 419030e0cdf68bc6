import { expect, it, onTestFinished } from 'vitest';
import { openPostgres } from '../../src/storage/postgres/database.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure } from '../support/faults.js';

/** What `alter system` and a reload of the settings do to a session: from here on, the server it is in is read-only. */
const turn = { name: 'turn', text: "select set_config('default_transaction_read_only', 'on', false)" };

const session = { name: 'session', text: 'select pg_backend_pid() as pid' };

describeBackends(
  'a server that becomes read-only in the sessions that there are',
  (backend) => {
    it('is not read from: the first answer says so, and no other session from before is used', async () => {
      const common = { url: await backend.newDatabase(), schema: 'dbos', migrate: false, logger: silent };
      const database = await openPostgres({ ...common, applicationName: 'test' });
      onTestFinished(() => database.close());
      const sessions = () => Promise.all(Array.from({ length: 3 }, () => database.query(session, [])));
      const before = new Set((await sessions()).map(([row]) => row?.pid));
      const breaks = database.breaks();
      const error = await failure(database.query(turn, []));
      // Nobody knows whether it was applied, and whoever must know reads it back elsewhere.
      expect([error.message, database.classify(error)]).toEqual(['the server has become read-only', 'lost']);
      expect(database.breaks()).toBeGreaterThan(breaks);
      for (const [row] of await sessions()) expect(before).not.toContain(row?.pid);
    });

    it('counts as a connection that was lost, also if a write is what finds it out', async () => {
      const common = { url: await backend.newDatabase(), schema: 'dbos', migrate: false, logger: silent };
      const database = await openPostgres({ ...common, applicationName: 'test' });
      onTestFinished(() => database.close());
      const breaks = database.breaks();
      const write = { name: 'write', text: 'create table refused_here (id int)', first: 'set transaction read only' };
      expect(database.classify(await failure(database.query(write, [])))).toBe('retry');
      expect(database.breaks()).toBeGreaterThan(breaks);
    });
  },
  ['postgres'],
);
