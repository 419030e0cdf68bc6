import { expect, it } from 'vitest';
import { InboxCapacity } from './inbox-capacity.js';

const limits = { messages: 7, bytes: 1_000 };
const one = { messages: 1, bytes: 1 };

it('does not forget, when the next look begins, what was stored while the last one looked', async () => {
  const room = new InboxCapacity();
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

it('looks once for all that wait for room, not once for each', async () => {
  const wide = { messages: 10_000, bytes: 10_000_000 };
  const looksFor = async (waiting: number) => {
    const room = new InboxCapacity();
    let looks = 0;
    const look = async () => {
      looks++;
      return { waiting, bytes: 0 };
    };
    const found = await Promise.all(Array.from({ length: 2_000 }, () => room.find('inbox', one, wide, look)));
    return { looks, refused: found.filter((full) => full !== undefined).length };
  };
  // A hundredth of the limit needs no look, and each look that finds room lets a hundredth in.
  expect(await looksFor(0)).toEqual({ looks: 19, refused: 0 });
  // What came in before is under way, and may have been counted twice.
  expect(await looksFor(10_000)).toEqual({ looks: 3, refused: 1_900 });
});

it('refuses those alone for whom there is no room', async () => {
  const room = new InboxCapacity();
  const look = async () => ({ waiting: 5, bytes: 0 });
  const loads = [1, 3, 2].map((messages) => ({ messages, bytes: 1 }));
  const found = await Promise.all(loads.map((load) => room.find('inbox', load, { ...limits, messages: 8 }, look)));
  expect(found.map((full) => full !== undefined)).toEqual([false, true, false]);
});

it('lets in all that wait where more inboxes are looked at than are remembered', async () => {
  const room = new InboxCapacity();
  let looks = 0;
  const look = () => {
    looks++;
    if (looks > 30_000) throw new Error('It looks for ever.');
    return new Promise<{ waiting: number; bytes: number }>((answer) =>
      setImmediate(() => answer({ waiting: 0, bytes: 0 })),
    );
  };
  const sends = Array.from({ length: 10_050 }, (_, i) => room.find(`inbox ${i}`, one, limits, look));
  expect(new Set(await Promise.all(sends))).toEqual(new Set([undefined]));
  expect(looks).toBe(10_050);
});
