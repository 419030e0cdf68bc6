import { expect, it, onTestFinished } from 'vitest';
import { openPostgres } from '../../src/storage/postgres/database.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure } from '../support/faults.js';

/** Makes a session read-only, as `alter system` and a reload of the settings do. */
const turn = { name: 'turn', text: "select set_config('default_transaction_read_only', 'on', false)" };

const session = { name: 'session', text: 'select pg_backend_pid() as pid' };

describeBackends(
  'a server that becomes read-only in its existing sessions',
  (backend) => {
    it('is not used: the first answer reports the change, and no existing session is used again', async () => {
      const common = { url: await backend.newDatabase(), schema: 'dbos', migrate: false, logger: silent };
      const database = await openPostgres({ ...common, applicationName: 'test' });
      onTestFinished(() => database.close());
      const sessions = () => Promise.all(Array.from({ length: 3 }, () => database.query(session, [])));
      const before = new Set((await sessions()).map(([row]) => row?.pid));
      const breaks = database.lostConnections();
      const error = await failure(database.query(turn, []));
      // It is unknown if the statement was applied. A caller that must know reads the state back on another session.
      expect([error.message, database.classify(error)]).toEqual(['the server has become read-only', 'lost']);
      expect(database.lostConnections()).toBeGreaterThan(breaks);
      for (const [row] of await sessions()) expect(before).not.toContain(row?.pid);
    });

    it('counts as a lost connection, even if a write notices the change first', async () => {
      const common = { url: await backend.newDatabase(), schema: 'dbos', migrate: false, logger: silent };
      const database = await openPostgres({ ...common, applicationName: 'test' });
      onTestFinished(() => database.close());
      const breaks = database.lostConnections();
      const write = { name: 'write', text: 'create table refused_here (id int)', first: 'set transaction read only' };
      expect(database.classify(await failure(database.query(write, [])))).toBe('retry');
      expect(database.lostConnections()).toBeGreaterThan(breaks);
    });
  },
  ['postgres'],
);
