/** The parts that all versions of the shop and the programs around it share: the queue, the topic, and slow work. */
import { queue, topic } from 'holdfast';

export const database = process.env.SHOP_DATABASE;
export const orders = queue('orders');

/** The warehouse sends this message when it has picked an order. @type {import('holdfast').Topic<boolean>} */
export const picked = topic('picked');

/**
 * The body of a step. It prints a line when it begins, and takes half a second.
 *
 * @param {string} what
 */
export async function work(what) {
  console.log(what);
  await new Promise((resolve) => setTimeout(resolve, 500));
  return process.pid;
}
