/** The work of the workers: thumbnails for several customers, who share the machines fairly. */
import { queue, run, schedule, workflow } from 'holdfast';

export const thumbnails = queue('thumbnails', {
  concurrency: 4, // in the whole fleet
  workerConcurrency: 3, // in one process
  partition: { concurrency: 2 }, // for one customer; customers take turns
});

export const thumbnail = workflow('thumbnail', async (customer, picture) => {
  await run('scale', () => new Promise((resolve) => setTimeout(resolve, 20)));
  return `${customer}/${picture} by process ${process.pid}`;
});

export const cleanUp = workflow('clean up', async (scheduledAt) => `cleaned up at ${scheduledAt.toISOString()}`);
export const everyNight = schedule('every night', '30 2 * * *', cleanUp, { timezone: 'Europe/Berlin', catchUp: 'one' });
