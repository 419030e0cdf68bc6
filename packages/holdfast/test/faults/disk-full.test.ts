import { chownSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { sqliteDrivers, sqliteFile } from '../../../../test-support/sqlite.mjs';
import { type SqliteConnection, scalar } from '../../src/storage/sqlite/connection.js';
import type * as drivers from '../../src/storage/sqlite/drivers.js';
import { describeBackends } from '../support/backends.js';
import { as } from './failover-pair.js';
import { startOwnPostgres } from './own-postgres.js';
import { openProxy } from './proxy.js';
import { smallDisk } from './small-disk.js';
import { runOutOfRoom, Writing } from './writing.js';

const minutes = 60_000;

/** SQLite connections opened in this process, including those of the app. A page limit is set per connection. */
const opened = vi.hoisted(() => [] as SqliteConnection[]);
vi.mock('../../src/storage/sqlite/drivers.js', async (original) => {
  const { loadDriver } = await original<typeof drivers>();
  const noted: typeof loadDriver = async (asked) => {
    const { name, open } = await loadDriver(asked);
    const openNoted = (path: string): SqliteConnection => {
      const db = open(path);
      opened.push(db);
      return db;
    };
    return { name, open: openNoted };
  };
  return { loadDriver: noted };
});

describeBackends(
  'a full disk',
  (backend) => {
    it(
      'is waited for, and work continues when there is space: a page limit',
      async () => {
        const database = await backend.newDatabase();
        const limit = (pages: 'now' | number): void => {
          for (const db of opened.filter((each) => each.isOpen() && each.path === sqliteFile(database))) {
            const most = pages === 'now' ? scalar(db, 'pragma page_count') : pages;
            db.exec(`pragma max_page_count = ${most}`);
          }
        };
        const room = { fill: () => limit('now'), makeRoom: () => limit(2 ** 30), said: /database or disk is full/ };
        await runOutOfRoom(new Writing(), database, room);
      },
      3 * minutes,
    );
  },
  ['sqlite', 'better-sqlite3'],
);

describe('a disk that is really full', () => {
  it.for(sqliteDrivers)(
    'is waited for, and work continues when there is space: a small file system under SQLite (%s)',
    { timeout: 3 * minutes },
    async (driver, { skip }) => {
      const disk = smallDisk(16) ?? skip();
      onTestFinished(() => disk.remove());
      const { fill, makeRoom } = disk;
      const room = { fill, makeRoom, said: /database or disk is full|disk I\/O error/ };
      const scheme = driver === sqliteDrivers[0] ? 'sqlite' : `sqlite+${driver}`;
      await runOutOfRoom(new Writing(), `${scheme}:${join(disk.folder, 'app.sqlite')}`, room);
    },
  );

  it(
    'is waited for, and work continues when there is space: a small file system under Postgres tables',
    async ({ skip }) => {
      const disk = smallDisk(48) ?? skip();
      onTestFinished(() => disk.remove());
      const server = await startOwnPostgres({ fsync: 'off', max_connections: 40, shared_buffers: '16MB' });
      onTestFinished(() => server.stop());
      const space = join(disk.folder, 'space');
      mkdirSync(space);
      await as(server.url, async (admin) => {
        const { uid, gid } = statSync((await admin.query('show data_directory')).rows[0].data_directory);
        chownSync(space, uid, gid);
        await admin.query(`create tablespace small location '${space}'`);
        await admin.query('create database small tablespace small');
      });
      const database = server.url.replace(/\/postgres$/, '/small');
      const { fill, makeRoom } = disk;
      await runOutOfRoom(new Writing(), database, { fill, makeRoom, said: /No space left on device/ });
    },
    3 * minutes,
  );
});

/** A full disk, an I/O error, and a server that is starting. */
const states = ['53100', '58030', '57P03'];

describeBackends(
  'a server that cannot serve requests',
  (backend) => {
    it.each(states)('(%s) is waited for, and work continues', async (state) => {
      const proxy = await openProxy(await backend.newDatabase());
      onTestFinished(() => proxy.close());
      const writing = new Writing();
      let armed: ReturnType<typeof proxy.arm> | undefined;
      const fill = (): void => {
        armed = proxy.arm({ kind: 'error', at: /./, times: Number.POSITIVE_INFINITY, state });
      };
      await runOutOfRoom(writing, proxy.url, { fill, makeRoom: () => armed?.disarm(), said: /made up by the proxy/ });
      expect(armed?.count).toBeGreaterThan(3);
      expect(writing.told).toHaveLength(1);
    });
  },
  ['postgres'],
);
