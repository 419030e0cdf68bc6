/** A worker: start as many as you like, kill them when you like. */
import { launch } from 'holdfast';
import { ship } from './warehouse.mjs';

await launch({ name: 'shop', database: `sqlite:${process.env.SHOP_FILE}`, version: '1', workflows: [ship] });
console.log('ready');
