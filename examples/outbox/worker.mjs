/** A worker: start as many as you like, kill them when you like. */
import { launch } from 'holdfast';
import { file } from './shop.mjs';
import { ship } from './warehouse.mjs';

await launch({ name: 'shop', database: `sqlite:${file}`, version: '1', workflows: [ship] });
console.log('ready');
