/** Orders after the deploy: they are wrapped. An order that version 1 has begun could not go on here, and does not. */
import { run, workflow } from 'holdfast';
import { picked, work } from './shop.mjs';

export const fulfil = workflow('fulfil', async (/** @type {string} */ order) => {
  await run('charge', () => work(`charges ${order}`));
  await picked.receive({ timeout: '7 days' });
  await run('wrap', () => work(`wraps ${order}`));
  const shipper = await run('ship', () => work(`ships ${order}`));
  return `${order}: wrapped and shipped by version 2, process ${shipper}`;
});
