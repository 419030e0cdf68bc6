/** The worker's workflow: takes an order out of the stock exactly once, and notifies the warehouse. */
import { run, transaction, workflow } from 'holdfast';
import { datasourceOf, openShop } from './shop.mjs';

const shop = datasourceOf(openShop());

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
