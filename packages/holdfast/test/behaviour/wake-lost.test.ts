import { describe, expect, it } from 'vitest';
import { event, queue, run, stream, topic, workflow } from '../../src/index.js';
import type { CrashPoint, TestApp } from '../../src/testing/index.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { withoutNews } from '../support/deaf.js';
import { overTime } from '../support/faults.js';

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

describeBackends('a process that dies after the commit of a message, and before it has announced it', (backend) => {
  const ways = {
    'messages.send': (there: TestApp, to: string) => numbers.send(to, 1, { app: there.app }),
    'steps.record-effects': (there: TestApp, to: string) => sends.with({ app: there.app })(to),
  };
  const cases = Object.keys(ways).flatMap((name) =>
    (['after-apply', 'after-reply'] as const).map((phase) => [name as keyof typeof ways, phase] as const),
  );

  it.each(cases)('leaves a message that its receiver finds within five seconds (%s, %s)', async (name, phase) => {
    const clean = await launched(backend);
    await ways[name](clean.there, (await takes.with({ app: clean.here.app }).start()).id);
    const statement = clean.there.statements.indexOf(name) + 1;
    const { here, there } = await launched(backend, { statement, phase });
    const handle = await takes.with({ app: here.app }).start();
    await here.clock.advance(0);
    void ways[name](there, handle.id).catch(() => {});
    await there.crashed;
    await here.clock.advance('5s');
    expect(await handle.status()).toMatchObject({ status: 'SUCCESS', output: 1 });
    expect(there.statements.slice(statement)).not.toContain('signals.announce');
  });
});

describe('with news switched off, polls find everything', () => {
  withoutNews();
  describeBackends('in another process', (backend) => {
    it('work on a queue, messages, events, the values and the end of a stream, and results', async () => {
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

/** Two apps of one database, each with a clock of its own: `here` runs what is on queues. */
async function launched(backend: Backend, crashAt?: CrashPoint) {
  const database = await backend.newDatabase();
  const common = { database, version: 'v', workflows, queues: [jobs] };
  const here = await backend.testApp({ ...common, executorId: 'here' });
  const there = await backend.testApp({ ...common, executorId: 'there', listen: [], ...(crashAt && { crashAt }) });
  return { here, there };
}
