/** The workflow of an order before the deploy. */
import { run, workflow } from 'holdfast';
import { picked, work } from './shop.mjs';

export const fulfil = workflow('fulfil', async (/** @type {string} */ order) => {
  await run('charge', () => work(`charges ${order}`));
  await picked.receive({ timeout: '7 days' });
  const shipper = await run('ship', () => work(`ships ${order}`));
  return `${order}: shipped by version 1, process ${shipper}`;
});
