/**
 * The warehouse has picked an order: `node warehouse.mjs lamp`. It need not know which version or process runs the
 * order.
 */
import { connect } from 'holdfast';
import { database, picked } from './shop.mjs';

const [order = 'lamp'] = process.argv.slice(2);
const client = await connect({ name: 'shop', database });
await picked.send(order, true, { app: client });
await client.close();
