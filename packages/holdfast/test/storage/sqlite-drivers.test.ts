import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { sqliteDrivers } from '../../../../test-support/sqlite.mjs';
import { howToBuildSqlite, howToInstallSqlite } from '../../src/storage/install-advice.js';
import { openStorage } from '../../src/storage/open.js';
import { type BetterSqlite3, requiredMajor } from '../../src/storage/sqlite/better-sqlite3.js';
import { sqliteCode } from '../../src/storage/sqlite/codes.js';
import { column, type SqliteConnection, scalar, transact } from '../../src/storage/sqlite/connection.js';
import { loadDriver } from '../../src/storage/sqlite/drivers.js';

import { silent } from '../support/backends.js';
import { failure, thrown } from '../support/faults.js';

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-drivers-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe.each(sqliteDrivers)('a connection of %s', (driver) => {
  async function open(path = ':memory:'): Promise<SqliteConnection> {
    const db = (await loadDriver(driver)).open(path);
    onTestFinished(() => void (db.isOpen() && db.close()));
    return db;
  }

  async function openTable(path?: string): Promise<SqliteConnection> {
    const db = await open(path);
    db.exec('create table things (id text primary key, n int not null, m int unique, o text references things (id))');
    return db;
  }

  it('binds a parameter as often as it is used, and does not change quoted texts', async () => {
    const db = await open();
    const rows = db.prepare(`select $2 || $1 || $2 as a, '$1 ?' as b, "c$1" from (select 1 as "c$1")`).all(['x', 'y']);
    expect(rows.map((row) => ({ ...row }))).toEqual([{ a: 'yxy', b: '$1 ?', c$1: 1 }]);
  });

  it('returns texts, numbers and nulls, and rounds whole numbers beyond 2^53', async () => {
    const db = await openTable();
    const insert = db.prepare('insert into things (id, n, m) values ($1, $2, $3) returning n, m, id');
    const given = insert.all(['ä\u{1f600}', true, undefined]);
    expect(given.map((row) => Object.values(row))).toEqual([[1, null, 'ä\u{1f600}']]);
    expect(scalar(db, 'select 1700000000000 + 0')).toBe(1_700_000_000_000);
    expect(scalar(db, 'select 0.5')).toBe(0.5);
    // A change with an unreadable answer would be applied but reported as failed.
    const far = db.prepare("insert into things (id, n) values ('far', 9223372036854775807) returning n").all();
    expect(far.map(({ n }) => n)).toEqual([Number(2n ** 63n - 1n)]);
  });

  it('refuses a text with a NUL and an object before anything happens', async () => {
    const db = await openTable();
    const insert = db.prepare('insert into things (id, n) values ($1, 1)');
    expect(thrown(() => insert.all(['a\0b']))).toBeInstanceOf(RangeError);
    for (const value of [{ 1: 'a' }, new Date(), [1]])
      expect(thrown(() => insert.all([value]))).toBeInstanceOf(TypeError);
    expect(column(db, 'select id from things')).toEqual([]);
  });

  it('reports failures with the codes of SQLite', async () => {
    const path = join(newFolder(), 'codes.sqlite');
    const db = await openTable(path);
    db.exec("pragma foreign_keys = on; insert into things values ('a', 1, 1, null)");
    const codes = {
      "insert into things values ('a', 1, 2, null)": 'SQLITE_CONSTRAINT_PRIMARYKEY',
      "insert into things values ('b', 1, 1, null)": 'SQLITE_CONSTRAINT_UNIQUE',
      "insert into things values ('b', null, 2, null)": 'SQLITE_CONSTRAINT_NOTNULL',
      "insert into things values ('b', 1, 2, 'nobody')": 'SQLITE_CONSTRAINT_FOREIGNKEY',
      'select nonsense': 'SQLITE_ERROR',
      'pragma query_only = on; delete from things': 'SQLITE_READONLY',
    };
    for (const [text, code] of Object.entries(codes))
      expect([text, sqliteCode(thrown(() => db.exec(text)))]).toEqual([text, code]);
    db.exec('pragma query_only = off');
    const other = await open(path);
    other.exec('pragma busy_timeout = 0');
    db.exec('begin immediate');
    expect(sqliteCode(thrown(() => other.exec('begin immediate')))).toBe('SQLITE_BUSY');
    db.exec('rollback; pragma max_page_count = 4');
    expect(sqliteCode(thrown(() => db.exec('create table more (a); insert into more values (zeroblob(100000))')))).toBe(
      'SQLITE_FULL',
    );
  });

  it('rolls a transaction back if its work or commit fails, and can begin the next', async () => {
    const db = await openTable();
    db.exec(
      'pragma foreign_keys = on; create table late (o text references things (id) deferrable initially deferred)',
    );
    const fail = (): never => {
      db.exec("insert into things values ('a', 1, 1, null)");
      expect(db.inTransaction()).toBe(true);
      throw new Error('no');
    };
    expect(thrown(() => transact(db, 'begin immediate', fail)).message).toBe('no');
    expect(sqliteCode(thrown(() => transact(db, 'begin', () => db.exec("insert into late values ('nobody')"))))).toBe(
      'SQLITE_CONSTRAINT_FOREIGNKEY',
    );
    expect(db.inTransaction()).toBe(false);
    transact(db, 'begin immediate', () => db.exec("insert into things values ('b', 1, 1, null)"));
    expect(column(db, 'select id from things')).toEqual(['b']);
  });

  it('waits for a file that another process has locked exclusively, for example to migrate it', async () => {
    const path = join(newFolder(), 'held.sqlite');
    const holder = await open(path);
    holder.exec('create table things (id text); begin exclusive');
    const db = await open(path);
    holder.exec('commit');
    expect(column(db, 'select count(*) from things')).toEqual([0]);
  });

  it('opens a path as a path, even if it looks like a URI', async () => {
    const path = `file:holdfast-${process.pid}-${driver.slice(0, 4)}?mode=ro`;
    onTestFinished(() => rmSync(path, { force: true }));
    const db = await open(path);
    db.exec('create table t (a)');
    db.close();
    expect(db.isOpen()).toBe(false);
    expect(thrown(() => db.exec('select 1'))).toBeInstanceOf(Error);
    expect(existsSync(path)).toBe(true);
  });
});

