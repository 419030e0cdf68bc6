import { expect, it } from 'vitest';
import { VirtualClock } from '../../testing/virtual-clock.js';
import { Watch } from './watch.js';

/** A database with answers by question, and channels that open when the test says so. One channel for each topic. */
function playDatabase() {
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
  let looked = (): void => {};
  const watch = new Watch<string, string>(
    {
      name: 'answers',
      identity: (question) => question,
      look: async (questions) => {
        asked.push(...questions);
        const found = new Map(questions.map((question) => [question, answers.get(question) ?? '']));
        await Promise.resolve();
        looked();
        return found;
      },
      topic: (question) => question,
      isOfDbos: () => dbos.size > 0,
    },
    new VirtualClock(),
    logger,
    { hears: () => true, channels: () => channels },
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
  const turn = () => new Promise((resolve) => setTimeout(resolve));
  /** As the storage does once LISTEN is confirmed. */
  const opens = async (...list: string[]): Promise<void> => {
    for (const channel of list) open.add(channel);
    watch.opened(list);
    await turn();
  };
  const whenLooked = (callback: () => void): void => {
    looked = callback;
  };
  return { watch, answers, asked, followed, open, dbos, wait, turn, opens, whenLooked };
}

it('what is there is found by one look, without following its channel', async () => {
  const { answers, asked, followed, wait, turn } = playDatabase();
  answers.set('a', 'there');
  const found = wait('a');
  await turn();
  expect([found, asked, followed]).toEqual([['there'], ['a'], []]);
});

it('what comes after the first look and before its channel is open is found by a second look', async () => {
  const { answers, asked, followed, wait, turn, opens } = playDatabase();
  const found = wait('a');
  await turn();
  // Committed now, and announced to others only.
  answers.set('a', 'missed');
  await turn();
  expect([found, followed]).toEqual([[], ['a']]);
  await opens('a');
  expect([found, asked, followed]).toEqual([['missed'], ['a', 'a'], []]);
});

it('a channel that opens during the first look leads to a second one', async () => {
  const { answers, open, wait, turn, whenLooked } = playDatabase();
  whenLooked(() => {
    answers.set('a', 'missed');
    open.add('a');
  });
  const found = wait('a');
  await turn();
  expect(found).toEqual(['missed']);
});

it('one look is enough where the channel is open before it, and the channel stays open as long as the wait', async () => {
  const { watch, answers, asked, followed, open, wait, turn } = playDatabase();
  open.add('a');
  const found = wait('a');
  await turn();
  expect([asked, followed]).toEqual([['a'], ['a']]);
  answers.set('a', 'news');
  watch.wake('a');
  await turn();
  expect([found, asked, followed]).toEqual([['news'], ['a', 'a'], []]);
});

it('what DBOS is to announce is waited for on its channel too', async () => {
  const { answers, asked, followed, dbos, wait, turn, opens } = playDatabase();
  dbos.add('yes');
  const found = wait('a');
  await turn();
  expect(followed).toEqual(['a', 'of dbos']);
  await opens('a');
  expect(asked).toEqual(['a', 'a']);
  answers.set('a', 'missed');
  await opens('of dbos');
  expect([found, followed]).toEqual([['missed'], []]);
});

it('who looks while the session is broken is looked for again when it is back, and lets go in the end', async () => {
  const { watch, answers, followed, open, wait, turn, opens } = playDatabase();
  const found = wait('a');
  const forgotten = wait('b');
  await turn();
  await opens('a', 'b');
  open.clear();
  watch.wake('a');
  await turn();
  expect(followed).toEqual(['a', 'b']);
  answers.set('a', 'missed');
  await opens('a', 'b');
  expect([found, followed]).toEqual([['missed'], ['b']]);
  watch.close();
  expect([forgotten, followed]).toEqual([[], []]);
});
