/** The shop's process. Started again after a crash, it does exactly what it did the first time. */
import { launch } from 'holdfast';
import { checkout } from './workflows.mjs';

const order = { id: 'order-7', item: 'lighthouse lamp', amount: 42 };

// Takes over what an earlier process left unfinished, before anything else.
const app = await launch({ name: 'shop', database: process.env.SHOP_DATABASE, workflows: [checkout] });

// The ID makes the start idempotent: the second process gets the order of the first, not another one.
const handle = await checkout.with({ id: order.id }).start(order);
const { attempts } = await handle.status();
console.log(JSON.stringify({ pid: process.pid, at: Date.now(), what: 'running', attempts }));

const result = await handle.result();
console.log(JSON.stringify({ pid: process.pid, at: Date.now(), what: 'finished', result }));
await app.shutdown();
