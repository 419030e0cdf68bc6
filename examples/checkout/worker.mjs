/** The shop's process. When it is started again after a crash, it does exactly the same as the first time. */
import { launch } from 'holdfast';
import { checkout } from './workflows.mjs';

const order = { id: 'order-7', item: 'lighthouse lamp', amount: 42 };

// First takes over the work that an earlier process left unfinished.
const app = await launch({ name: 'shop', database: process.env.SHOP_DATABASE, workflows: [checkout] });

// The ID makes the start idempotent: the second process gets the workflow of the first, not another one.
const handle = await checkout.with({ id: order.id }).start(order);
const { attempts } = await handle.status();
console.log(JSON.stringify({ pid: process.pid, at: Date.now(), what: 'running', attempts }));

const result = await handle.result();
console.log(JSON.stringify({ pid: process.pid, at: Date.now(), what: 'finished', result }));
await app.shutdown();
