import { execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { inject, onTestFinished } from 'vitest';
import type { Logger } from '../../src/model/logger.js';
import { isOnline, plainStatements } from '../../src/storage/migrations/migration.js';
import { sharedMigrations } from '../../src/storage/migrations/shared.js';
import { postgresDdl } from '../../src/storage/postgres/ddl.js';

/** Creates a logger that keeps its lines. */
export function listener(): Logger & { readonly lines: string[] } {
  const lines: string[] = [];
  const take = (message: string): void => void lines.push(message);
  return { lines, debug: take, info: take, warn: take, error: take };
}

export const quiet: Logger = { debug() {}, info() {}, warn() {}, error() {} };

export function urlOf(database: string): string {
  const url = new URL(inject('postgresUrl'));
  url.pathname = `/${database}`;
  return url.href;
}

/** Creates an empty database that is dropped after the test. */
export async function emptyDatabase(): Promise<string> {
  const name = `mig_${randomUUID().replaceAll('-', '')}`;
  await administer(`create database ${name}`);
  onTestFinished(() => administer(`drop database if exists ${name} with (force)`));
  return urlOf(name);
}

export async function administer(statement: string): Promise<void> {
  const client = new pg.Client(inject('postgresUrl'));
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

export async function connectTo(url: string, applicationName = 'test'): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: applicationName });
  // The database may be dropped, or the session terminated, while the connection is open.
  client.on('error', () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  return client;
}

/** Counts the statements that go through a client. */
export function countStatements(client: pg.Client): string[] {
  const statements: string[] = [];
  const original = client.query.bind(client) as (...args: unknown[]) => unknown;
  client.query = ((...args: unknown[]) => {
    statements.push(String(args[0]));
    return original(...args);
  }) as typeof client.query;
  return statements;
}

/** Makes a database as an older Holdfast would have left it: at exactly this shared version. */
export async function migrateUpTo(client: pg.Client, version: number, schema = 'dbos'): Promise<void> {
  const d = postgresDdl(schema);
  await client.query(`create schema ${d.table('').slice(0, -1)}`);
  await client.query(`create table ${d.table('dbos_migrations')} (version bigint not null primary key)`);
  for (const migration of sharedMigrations.filter((m) => m.version <= version)) {
    for (const statement of plainStatements(d, migration)) await client.query(statement);
  }
  await client.query(`insert into ${d.table('dbos_migrations')} values (${version})`);
}

export const onlineVersions = sharedMigrations.filter(isOnline).map((migration) => migration.version);

export async function versions(client: pg.Client, schema = 'dbos'): Promise<{ shared: number; own: number }> {
  const d = postgresDdl(schema);
  const { rows } = await client.query(
    `select (select json_agg(version) from ${d.table('dbos_migrations')}) as shared,
            (select json_agg(version) from ${d.table('holdfast_migrations')}) as own`,
  );
  const [{ shared, own }] = rows;
  if (shared.length !== 1 || own.length !== 1) throw new Error(`counters hold ${shared} and ${own}`);
  return { shared: shared[0], own: own[0] };
}

/**
 * Lists the contents of a schema, one line per column, index, constraint, function and trigger. The names of foreign
 * keys are left out, because they differ between the languages of DBOS.
 */
