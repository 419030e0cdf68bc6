import { copyFileSync, renameSync } from 'node:fs';
import { relative } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { sqliteFile } from '../../../../test-support/sqlite.mjs';
import { openStorage } from '../../src/storage/open.js';
import { describeBackends } from '../support/backends.js';
import { failure, recordingLogger } from '../support/faults.js';
import { newWorkflow, writer } from './contract-support.js';

describeBackends(
  'a SQLite file that is replaced while it is open',
  (backend) => {
    it('is not written after the next heartbeat, until the file is back', async () => {
      const url = await backend.newDatabase();
      const logger = recordingLogger();
      const storage = await openStorage({ url, schema: 'dbos', migrate: true, logger, applicationName: 'test' });
      onTestFinished(() => storage.close());
      const file = sqliteFile(url);
      const insert = (id: string) => storage.workflows.insertMany(writer, [newWorkflow(id)]);
      await insert('a');
      copyFileSync(file, `${file}.backup`);
      renameSync(file, `${file}.old`);
      renameSync(`${file}.backup`, file);
      for (let beats = 0; beats < 2; beats++) {
        const error = await failure(storage.executors.beat('me'));
        expect([error.code, storage.classify(error)]).toEqual(['DATABASE_UNREACHABLE', 'retry']);
        expect(error.message).toMatch(/was moved away, deleted or replaced .* Restart this process/);
        expect(await failure(insert('b'))).toMatchObject({ code: 'DATABASE_UNREACHABLE' });
        expect(await failure(storage.workflows.get(['a']))).toMatchObject({ code: 'DATABASE_UNREACHABLE' });
      }
      expect(logger.matching(/was moved away/)).toHaveLength(1);
      renameSync(`${file}.old`, file);
      expect(await storage.executors.beat('me')).toBeUndefined();
      expect((await insert('b')).size).toBe(1);
    });

    it('is not confused with a change of the working directory', async () => {
      const before = process.cwd();
      onTestFinished(() => process.chdir(before));
      const file = sqliteFile(await backend.newDatabase());
      const url = `sqlite:${relative(before, file)}`;
      const logger = recordingLogger();
      const storage = await openStorage({ url, schema: 'dbos', migrate: true, logger, applicationName: 'test' });
      onTestFinished(() => storage.close());
      process.chdir(import.meta.dirname);
      expect(await storage.executors.beat('me')).toBeUndefined();
      expect((await storage.workflows.insertMany(writer, [newWorkflow('a')])).size).toBe(1);
      expect(logger.lines).toEqual([]);
    });
  },
  ['sqlite', 'better-sqlite3'],
);
