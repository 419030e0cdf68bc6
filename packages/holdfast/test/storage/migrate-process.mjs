// This process migrates one database and prints the two versions found afterwards. Arguments: the folder of the
// compiled migrations, a postgres:// URL or a file path, and flags:
//   stall=<n>  stops for ever before the n-th statement and keeps its locks
import { pathToFileURL } from 'node:url';
import pg from 'pg';

const [, , compiled, database, ...flags] = process.argv;
const stall = Number(flags.find((flag) => flag.startsWith('stall='))?.slice(6) ?? Infinity);
const load = (path) => import(pathToFileURL(`${compiled}/storage/${path}`).href);
const say = (line) => process.stdout.write(`${line}\n`);
const logger = { debug: say, info: say, warn: say, error: say };

if (database.startsWith('postgres:')) {
  const { migratePostgres } = await load('postgres/migrate.js');
  const client = new pg.Client({ connectionString: database, application_name: `migrator ${process.pid}` });
  await client.connect();
  const query = client.query.bind(client);
  let statements = 0;
  client.query = async (...args) => {
    statements += 1;
    if (statements === stall) {
      say('stalled');
      await new Promise((resolve) => setTimeout(resolve, 600_000));
    }
    return query(...args);
  };
  await migratePostgres(client, { schema: 'dbos', migrate: true, logger });
  const { rows } = await query(
    'select (select version from dbos.dbos_migrations) as shared, (select version from dbos.holdfast_migrations) as own',
  );
  say(`at ${rows[0].shared}/${rows[0].own}`);
  await client.end();
} else {
  const { migrateSqlite } = await load('sqlite/migrate.js');
  const { findNodeSqlite, openNodeSqlite } = await load('sqlite/node-sqlite.js');
  const { openBetterSqlite3 } = await load('sqlite/better-sqlite3.js');
  const builtIn = findNodeSqlite();
  const open = builtIn ? openNodeSqlite.bind(null, builtIn) : openBetterSqlite3.bind(null, await betterSqlite3());
  const db = open(database);
  db.exec('pragma busy_timeout = 50');
  migrateSqlite(db, { migrate: true, logger });
  const version = (table) => db.prepare(`select version from ${table}`).all()[0].version;
  say(`at ${version('dbos_migrations')}/${version('holdfast_migrations')}`);
  db.close();
}

/** Imported here because the library is not installed in the folder of the compiled migrations. */
async function betterSqlite3() {
  return (await import('better-sqlite3')).default;
}
