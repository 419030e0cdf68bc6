/**
 * The workflow of an order after the deploy, which adds wrapping. An order that version 1 has started cannot continue
 * here, and Holdfast keeps it in version 1.
 */
import { run, workflow } from 'holdfast';
import { picked, work } from './shop.mjs';

export const fulfil = workflow('fulfil', async (/** @type {string} */ order) => {
  await run('charge', () => work(`charges ${order}`));
  await picked.receive({ timeout: '7 days' });
  await run('wrap', () => work(`wraps ${order}`));
  const shipper = await run('ship', () => work(`ships ${order}`));
  return `${order}: wrapped and shipped by version 2, process ${shipper}`;
});