it('maps the error numbers of node:sqlite to codes', () => {
  const codes = { 5: 'BUSY', 517: 'BUSY_SNAPSHOT', 6: 'LOCKED', 13: 'FULL', 10: 'IOERR', 1034: 'IOERR_FSYNC' };
  const more = {
    8714: 'IOERR_IN_PAGE',
    2067: 'CONSTRAINT_UNIQUE',
    1555: 'CONSTRAINT_PRIMARYKEY',
    787: 'CONSTRAINT_FOREIGNKEY',
  };
  const rest = {
    1299: 'CONSTRAINT_NOTNULL',
    18: 'TOOBIG',
    20: 'MISMATCH',
    26: 'NOTADB',
    14: 'CANTOPEN',
    8: 'READONLY',
  };
  for (const [errcode, name] of Object.entries({ ...codes, ...more, ...rest })) {
    expect(sqliteCode({ code: 'ERR_SQLITE_ERROR', errcode: Number(errcode) })).toBe(`SQLITE_${name}`);
  }
  for (const other of [undefined, null, 'SQLITE_BUSY', { code: '40001' }, { errcode: 5 }])
    expect(sqliteCode(other)).toBe('');
});

it('Holdfast loads the SQLite of Node, and better-sqlite3 if asked to', async () => {
  expect((await loadDriver()).name).toBe(sqliteDrivers[0]);
  if (sqliteDrivers.includes('better-sqlite3'))
    expect((await loadDriver('better-sqlite3')).name).toBe('better-sqlite3');
});

