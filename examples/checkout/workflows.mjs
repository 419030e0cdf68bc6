import { step, workflow } from 'holdfast';
import { bank, carrier, warehouse } from './world.mjs';

// Each call to the outside world is a step. Once a step has returned and its result is recorded, it never runs again.
const reserveStock = step('reserve stock', (order) => warehouse.reserve(order));
const chargeCard = step('charge card', (order) => bank.charge(order), { retries: 3 });
const ship = step('ship', (order, reservation) => carrier.ship(order, reservation), { retries: 3 });

// The workflow is an ordinary async function. After a crash it is called again with the same order: calls of recorded
// steps return the recorded results, and work continues at the first call that is not recorded.
export const checkout = workflow('checkout', async (order) => {
  const reservation = await reserveStock(order);
  const receipt = await chargeCard(order);
  const parcel = await ship(order, reservation);
  return { receipt, parcel };
});
