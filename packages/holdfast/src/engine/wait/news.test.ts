import { expect, it } from 'vitest';
import type { Storage } from '../../storage/contract/storage.js';
import type { ListenerCallbacks } from '../../storage/database.js';
import { News, type Topic } from './news.js';

/** News of a process, and what other processes tell it. */
async function rig() {
  let hearing: ListenerCallbacks | undefined;
  const listen: Storage['listen'] = (given) => {
    hearing = given;
    return { ready: Promise.resolve(), stop: async () => {} };
  };
  const news = new News({ listen } as Storage, { debug() {}, info() {}, warn() {}, error() {} });
  const heard: (Topic | null)[] = [];
  news.subscribe((topic) => heard.push(topic));
  await news.start();
  return { heard, receive: (...topics: string[]) => hearing?.received(topics) };
}

it('of what has a line break in its key comes as it was told', async () => {
  const { heard, receive } = await rig();
  const topics = ['message:a\nb::two\nlines', 'event:w::k\n', 'stream:w::\n[[1,1,""]]'];
  receive(...topics);
  expect(heard).toEqual(topics);
});

it('with a note of a later release comes without the note, and not at all if there is nothing else to it', async () => {
  const { heard, receive } = await rig();
  receive('queues\nlater', 'queue:q\nlater', '\nlater');
  expect(heard).toEqual(['queues', 'queue:q']);
});
