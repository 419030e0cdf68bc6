/** What the worker does: takes an order out of the stock exactly once, and tells the warehouse. */
import Sqlite from 'better-sqlite3';
import { run, transaction, workflow } from 'holdfast';
import { betterSqlite3Datasource } from 'holdfast/better-sqlite3';

/** The shop's own data, here in the file in which Holdfast keeps its own as well. */
export function openShop() {
  const db = new Sqlite(process.env.SHOP_FILE);
  db.exec('create table if not exists orders (id text primary key, article text, state text)');
  db.exec('create table if not exists stock (article text primary key, pieces int)');
  db.exec("insert into stock values ('lamp', 100) on conflict do nothing");
  return db;
}

const shop = betterSqlite3Datasource(openShop());

const reserve = transaction(shop, 'reserve', (tx, id) => {
  const { article } = tx.prepare('select article from orders where id = ?').get(id);
  const { pieces } = tx.prepare('update stock set pieces = pieces - 1 where article = ? returning pieces').get(article);
  if (pieces < 0) throw new Error(`No ${article} is left.`); // rolls back: the stock stays as it was
  tx.prepare("update orders set state = 'reserved' where id = ?").run(id);
  return pieces;
});

export const ship = workflow('ship', async (id) => {
  const left = await reserve(id);
  await run('tell the warehouse', () => new Promise((resolve) => setTimeout(resolve, 5)));
  return `${id} ships, ${left} left`;
});
