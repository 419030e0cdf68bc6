import { expect, it, onTestFinished } from 'vitest';
import { openSqlite } from '../../../../test-support/sqlite.mjs';
import { connect, queue, run, workflow } from '../../src/index.js';
import { describeBackends, silent } from '../support/backends.js';

const parcels = queue('parcels');
const ship = workflow('ship', async (parcel: string) => run('ship', () => parcel));

describeBackends(
  'a start in a deferred transaction',
  (backend) => {
    // Race: another connection commits between the first read and the first write of the caller's transaction. SQLite
    // then refuses that write at once.
    it('takes the write lock before it reads, so that no other connection commits in between', async () => {
      const database = await backend.newDatabase();
      await backend.testApp({ database, workflows: [ship], queues: [parcels] });
      const client = await connect({ name: 'test', database, logger: silent });
      const [db, other] = [openSqlite(database), openSqlite(database, { timeout: 0 })];
      onTestFinished(async () => {
        db.close();
        other.close();
        await client.close();
      });
      let statements = 0;
      const outcomes = new Set<string>();
      const prepare = db.prepare.bind(db);
      const otherCommits = (): string => {
        try {
          other.exec('update queues set updated_at = updated_at');
          return 'committed';
        } catch (error) {
          return String((error as Error).message);
        }
      };
      const tx = Object.assign(db, {
        prepare: (text: string) => {
          if (statements++ > 0) outcomes.add(otherCommits());
          return prepare(text);
        },
      });
      db.exec('begin');
      await client.startIn(tx, 'ship', { id: 'a', queue: parcels }, 'a');
      db.exec('commit');
      expect([...outcomes]).toEqual(['database is locked']);
    });
  },
  ['sqlite'],
);
