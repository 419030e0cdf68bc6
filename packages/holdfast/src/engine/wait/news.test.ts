import { expect, it } from 'vitest';
import type { ListenerCallbacks } from '../../storage/contract/listening.js';
import type { Storage } from '../../storage/contract/storage.js';
import { News, type Topic } from './news.js';

/** The News of a process, and a function that delivers notifications of other processes. */
async function newsWithListener() {
  let callbacks: ListenerCallbacks | undefined;
  const listen: Storage['listen'] = (registered) => {
    callbacks = registered;
    return { ready: Promise.resolve(), stop: async () => {} };
  };
  const news = new News({ listen } as Storage, { debug() {}, info() {}, warn() {}, error() {} });
  const delivered: (Topic | null)[] = [];
  news.subscribe((topic) => delivered.push(topic));
  await news.start();
  return { delivered, receive: (...topics: string[]) => callbacks?.received(topics) };
}

it('delivers topics with a line break in their key unchanged', async () => {
  const { delivered, receive } = await newsWithListener();
  const topics = ['message:a\nb::two\nlines', 'event:w::k\n', 'stream:w::\n[[1,1,""]]'];
  receive(...topics);
  expect(delivered).toEqual(topics);
});

it('delivers a topic with an unknown note without the note, and ignores an unknown note without a topic', async () => {
  const { delivered, receive } = await newsWithListener();
  receive('queues\nlater', 'queue:q\nlater', '\nlater');
  expect(delivered).toEqual(['queues', 'queue:q']);
});
