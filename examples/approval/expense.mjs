/** An expense report that a person approves. The server and the person's program share these definitions. */
import { event, run, stream, topic, workflow } from 'holdfast';

/** @typedef {{ by: string, approved: boolean }} Decision */

/** @type {import('holdfast').Topic<Decision>} */
export const decision = topic('decision');
/** @type {import('holdfast').Event<string>} */
export const state = event('state');
/** @type {import('holdfast').Stream<string>} */
export const diary = stream('diary');

export const expense = workflow('expense', async (/** @type {string} */ who, /** @type {number} */ cents) => {
  await diary.write(`${who} asks for ${cents} cents`);
  await state.set('waits for a decision');
  const answer = await decision.receive({ timeout: '14 days' });
  if (!answer?.approved) {
    await state.set('refused');
    await diary.write(answer ? `refused by ${answer.by}` : 'nobody decided in time');
    return 'refused';
  }
  await diary.write(`approved by ${answer.by}`);
  await run('pay', () => `${cents} cents to ${who}`); // a real step calls the bank with an idempotency key
  await state.set('paid');
  await diary.write('paid');
  return 'paid';
});
