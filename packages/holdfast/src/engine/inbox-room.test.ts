import { expect, it } from 'vitest';
import { InboxRoom } from './inbox-room.js';

const limits = { messages: 7, bytes: 1_000 };
const one = { messages: 1, bytes: 1 };

it('does not forget, when the next look begins, what was stored while the last one looked', async () => {
  const room = new InboxRoom();
  const looks: ((waiting: number) => void)[] = [];
  const find = () =>
    room.find('inbox', one, limits, () => {
      return new Promise((answer) => looks.push((waiting) => answer({ waiting, bytes: waiting })));
    });
  const first = find();
  looks.shift()?.(5);
  expect(await first).toBeUndefined();
  // The next look does not see the first message yet, which is stored before that look is answered. A third one waits.
  const [second, third] = [find(), find()];
  room.done('inbox', one);
  looks.shift()?.(6);
  await new Promise(setImmediate);
  // Whoever looks now sees all that is stored, with the first message seven.
  while (looks.length > 0) {
    looks.shift()?.(7);
    await new Promise(setImmediate);
  }
  expect(await Promise.all([second, third])).toEqual([expect.anything(), expect.anything()]);
});
