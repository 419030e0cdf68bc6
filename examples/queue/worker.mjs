/** A worker. Start as many as you like. On SIGTERM it finishes its running workflows, for at most ten seconds. */
import { launch } from 'holdfast';
import { cleanUp, everyNight, thumbnail, thumbnails } from './work.mjs';

const app = await launch({
  name: 'pictures',
  database: process.env.PICTURES_DATABASE,
  version: '1',
  workflows: [thumbnail, cleanUp],
  queues: [thumbnails],
  schedules: [everyNight],
});
process.once('SIGTERM', () => app.shutdown({ drain: '10s' }));
console.log('ready');
