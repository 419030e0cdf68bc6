/** What all versions of the shop share, and the programs around it know: the queue, the topic, and work that takes a while. */
import { queue, topic } from 'holdfast';

export const database = process.env.SHOP_DATABASE;
export const orders = queue('orders');

/** By which the warehouse says that an order was picked. @type {import('holdfast').Topic<boolean>} */
export const picked = topic('picked');

/**
 * The body of a step: says when it begins, and takes its time.
 *
 * @param {string} what
 */
export async function work(what) {
  console.log(what);
  await new Promise((resolve) => setTimeout(resolve, 500));
  return process.pid;
}
