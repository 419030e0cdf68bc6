/** Places orders: `node order.mjs lamp vase`. It names no version, so the latest version gets the orders. */
import { connect } from 'holdfast';
import { database } from './shop.mjs';

const client = await connect({ name: 'shop', database });
const order = (/** @type {string} */ name) => client.start('fulfil', { id: name, queue: 'orders' }, name);
const handles = await Promise.all(process.argv.slice(2).map(order));
for (const handle of handles) console.log(await handle.result());
await client.close();
