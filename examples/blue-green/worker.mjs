/** A process of one version: `node worker.mjs 1`. Any number of processes of each version can run side by side. */
import { launch } from 'holdfast';
import { database, orders } from './shop.mjs';

const version = process.argv[2] ?? '1';
const { fulfil } = await import(`./version-${version}.mjs`);

// Without `version`, the version is a hash of the workflows' source, which also differs between versions 1 and 2.
const app = await launch({ name: 'shop', database, version, workflows: [fulfil], queues: [orders] });

// Running steps may end first. Waiting workflows do not delay the shutdown: another process of their version continues
// them at once.
process.once('SIGTERM', () => app.shutdown({ drain: '10s' }));
console.log('ready');
