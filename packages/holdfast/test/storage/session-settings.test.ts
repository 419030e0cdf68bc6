import { expect, it, onTestFinished } from 'vitest';
import { openPostgres } from '../../src/storage/postgres/database.js';
import { describeBackends, silent } from '../support/backends.js';

describeBackends(
  'the settings of a session',
  (backend) => {
    it('switch JIT compilation off on every connection of the pools', async () => {
      const options = { schema: 'dbos', migrate: false, logger: silent, applicationName: 'test' };
      const database = await openPostgres({ url: await backend.newDatabase(), ...options });
      onTestFinished(() => database.close());
      const general = { name: 'test.general', text: 'show jit' };
      const pinned = { name: 'test.pinned', text: 'show jit', pinned: true as const };
      const answers = [
        await database.query(general, []),
        await database.query(pinned, []),
        await database.impatient?.query(pinned, []),
      ];
      expect(answers).toEqual(answers.map(() => [{ jit: 'off' }]));
    });
  },
  ['postgres'],
);
