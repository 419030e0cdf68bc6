/** Constructs the shops, launches, and checks out an order in each. Kill it while it ships, and run it again. */
import { isHoldfastError, launch } from 'holdfast';
import { invoke } from 'holdfast/classes';
import { Shop } from './shop.mjs';

// Construct the shops before launch: unfinished work of an earlier process finds its shop by this name.
const germany = new Shop('de', { currency: 'EUR', vat: 0.19 });
const switzerland = new Shop('ch', { currency: 'CHF', vat: 0.081 });

const app = await launch({ name: 'shops', database: process.env.SHOPS_DATABASE, version: '1', workflows: [Shop] });

const handles = [
  await invoke(germany).checkout.with({ id: 'order-1' }).start('order-1', 100),
  await invoke(switzerland).checkout.with({ id: 'order-2' }).start('order-2', 100),
];
for (const handle of handles) console.log(await handle.result());

console.log(await Shop.report(['de', 'ch']));

const { replace } = invoke(germany);
await replace
  .with({ user: 'eve', roles: ['customer'] })('order-1')
  .catch((error) => {
    if (isHoldfastError(error, 'NOT_AUTHORIZED')) console.log('eve may not do that');
  });
console.log(await replace.with({ user: 'carl', roles: ['clerk'] })('order-1'));

for (const { workflowId, className, configName } of await app.workflows.list({ ids: ['order-1', 'order-2'] })) {
  console.log(workflowId, className, configName);
}
await app.shutdown();
