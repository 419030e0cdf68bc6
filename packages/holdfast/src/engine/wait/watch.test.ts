import { expect, it } from 'vitest';
import { VirtualClock } from '../../testing/virtual-clock.js';
import { Watch } from './watch.js';

/** A fake database with answers by question. Each topic has a channel, which opens when the test says so. */
function fakeDatabase() {
  const answers = new Map<string, string>();
  const asked: string[] = [];
  const followed: string[] = [];
  const open = new Set<string>();
  const dbos = new Set<string>();
  const channels = {
    channelOf: (topic: string, byDbos: boolean) => (byDbos ? 'of dbos' : topic),
    isOpen: (channel: string) => open.has(channel),
    follow: (channel: string) => void followed.push(channel),
    unfollow: (channel: string) => void followed.splice(followed.indexOf(channel), 1),
  };
  const logger = { debug() {}, info() {}, warn() {}, error() {} };
  let onQuery = (): void => {};
  const watch = new Watch<string, string>(
    {
      name: 'answers',
      identity: (question) => question,
      query: async (questions) => {
        asked.push(...questions);
        const found = new Map(questions.map((question) => [question, answers.get(question) ?? '']));
        await Promise.resolve();
        onQuery();
        return found;
      },
      topic: (question) => question,
      isOfDbos: () => dbos.size > 0,
    },
    new VirtualClock(),
    logger,
    { areReceived: () => true, channels: () => channels },
  );
  const wait = (question: string): string[] => {
    const found: string[] = [];
    const { forget } = watch.add([question], {
      question: () => question,
      answered: (answer) => {
        if (answer === '') return;
        found.push(answer);
        forget();
      },
      failed: () => {},
    });
    return found;
  };
  const eventLoopTurn = () => new Promise((resolve) => setTimeout(resolve));
  /** Opens channels like the storage when LISTEN is confirmed. */
  const openChannels = async (...names: string[]): Promise<void> => {
    for (const channel of names) open.add(channel);
    watch.opened(names);
    await eventLoopTurn();
  };
  const whenQueried = (callback: () => void): void => {
    onQuery = callback;
  };
  return { watch, answers, asked, followed, open, dbos, wait, eventLoopTurn, openChannels, whenQueried };
}

it('finds an existing answer by one query, without following a channel', async () => {
  const { answers, asked, followed, wait, eventLoopTurn } = fakeDatabase();
  answers.set('a', 'there');
  const found = wait('a');
  await eventLoopTurn();
  expect([found, asked, followed]).toEqual([['there'], ['a'], []]);
});

it('finds a change between the first query and the opening of the channel by a second query', async () => {
  const { answers, asked, followed, wait, eventLoopTurn, openChannels } = fakeDatabase();
  const found = wait('a');
  await eventLoopTurn();
  // The change is committed now. Its notification reaches only other processes.
  answers.set('a', 'missed');
  await eventLoopTurn();
  expect([found, followed]).toEqual([[], ['a']]);
  await openChannels('a');
  expect([found, asked, followed]).toEqual([['missed'], ['a', 'a'], []]);
});

it('queries again if the channel opens during the first query', async () => {
  const { answers, open, wait, eventLoopTurn, whenQueried } = fakeDatabase();
  whenQueried(() => {
    answers.set('a', 'missed');
    open.add('a');
  });
  const found = wait('a');
  await eventLoopTurn();
  expect(found).toEqual(['missed']);
});

it('queries once if the channel is already open, and keeps the channel open during the wait', async () => {
  const { watch, answers, asked, followed, open, wait, eventLoopTurn } = fakeDatabase();
  open.add('a');
  const found = wait('a');
  await eventLoopTurn();
  expect([asked, followed]).toEqual([['a'], ['a']]);
  answers.set('a', 'news');
  watch.wake('a');
  await eventLoopTurn();
  expect([found, asked, followed]).toEqual([['news'], ['a', 'a'], []]);
});

it('also follows the channel of DBOS for changes that DBOS announces', async () => {
  const { answers, asked, followed, dbos, wait, eventLoopTurn, openChannels } = fakeDatabase();
  dbos.add('yes');
  const found = wait('a');
  await eventLoopTurn();
  expect(followed).toEqual(['a', 'of dbos']);
  await openChannels('a');
  expect(asked).toEqual(['a', 'a']);
  answers.set('a', 'missed');
  await openChannels('of dbos');
  expect([found, followed]).toEqual([['missed'], []]);
});

it('queries again when a broken session is back, and follows no channel after the wait', async () => {
  const { watch, answers, followed, open, wait, eventLoopTurn, openChannels } = fakeDatabase();
  const found = wait('a');
  const unanswered = wait('b');
  await eventLoopTurn();
  await openChannels('a', 'b');
  open.clear();
  watch.wake('a');
  await eventLoopTurn();
  expect(followed).toEqual(['a', 'b']);
  answers.set('a', 'missed');
  await openChannels('a', 'b');
  expect([found, followed]).toEqual([['missed'], ['b']]);
  watch.close();
  expect([unanswered, followed]).toEqual([[], []]);
});
