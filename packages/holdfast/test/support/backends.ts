import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, inject } from 'vitest';
import { sqliteDrivers } from '../../../../test-support/sqlite.mjs';
import { migrate } from '../../src/index.js';
import { type TestApp, type TestAppOptions, testApp } from '../../src/testing/index.js';

/** One of the two databases. Every test gets a new store when it asks for one. */
export interface Backend {
  readonly name: 'sqlite' | 'postgres';
  /** Returns the URL of a new, migrated store without rows. The store is removed after the test file. */
  newDatabase(): Promise<string>;
  /** Returns the URL of a new store that is completely empty. */
  emptyDatabase(): Promise<string>;
  /** Launches a test app on a new or the given database. The app and its restarts are stopped after the test. */
  testApp(options?: TestAppOptions): Promise<TestApp>;
}

const both = ['sqlite', 'postgres'] as const;

/** `npm run test:postgres` tests one database only. */
const only = process.env.HOLDFAST_BACKEND;

/** SQLite with the default driver, SQLite with better-sqlite3 if it is a second driver and loads here, and Postgres. */
const everyDriver = ['sqlite', 'better-sqlite3', 'postgres'] as const;

function databaseOf(variant: (typeof everyDriver)[number]): Backend['name'] {
  return variant === 'postgres' ? 'postgres' : 'sqlite';
}

/** Runs a suite once per database. Every promise holds on both databases; only fault tests may name one of them. */
export function describeBackends(
  title: string,
  suite: (backend: Backend) => void,
  names: readonly (typeof everyDriver)[number][] = both,
): void {
  const available = names.filter((name) => name !== 'better-sqlite3' || sqliteDrivers.indexOf(name) > 0);
  const wanted = available.filter((variant) => only === undefined || databaseOf(variant) === only);
  // A file without a suite fails, so suites of the other database alone stay, and are skipped.
  for (const variant of wanted.length > 0 ? wanted : available) {
    const name = databaseOf(variant);
    describe.skipIf(only !== undefined && only !== name)(`${title} (${variant})`, () => {
      const scheme = variant === 'better-sqlite3' ? 'sqlite+better-sqlite3' : 'sqlite';
      const stores = name === 'sqlite' ? sqliteStores(scheme) : postgresStores();
      const started: TestApp[] = [];
      beforeAll(stores.open);
      afterEach(async () => {
        for (const each of started.splice(0)) await each.stop();
      });
      afterAll(stores.close);
      suite({
        name,
        newDatabase: () => stores.create('migrated'),
        emptyDatabase: () => stores.create('empty'),
        testApp: async (options = {}) => {
          const database = options.database ?? (await stores.create('migrated'));
          return track(await testApp({ logger: silent, patience: '30s', ...releasing, ...options, database }), started);
        },
      });
    });
  }
}

/** Runs a suite also on Postgres with `compat: 'none'`, without the indexes that only DBOS applications need. */
export function describeLayouts(title: string, suite: (backend: Backend) => void): void {
  describeBackends(title, suite);
  const bare = (backend: Backend): Backend => ({
    ...backend,
    newDatabase: async () => {
      const database = await backend.newDatabase();
      await migrate({ database, compat: 'none', logger: silent });
      return database;
    },
  });
  describeBackends(`${title}, laid out for compat: 'none'`, (backend) => suite(bare(backend)), ['postgres']);
}

/** Runs a suite with each driver: for crashes, kills and full disks, which must not depend on the SQLite library. */
export function describeDrivers(title: string, suite: (backend: Backend) => void): void {
  describeBackends(title, suite, everyDriver);
}

function track(app: TestApp, started: TestApp[]): TestApp {
  started.push(app);
  return { ...app, restart: async (options) => track(await app.restart(options), started) };
}

/** `HOLDFAST_SUSPEND_AT_ONCE=1 npx vitest run packages/holdfast/test`: every wait of every test ends in a replay. */
const releasing = process.env.HOLDFAST_SUSPEND_AT_ONCE === '1' ? { suspendAtOnce: true } : {};

export const silent = { debug() {}, info() {}, warn() {}, error() {} };

interface Stores {
  open(): Promise<void>;
  create(content: 'migrated' | 'empty'): Promise<string>;
  close(): Promise<void>;
}

function sqliteStores(scheme: string): Stores {
  let folder = '';
  let created = 0;
  return {
    open: async () => {
      folder = await mkdtemp(join(tmpdir(), 'holdfast-test-'));
    },
    create: async (content) => {
      const path = join(folder, `${created++}.sqlite`);
      if (content === 'migrated') await copyFile(inject('sqliteTemplate'), path);
      return `${scheme}:${path}`;
    },
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

function postgresStores(): Stores {
  let admin: pg.Client;
  let strategy = '';
  const created: string[] = [];
  return {
    open: async () => {
      admin = new pg.Client(inject('postgresUrl'));
      await admin.connect();
      const { rows } = await admin.query("select current_setting('server_version_num')::int as version");
      // file_copy halves the time. Before version 15 it is the only strategy, and the option does not exist.
      if (rows[0].version >= 150_000) strategy = 'strategy file_copy';
    },
    create: async (content) => {
      const name = `t${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
      const template = content === 'migrated' ? inject('postgresTemplate') : 'template1';
      await admin.query(`create database ${name} template ${template} ${strategy}`);
      created.push(name);
      const url = new URL(inject('postgresUrl'));
      url.pathname = `/${name}`;
      return url.toString();
    },
    close: async () => {
      for (const name of created) await admin.query(`drop database if exists ${name} with (force)`);
      await admin.end();
    },
  };
}
