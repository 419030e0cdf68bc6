/** A worker: start as many as you like, kill them when you like. */
import { launch } from 'holdfast';
import { ship } from './warehouse.mjs';

// The file is the shop's as well: both open it with one library.
const database = `sqlite+better-sqlite3:${process.env.SHOP_FILE}`;
await launch({ name: 'shop', database, version: '1', workflows: [ship] });
console.log('ready');
