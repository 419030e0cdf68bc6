/**
 * Stands in for the warehouse, the bank and the carrier. Every call leaves a line in the effects file, with the process
 * that made it: what happened in the outside world cannot be undone, so this file is what the demo is judged by.
 */
import { appendFileSync } from 'node:fs';
import { context } from 'holdfast';

/** Adds a line to the effects file, and tells the demo. */
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
    // A real bank takes a key under which it charges only once. The workflow's ID and the step's number are a good one.
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

/** Keeps the process alive and answers nothing. */
function never() {
  return new Promise(() => setInterval(() => {}, 1000));
}