export async function layout(client: pg.Client, schema = 'dbos'): Promise<string[]> {
  const { rows } = await client.query(
    `with s as (select oid from pg_namespace where nspname = $1)
     select format('column %s.%s %s%s default %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
              case when a.attnotnull then ' not null' else '' end, coalesce(pg_get_expr(d.adbin, d.adrelid), '-')) as line
       from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
      where c.relnamespace = (select oid from s) and c.relkind = 'r'
     union all
     select format('index %s%s', case when i.indisvalid then '' else 'INVALID ' end, pg_get_indexdef(c.oid))
       from pg_class c join pg_index i on i.indexrelid = c.oid where c.relnamespace = (select oid from s)
     union all
     select format('constraint %s %s', conrelid::regclass, pg_get_constraintdef(oid)) from pg_constraint
      where connamespace = (select oid from s) and contype <> 'n'
     union all
     select format('function %s(%s) returns %s %s %s', proname, pg_get_function_arguments(oid),
              pg_get_function_result(oid), proconfig, prosecdef) from pg_proc where pronamespace = (select oid from s)
     union all
     select format('trigger %s', pg_get_triggerdef(oid)) from pg_trigger
      where not tgisinternal and tgrelid in (select oid from pg_class where relnamespace = (select oid from s))`,
    [schema],
  );
  return rows.map((row) => row.line as string).sort();
}

/** Returns the lines of `a` that are not in `b`. */
export function minus(a: readonly string[], b: readonly string[]): string[] {
  return a.filter((line) => !b.includes(line));
}

const require = createRequire(import.meta.url);
const dbosFolder = join(require.resolve('@dbos-inc/dbos-sdk'), '../');

/** Migrates with the real DBOS, as its users do. */
export function migrateWithDbos(url: string): void {
  execFileSync(process.execPath, [join(dbosFolder, 'cli/cli.js'), 'schema', url], { stdio: 'pipe' });
}

/** Migrates with the real DBOS for TypeScript, but only as far as a release that ended at this version. */
export async function migrateWithDbosUpTo(client: pg.Client, version: number): Promise<void> {
  const load = createRequire(import.meta.url);
  const { runSysMigrationsPg } = load(join(dbosFolder, 'sysdb_migrations/migration_runner.js'));
  const { allMigrations } = load(join(dbosFolder, 'sysdb_migrations/internal/migrations.js'));
  const wanted = allMigrations('dbos', { useListenNotify: true }).slice(0, version);
  await runSysMigrationsPg(client, wanted, 'dbos', { onWarn: () => {} });
}

const packageFolder = fileURLToPath(new URL('../../', import.meta.url));

/** Compiles the migrations into a folder of their own, so that a plain node process can run them. */
export function compileMigrations(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-mig-'));
  const source = join(packageFolder, 'src');
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      extends: join(packageFolder, '../../tsconfig.base.json'),
      compilerOptions: {
        outDir: folder,
        rootDir: source,
        typeRoots: [join(packageFolder, '../../node_modules/@types')],
      },
      files: ['postgres/migrate', 'sqlite/migrate', 'sqlite/better-sqlite3', 'sqlite/node-sqlite'].map((file) =>
        join(source, `storage/${file}.ts`),
      ),
    }),
  );
  const compiler = join(createRequire(import.meta.url).resolve('typescript/package.json'), '../bin/tsc');
  execFileSync(process.execPath, [compiler, '-p', folder], { stdio: 'pipe' });
  return folder;
}

export interface Child {
  readonly kill: () => void;
  /** The exit code, or the signal. */
  readonly ended: Promise<number | string>;
  readonly output: () => string;
  /** Resolves when the output holds this text. */
  readonly says: (text: string) => Promise<void>;
}

/** Runs `migrate-process.mjs`, which migrates and prints the versions. */
export function migrateInProcess(compiled: string, database: string, ...flags: string[]): Child {
  const script = join(packageFolder, 'test/storage/migrate-process.mjs');
  const child = spawn(process.execPath, [script, compiled, database, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const heard = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data) => {
      output += data;
      for (const listen of heard) listen();
    });
  }
  const ended = new Promise<number | string>((resolve) =>
    child.on('close', (code, signal) => resolve(code ?? signal ?? 0)),
  );
  const kill = (): void => void child.kill('SIGKILL');
  onTestFinished(kill);
  const says = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const listen = (): void => {
        if (output.includes(text)) resolve();
      };
      heard.add(listen);
      listen();
      void ended.then(() => reject(new Error(`ended without saying "${text}": ${output}`)));
    });
  return { kill, ended, output: () => output, says };
}
