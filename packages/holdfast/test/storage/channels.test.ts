import { expect, it, onTestFinished } from 'vitest';
import { channelOf } from '../../src/storage/channel-names.js';
import type { Channels } from '../../src/storage/contract/listening.js';
import { openStorage } from '../../src/storage/open.js';
import { OpenChannels } from '../../src/storage/postgres/open-channels.js';
import { describeBackends, silent } from '../support/backends.js';
import { tamper } from '../support/faults.js';
import { newWorkflow, writer } from './contract-support.js';
import { message } from './messaging-support.js';

describeBackends(
  'a listening process',
  (backend) => {
    const opened = async (url: string) => {
      const storage = await openStorage({
        url,
        schema: 'dbos',
        migrate: true,
        logger: silent,
        applicationName: 'test',
      });
      onTestFinished(() => storage.close());
      return storage;
    };
    /** Collects the notifications that a process receives, and the channels that it has opened. */
    async function listener(url: string) {
      const storage = await opened(url);
      const heard: (string | null)[] = [];
      const open: string[] = [];
      const listening = storage.listen({
        received: (topics) => heard.push(...(topics ?? [null])),
        state: () => {},
        opened: (channels) => open.push(...channels),
      });
      onTestFinished(() => listening.stop());
      await listening.ready;
      const { channels } = listening;
      if (!channels) throw new Error('Postgres has channels');
      const follow = async (topic: string, byDbos = false): Promise<string> => {
        const channel = channels.channelOf(topic, byDbos);
        channels.follow(channel);
        await expect.poll(() => open).toContain(channel);
        return channel;
      };
      return { storage, heard, open, channels, follow };
    }
    const said = [...'abcdefgh'].flatMap((id) => [`message:${id}::t`, `event:${id}::k`, `stream:${id}::k`]);

    it('receives notifications of messages, events and streams only if something in it waits for them', async () => {
      const url = await backend.newDatabase();
      const [bystander, waiting, sender] = [await listener(url), await listener(url), await opened(url)];
      await waiting.follow('message:c::t');
      await waiting.follow('stream:e::k');
      await sender.announce([...said, 'queues']);
      // One statement sends all these notifications, in this order.
      await sender.announce(['delays']);
      await expect.poll(() => [bystander.heard.at(-1), waiting.heard.at(-1)]).toEqual(['delays', 'delays']);
      expect(bystander.heard).toEqual(['queues', 'delays']);
      expect(waiting.heard.sort()).toEqual(['delays', 'message:c::t', 'queues', 'stream:e::k']);
    });

    it('receives messages from SQL on the same channel, and events of DBOS on the channel of DBOS', async () => {
      const url = await backend.newDatabase();
      const [bystander, waiting] = [await listener(url), await listener(url)];
      await waiting.storage.workflows.insertMany(writer, [newWorkflow('wörk "flow"')]);
      await waiting.follow('message:wörk "flow"::t');
      await waiting.follow('event:w::k', true);
      await tamper(url, `select send_message('wörk "flow"', '1', 't')`);
      await tamper(url, "select pg_notify('dbos_workflow_events_channel', 'w::k')");
      await bystander.storage.announce(['queues']);
      await expect.poll(() => waiting.heard).toContain('queues');
      expect(waiting.heard).toEqual(['message:wörk "flow"::t', 'event:w::k', 'queues']);
      expect(bystander.heard).toEqual([]);
      // Only the sender announces this message.
      await waiting.storage.messages.send([message('m', 'wörk "flow"')]);
      await bystander.storage.announce(['delays']);
      await expect.poll(() => waiting.heard.at(-1)).toBe('delays');
      expect(waiting.heard).toHaveLength(4);
    });

    it('is notified of work on hundreds of queues, and polls everything if there are too many to list', async () => {
      const url = await backend.newDatabase();
      const [worker, sender] = [await listener(url), await opened(url)];
      const calls = (count: number) =>
        Array.from({ length: count }, (_, i) => `queue:orders ${i}\n[[${2 ** 31 + i},1,"0123456789abcdef"]]`);
      await sender.announce([...calls(500), 'delays']);
      await sender.announce(['queues']);
      await expect.poll(() => worker.heard.at(-1)).toBe('queues');
      expect(new Set(worker.heard)).toEqual(new Set([...calls(500), 'delays', 'queues']));
      await sender.announce(calls(20_000));
      await expect.poll(() => worker.heard.slice(502)).toEqual([null]);
    });

    it('receives each of very many topics, even if they need several payloads', async () => {
      const url = await backend.newDatabase();
      const [waiting, sender] = [await listener(url), await opened(url)];
      const wanted = channelOf('holdfast_dbos', 'message:0::t');
      const topics = Array.from({ length: 60_000 }, (_, i) => `message:${'ü'.repeat(i % 50)}${i}::t`);
      const ours = topics.filter((topic) => channelOf('holdfast_dbos', topic) === wanted);
      await waiting.follow('message:0::t');
      await sender.announce(topics);
      await sender.announce(['queues']);
      await expect.poll(() => waiting.heard.at(-1)).toBe('queues');
      expect(waiting.heard.slice(0, -1).sort()).toEqual(ours.sort());
    });

    it('closes a channel without waiters after ten unneeded notifications', async () => {
      const url = await backend.newDatabase();
      const [waiting, sender] = [await listener(url), await opened(url)];
      const channel = await waiting.follow('message:a::t');
      waiting.channels.unfollow(channel);
      expect(waiting.channels.isOpen(channel)).toBe(true);
      for (let i = 0; i < 10; i++) await sender.announce(['message:a::t']);
      await expect.poll(() => waiting.channels.isOpen(channel)).toBe(false);
      waiting.open.length = 0;
      await waiting.follow('message:a::t');
      await sender.announce(['message:a::t']);
      await expect.poll(() => waiting.heard).toEqual(['message:a::t']);
    });
  },
  ['postgres'],
);

