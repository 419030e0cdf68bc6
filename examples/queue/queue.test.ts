import { once } from 'node:events';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { processesOf } from '../test-support/processes.js';

const { startReady, output } = processesOf(import.meta.url, (folder) => ({
  PICTURES_DATABASE: `sqlite:${join(folder, 'pictures.sqlite')}`,
}));

it('shares the queue between two workers, and the small customer does not wait for the large one', async () => {
  const first = await startReady('worker.mjs');
  await startReady('worker.mjs');
  const said = (await output('enqueue.mjs')).join('\n');
  const [, made, workers, last] = /(\d+) thumbnails by (\d) processes; .* last after (\d+) of them/.exec(said) ?? [];
  expect({ made, workers }).toEqual({ made: '44', workers: '2' });
  expect(Number(last)).toBeLessThan(30);
  expect(said).toMatch(/next: every night, at \d{4}-\d\d-\d\dT0[01]:30:00\.000Z/);
  first.kill('SIGTERM');
  expect(await once(first, 'exit')).toEqual([0, null]);
});
