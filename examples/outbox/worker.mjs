/** A worker. Start as many as you like, and kill them whenever you like. */
import { launch } from 'holdfast';
import { file } from './shop.mjs';
import { ship } from './warehouse.mjs';

await launch({ name: 'shop', database: `sqlite:${file}`, version: '1', workflows: [ship] });
console.log('ready');