it.skipIf(sqliteDrivers.length < 2)(
  'a file is refused if a second copy of SQLite opens it, and stays intact',
  async () => {
    const path = join(newFolder(), 'shared.sqlite');
    const options = { schema: 'dbos', migrate: true, logger: silent, applicationName: 'test' };
    const first = await openStorage({ url: `sqlite:${path}`, ...options });
    onTestFinished(() => first.close());
    const error = await failure(openStorage({ url: `sqlite+better-sqlite3:${path}`, ...options }));
    expect(error).toMatchObject({ code: 'SQLITE_COPIES', details: { path } });
    await first.close();
    await (await openStorage({ url: `sqlite+better-sqlite3:${path}`, ...options })).close();
  },
);

it.each([
  [13, '9', '20.20.2', 12],
  [13, '9', '22.13.0', 12],
  [13, '10', '22.14.0', undefined],
  [13, '10', '24.0.0', undefined],
  [12, '9', '20.20.2', undefined],
  [12, '10', '22.23.0', undefined],
  [12, '10', '24.0.0', 13],
])(
  'Holdfast refuses a better-sqlite3 that would crash: %i with Node-API %s on Node %s',
  (found, napi, node, needed) => {
    const library = { prototype: found === 13 ? { explain: true } : {} } as unknown as BetterSqlite3;
    expect(requiredMajor(library, { ...process.versions, napi, node })).toBe(needed);
  },
);

describe('an error about better-sqlite3 gives the install command', () => {
  const byAgent = (agent: string, advice: () => string): string => {
    vi.stubEnv('npm_config_user_agent', agent);
    onTestFinished(() => void vi.unstubAllEnvs());
    return advice();
  };

  it.each([
    ['npm/11.19.1 node/v20', 'npm install better-sqlite3@12', 'npm rebuild better-sqlite3'],
    ['pnpm/10.2.0 npm/? node/v20', 'pnpm add --allow-build=better-sqlite3 better-sqlite3@12', 'pnpm approve-builds'],
    ['yarn/4.9.1 npm/? node/v20', 'yarn add better-sqlite3@12', 'yarn rebuild better-sqlite3'],
  ])('with %s', (agent, install, build) => {
    expect(byAgent(agent, () => howToInstallSqlite(12))).toContain(install);
    expect(byAgent(agent, howToBuildSqlite)).toContain(build);
    // Version 13 has no install script, so there is nothing to approve.
    expect(byAgent(agent, () => howToInstallSqlite(13))).toMatch(/better-sqlite3@13\.$/);
  });

  it.each([
    ['pnpm-lock.yaml', 'pnpm add'],
    ['yarn.lock', 'yarn add'],
    ['package-lock.json', 'npm install'],
  ])('by %s, in a process that no package manager started', (lockfile, command) => {
    const folder = newFolder();
    writeFileSync(join(folder, lockfile), '');
    const spy = vi.spyOn(process, 'cwd').mockReturnValue(join(folder, 'packages', 'shop'));
    onTestFinished(() => spy.mockRestore());
    expect(byAgent('', () => howToInstallSqlite(13))).toBe(`Run: ${command} better-sqlite3@13.`);
  });
});

describe.skipIf(sqliteDrivers[0] !== 'node:sqlite')('the warning of node:sqlite', () => {
  it.each([
    ['by itself', ''],
    ['where `process` is a copy, as in jest', 'globalThis.process = Object.create(process);'],
  ])('is hidden, but no other warning is, %s', (_, before) => {
    const program = `
    ${before}
    const { launch, workflow } = await import('holdfast');
    const app = await launch({ name: 'x', database: 'sqlite::memory:', workflows: [workflow('wf', async () => 1)] });
    await app.shutdown();
    process.emitWarning('something else', 'ExperimentalWarning');
    process.emitWarning('and this', { type: 'DeprecationWarning', code: 'X1' });`;
    const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
      cwd: import.meta.dirname,
    });
    expect(stderr).not.toContain('SQLite');
    expect(stderr).toContain('ExperimentalWarning: something else');
    expect(stderr).toContain('[X1] DeprecationWarning: and this');
  });
});
