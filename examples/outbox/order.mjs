/** The shop commits an order and the workflow that ships it together. Every third customer changes their mind. */
import { connect } from 'holdfast';
import { file, openShop } from './shop.mjs';

const db = openShop();
const client = await connect({ name: 'shop', database: `sqlite:${file}` });

async function order(id, article, changesMind) {
  db.exec('begin immediate');
  try {
    db.prepare('insert into orders values (?, ?, ?)').run(id, article, 'new');
    const shipping = await client.startIn(db, 'ship', { id: `ship ${id}` }, id);
    if (changesMind) throw new Error('changed their mind');
    db.exec('commit');
    return shipping;
  } catch {
    db.exec('rollback'); // neither the order nor the workflow exists
  }
}

const shippings = [];
for (let i = 1; i <= 30; i++) shippings.push(await order(`order-${i}`, 'lamp', i % 3 === 0));
await Promise.all(shippings.map((shipping) => shipping?.result()));

const { orders } = db.prepare("select count(*) as orders from orders where state = 'reserved'").get();
const { pieces } = db.prepare("select pieces from stock where article = 'lamp'").get();
const started = await client.workflows.list({ name: 'ship' });
console.log(`${orders} orders, ${started.length} workflows, ${pieces} of 100 pieces left`);
await client.close();
db.close();
