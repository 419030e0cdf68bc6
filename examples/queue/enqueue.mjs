/** A separate program that knows only the workers' database: it enqueues work, waits, and prints the results. */
import { connect } from 'holdfast';

const client = await connect({ name: 'pictures', database: process.env.PICTURES_DATABASE });
const pictures = [
  ...Array.from({ length: 40 }, (_, i) => ['Acme', `${i}.png`]),
  ...Array.from({ length: 4 }, (_, i) => ['Zenith', `${i}.png`]),
];

// One statement enqueues all of them, or none. The second customer does not wait for the forty pictures of the first.
const handles = await client.startAll('thumbnail', { queue: 'thumbnails' }, pictures, ([customer]) => ({
  partition: String(customer),
}));
const order = [];
await Promise.all(handles.map(async (handle) => order.push(await handle.result())));

const last = order.findLastIndex((line) => line.startsWith('Zenith'));
const workers = new Set(order.map((line) => line.split(' ').at(-1)));
console.log(`${order.length} thumbnails by ${workers.size} processes; Zenith had its last after ${last + 1} of them`);
const { name, nextRunAt } = (await client.schedules.get('every night')) ?? {};
console.log(`next: ${name}, at ${nextRunAt ? new Date(nextRunAt).toISOString() : 'no time'}`);
await client.close();
