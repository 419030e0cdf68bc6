/** Prints the number of unfinished workflows of each version. Unless it is 0, a process of that version must run. */
import { connect } from 'holdfast';
import { database } from './shop.mjs';

const client = await connect({ name: 'shop', database });
const latest = await client.versions.latest();
for (const { name } of await client.versions.list()) {
  const unfinished = await client.workflows.list({ version: name, status: ['PENDING', 'ENQUEUED', 'DELAYED'] });
  console.log(`version ${name}${name === latest?.name ? ' (latest)' : ''}: ${unfinished.length} unfinished`);
}
const cancelled = await client.workflows.list({ status: 'CANCELLED' });
console.log(`${cancelled.length} cancelled`);
await client.close();
