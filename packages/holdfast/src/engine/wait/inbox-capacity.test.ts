import { expect, it } from 'vitest';
import { InboxCapacity } from './inbox-capacity.js';

const limits = { messages: 7, bytes: 1_000 };
const one = { messages: 1, bytes: 1 };

it('remembers messages that were stored during a query when the next query begins', async () => {
  const capacity = new InboxCapacity();
  const queries: ((waiting: number) => void)[] = [];
  const find = () =>
    capacity.takeAfterQuery('inbox', one, limits, () => {
      return new Promise((answer) => queries.push((waiting) => answer({ waiting, bytes: waiting })));
    });
  const first = find();
  queries.shift()?.(5);
  expect(await first).toBeUndefined();
  // The next query does not count the first message, which is stored before the query is answered. A third call waits.
  const [second, third] = [find(), find()];
  capacity.release('inbox', one);
  queries.shift()?.(6);
  await new Promise(setImmediate);
  // Later queries count all stored messages: seven, including the first.
  while (queries.length > 0) {
    queries.shift()?.(7);
    await new Promise(setImmediate);
  }
  expect(await Promise.all([second, third])).toEqual([expect.anything(), expect.anything()]);
});

it('queries once for all calls that wait for room, not once for each', async () => {
  const large = { messages: 10_000, bytes: 10_000_000 };
  const countQueries = async (waiting: number) => {
    const capacity = new InboxCapacity();
    let queries = 0;
    const query = async () => {
      queries++;
      return { waiting, bytes: 0 };
    };
    const found = await Promise.all(
      Array.from({ length: 2_000 }, () => capacity.takeAfterQuery('inbox', one, large, query)),
    );
    return { queries, refused: found.filter((full) => full !== undefined).length };
  };
  // A hundredth of the limit needs no query, and each query that finds room admits another hundredth.
  expect(await countQueries(0)).toEqual({ queries: 19, refused: 0 });
  // The messages that were admitted before are being sent, and may have been counted twice.
  expect(await countQueries(10_000)).toEqual({ queries: 3, refused: 1_900 });
});

it('refuses only the calls for which there is no room', async () => {
  const capacity = new InboxCapacity();
  const query = async () => ({ waiting: 5, bytes: 0 });
  const eight = { ...limits, messages: 8 };
  const loads = [1, 3, 2].map((messages) => ({ messages, bytes: 1 }));
  const found = await Promise.all(loads.map((load) => capacity.takeAfterQuery('inbox', load, eight, query)));
  expect(found.map((full) => full !== undefined)).toEqual([false, true, false]);
});

it('admits all waiting calls even if there are more inboxes than are remembered', async () => {
  const capacity = new InboxCapacity();
  let queries = 0;
  const query = () => {
    queries++;
    if (queries > 30_000) throw new Error('It queries forever.');
    return new Promise<{ waiting: number; bytes: number }>((answer) =>
      setImmediate(() => answer({ waiting: 0, bytes: 0 })),
    );
  };
  const sends = Array.from({ length: 10_050 }, (_, i) => capacity.takeAfterQuery(`inbox ${i}`, one, limits, query));
  expect(new Set(await Promise.all(sends))).toEqual(new Set([undefined]));
  expect(queries).toBe(10_050);
});
