/** A process of one version: `node worker.mjs 1`. Any number of each, side by side. */
import { launch } from 'holdfast';
import { database, orders } from './shop.mjs';

const version = process.argv[2] ?? '1';
const { fulfil } = await import(`./version-${version}.mjs`);

// Without `version` it is a hash of the workflows' source: version 2 would be another one all the same.
const app = await launch({ name: 'shop', database, version, workflows: [fulfil], queues: [orders] });

// Steps under way may end. What waits does not hold this up: it goes to another process of its version at once.
process.once('SIGTERM', () => app.shutdown({ drain: '10s' }));
console.log('ready');