/** A server that answers only when the test tells it to. */
function playServer() {
  const sent: string[] = [];
  const answers: { resolve(): void; reject(error: Error): void }[] = [];
  const opened: string[] = [];
  const channels = new OpenChannels(
    (topic) => topic,
    (list) => opened.push(...list),
  );
  const send = (text: string): Promise<void> => {
    sent.push(text.replaceAll('"', ''));
    return new Promise((resolve, reject) => answers.push({ resolve, reject }));
  };
  const turn = () => new Promise((resolve) => setTimeout(resolve));
  const answer = async (error?: Error): Promise<void> => {
    await turn();
    if (error) answers.shift()?.reject(error);
    else answers.shift()?.resolve();
    await turn();
  };
  return { channels, sent, opened, send, answer, turn };
}

const inVain = (channels: OpenChannels, channel: string): void => {
  for (let i = 0; i < 10; i++) channels.heard(channel);
};
const openNow = (channels: Channels) => ['a', 'b', 'c'].filter((channel) => channels.isOpen(channel));

it('opens a channel when LISTEN is confirmed; channels requested meanwhile go into the next statement', async () => {
  const { channels, sent, opened, send, answer, turn } = playServer();
  void channels.begin(send);
  channels.follow('a');
  channels.follow('a');
  await turn();
  channels.follow('b');
  channels.follow('c');
  expect([sent, openNow(channels)]).toEqual([['listen a'], []]);
  await answer();
  expect([sent.at(-1), opened, openNow(channels)]).toEqual(['listen b; listen c', ['a'], ['a']]);
  await answer();
  expect([opened, openNow(channels)]).toEqual([
    ['a', 'b', 'c'],
    ['a', 'b', 'c'],
  ]);
});

it('reopens a channel that is requested while it is being closed, in this order', async () => {
  const { channels, sent, opened, send, answer } = playServer();
  void channels.begin(send);
  channels.follow('a');
  await answer();
  channels.unfollow('a');
  inVain(channels, 'a');
  expect(openNow(channels)).toEqual([]);
  channels.follow('a');
  await answer();
  expect([sent, openNow(channels)]).toEqual([['listen a', 'unlisten a; listen a'], ['a']]);
  channels.unfollow('a');
  inVain(channels, 'a');
  await new Promise((resolve) => setTimeout(resolve));
  channels.follow('a');
  expect([sent.at(-1), openNow(channels)]).toEqual(['unlisten a', []]);
  await answer();
  await answer();
  expect([sent.at(-1), opened, openNow(channels)]).toEqual(['listen a', ['a', 'a', 'a'], ['a']]);
});

it('has no open channel after the session ends; the next session opens all requested channels', async () => {
  const { channels, sent, opened, send, answer, turn } = playServer();
  void channels.begin(send);
  channels.follow('a');
  await answer();
  channels.follow('b');
  await turn();
  channels.end();
  expect(openNow(channels)).toEqual([]);
  channels.follow('c');
  // The late answer of the previous session.
  await answer();
  expect([opened, openNow(channels)]).toEqual([['a'], []]);
  let begun = false;
  void channels.begin(send).then(() => {
    begun = true;
  });
  await turn();
  expect([sent.at(-1), begun]).toEqual(['listen a; listen b; listen c', false]);
  await answer();
  expect([opened.slice(1), openNow(channels), begun]).toEqual([['a', 'b', 'c'], ['a', 'b', 'c'], true]);
});

it('sends a failed LISTEN again with the next channel', async () => {
  const { channels, sent, send, answer, turn } = playServer();
  void channels.begin(send);
  channels.follow('a');
  await answer(new Error('failed'));
  channels.follow('b');
  await turn();
  expect(sent.at(-1)).toBe('listen a; listen b');
  await answer();
  expect(openNow(channels)).toEqual(['a', 'b']);
});
