import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { News } from '../../src/engine/wait/news.js';
import { event, queue, run, stream, topic, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { overTime } from '../support/faults.js';
import { withoutNews } from '../support/not-listening.js';

const numbers = topic<number>('numbers');
const progress = event<number>('progress');
const lines = stream<number>('lines');
const jobs = queue('jobs');
const takes = workflow('takes', () => numbers.receive({ timeout: '1h' }));
const sends = workflow('sends', (to: string) => numbers.send(to, 1));
const publishes = workflow('publishes', async () => {
  const first = await numbers.receive({ timeout: '1h' });
  await progress.set(first ?? 0);
  await run('in a step', () => progress.set(2));
  await lines.write(first ?? 0);
  return numbers.receive({ timeout: '1h' });
});
const workflows = [takes, sends, publishes];

describeBackends('a process that dies after it commits a message and before it announces the message', (backend) => {
  const ways = {
    'from outside': (there: TestApp, to: string) => numbers.send(to, 1, { app: there.app }),
    'from a workflow': (there: TestApp, to: string) => sends.with({ app: there.app })(to),
  };

  it.each(Object.entries(ways))(
    'leaves a message that its receiver finds within five seconds (%s)',
    async (_, send) => {
      const { here, there } = await launched(backend);
      const handle = await takes.with({ app: here.app }).start();
      await here.clock.advance(0);
      const announced: string[] = [];
      const died = new Promise<void>((resolve, reject) => {
        vi.spyOn(News.prototype, 'announceToOthers').mockImplementation((topic) => {
          announced.push(topic);
          if (topic.startsWith('message:')) there.crash().then(resolve, reject);
        });
      });
      onTestFinished(() => void vi.restoreAllMocks());
      void send(there, handle.id).catch(() => {});
      await died;
      expect(announced).toContain(`message:${handle.id}::numbers`);
      await here.clock.advance('5s');
      expect(await handle.status()).toMatchObject({ status: 'SUCCESS', output: 1 });
    },
  );
});

describe('with notifications switched off, polls find everything', () => {
  withoutNews();
  describeBackends('another process', (backend) => {
    it('finds queued work, messages, events, the values and the end of a stream, and results', async () => {
      const { here, there } = await launched(backend);
      const handle = await publishes.with({ app: there.app, queue: jobs }).start();
      const both = async <T>(promise: Promise<T>): Promise<T> => {
        void overTime(there.clock, promise, 60).catch(() => {});
        return overTime(here.clock, promise, 60);
      };
      const shown = progress.get(handle.id, { app: there.app, timeout: '1h' });
      const values = lines.read(handle.id, { app: there.app });
      const value = values.next();
      await numbers.send(handle.id, 1, { app: there.app });
      expect([1, 2]).toContain(await both(shown));
      expect(await both(value)).toEqual({ done: false, value: 1 });
      const end = values.next();
      await numbers.send(handle.id, 7, { app: there.app });
      expect(await both(end)).toEqual({ done: true, value: undefined });
      expect(await both(handle.result())).toBe(7);
    });
  });
});

/** Launches two apps on one database, each with its own clock. Only `here` runs queued workflows. */
async function launched(backend: Backend) {
  const database = await backend.newDatabase();
  const common = { database, version: 'v', workflows, queues: [jobs] };
  const here = await backend.testApp({ ...common, executorId: 'here' });
  const there = await backend.testApp({ ...common, executorId: 'there', listen: [] });
  return { here, there };
}
