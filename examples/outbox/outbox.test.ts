import { join } from 'node:path';
import { expect, it } from 'vitest';
import { processesOf } from '../test-support/processes.js';

const { startReady, output } = processesOf(import.meta.url, (folder) => ({ SHOP_FILE: join(folder, 'shop.sqlite') }));

it('ships every committed order, and takes each from the stock once, even if a worker is killed', async () => {
  const first = await startReady('worker.mjs');
  await startReady('worker.mjs');
  const said = output('order.mjs');
  first.kill('SIGKILL');
  expect(await said).toEqual(['20 orders, 20 workflows, 80 of 100 pieces left']);
});
