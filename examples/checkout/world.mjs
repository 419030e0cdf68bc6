/**
 * Replaces the warehouse, the bank and the carrier. Every call adds a line to the effects file, with the process that
 * made it. Effects in the outside world cannot be undone, so this file decides whether the demo has succeeded.
 */
import { appendFileSync } from 'node:fs';
import { context } from 'holdfast';

/** Adds a line to the effects file, and reports it to the demo. */
function happen(step, what) {
  const line = JSON.stringify({ pid: process.pid, at: Date.now(), step, what });
  appendFileSync(process.env.EFFECTS_FILE, `${line}\n`);
  console.log(line);
}

export const warehouse = {
  async reserve(order) {
    happen('reserve stock', 'done');
    return `shelf-${order.item.length}`;
  },
};

export const bank = {
  async charge(order) {
    // A real bank accepts a key under which it charges only once. The workflow ID and the step number make a good key.
    const { workflowId, stepNumber } = context();
    happen('charge card', 'done');
    return `receipt-${workflowId}-${stepNumber}-${order.amount}`;
  },
};

export const carrier = {
  async ship(order, reservation) {
    happen('ship', 'begun');
    if (process.env.CARRIER === 'slow') await never();
    happen('ship', 'done');
    return `parcel-${order.id}-${reservation}`;
  },
};

/** Keeps the process alive and never resolves. */
function never() {
  return new Promise(() => setInterval(() => {}, 1000));
}
