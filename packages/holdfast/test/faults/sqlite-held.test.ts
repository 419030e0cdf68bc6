import { expect, it, onTestFinished } from 'vitest';
import { sqliteFile } from '../../../../test-support/sqlite.mjs';
import { describeBackends } from '../support/backends.js';
import { TellingProcess } from './reporting-process.js';
import { runOutOfRoom, Writing } from './writing.js';

describeBackends(
  'a SQLite file that another process locks for a long time',
  (backend) => {
    it('is waited for, with a line in the log, and work continues', async () => {
      const database = await backend.newDatabase();
      const writing = new Writing();
      let holder: TellingProcess | undefined;
      onTestFinished(() => holder?.kill());
      await runOutOfRoom(writing, database, {
        fill: async () => {
          holder = await TellingProcess.start('file-holder.mjs', { path: sqliteFile(database) });
        },
        makeRoom: () => holder?.send({}),
        said: /Another process has been writing to the SQLite file for 1 s/,
        lines: 1,
        holdsUp: true,
      });
      // Callers had to wait as well, and got their results.
      expect(writing.told).toEqual([]);
    });
  },
  ['sqlite'],
);
