import { type Compat, compatSettings, indexesOfOthers } from './migrations/compat.js';
import { holdfastMigrations } from './migrations/holdfast-migrations.js';
import { dropIndex, oldestCodeAt, plainStatements } from './migrations/migration.js';
import { target } from './migrations/migration-state.js';
import { sharedMigrations } from './migrations/shared.js';
import { dropTriggerStatements } from './postgres/adopted.js';
import { postgresDdl } from './postgres/ddl.js';
import { grantStatements, neededRights } from './postgres/rights.js';
import { sqliteDdl } from './sqlite/ddl.js';

export interface SchemaSqlOptions {
  readonly database: 'postgres' | 'sqlite';
  /** On Postgres. */
  readonly schema: string;
  /** False, on Postgres: without the trigger that announces messages. */
  readonly triggers: boolean;
  /** On Postgres. */
  readonly compat?: Compat;
  /** On Postgres: the role that gets the rights that a process needs. */
  readonly grants?: string;
}

/**
 * Returns the SQL that `migrate` would run on an empty database, as one transaction for psql or sqlite3. Use it for
 * databases that only an administrator may change. Afterwards the version counters are set, and processes launch with
 * `migrate: false`.
 */
export function schemaSql(options: SchemaSqlOptions): string {
  const { database, schema, triggers, grants, compat } = options;
  const ddl = database === 'postgres' ? postgresDdl(schema) : sqliteDdl;
  const counter = (name: string): string =>
    `create table ${ddl.table(name)} (version ${ddl.bigint} not null primary key)`;
  const isPostgres = database === 'postgres';
  const statements = [
    ...(isPostgres ? [`create schema if not exists ${ddl.table('').slice(0, -1)}`] : []),
    counter('dbos_migrations'),
    ...sharedMigrations.flatMap((each) => plainStatements(ddl, each)),
    counter('holdfast_migrations'),
    ...holdfastMigrations.flatMap((each) => plainStatements(ddl, each)),
    ...(isPostgres && !triggers ? dropTriggerStatements(ddl) : []),
    `insert into ${ddl.table('dbos_migrations')} (version) values (${target.shared})`,
    `insert into ${ddl.table('holdfast_migrations')} (version, oldest_code) ` +
      `values (${target.own}, ${oldestCodeAt(holdfastMigrations, target.own)})`,
    ...(compat === 'none'
      ? [compatSettings(ddl, compat), ...indexesOfOthers.map(({ name }) => dropIndex(ddl, name))]
      : []),
    ...(compat ? [`update ${ddl.table('holdfast_migrations')} set compat = '${compat}'`] : []),
  ];
  const heading =
    `-- The tables of Holdfast for an empty ${isPostgres ? 'schema' : 'file'}: dbos_migrations ${target.shared}, ` +
    `holdfast_migrations ${target.own}.\n`;
  const grantsText = grants === undefined ? '' : `\n${grantsSql(schema, grants)}`;
  return `${heading}begin;\n${statements.map((each) => `${each};\n`).join('')}commit;\n${grantsText}`;
}

function grantsSql(schema: string, role: string): string {
  const heading = '-- The rights of a role that runs workflows, and may neither create nor change tables.\n';
  return heading + grantStatements(schema, role, neededRights(schema)).join(';\n').concat(';\n');
}
