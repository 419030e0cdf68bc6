/** The shop's own data, in the same file as Holdfast's data: both open the file with the same library. */
import { betterSqlite3Datasource } from 'holdfast/better-sqlite3';
import { sqliteDatasource } from 'holdfast/sqlite';

// The same choice as in Holdfast: the SQLite of Node, or better-sqlite3 if this Node has none.
const sqlite = process.getBuiltinModule?.('node:sqlite');
const Database = sqlite ? sqlite.DatabaseSync : (await import('better-sqlite3')).default;

export const file = process.env.SHOP_FILE;
export const datasourceOf = sqlite ? sqliteDatasource : betterSqlite3Datasource;

export function openShop() {
  const db = new Database(file);
  db.exec('pragma busy_timeout = 5000'); // wait for other processes that write
  db.exec('create table if not exists orders (id text primary key, article text, state text)');
  db.exec('create table if not exists stock (article text primary key, pieces int)');
  db.exec("insert into stock values ('lamp', 100) on conflict do nothing");
  return db;
}
