import { expect } from 'vitest';
import { type QueueOptions, queue, run, topic, workflow } from '../../src/index.js';
import type { TestApp, TestAppOptions } from '../../src/testing/index.js';
import type { Backend } from './backends.js';

/** The topic that the waiters wait for. */
export const go = topic<string>('go');

/** Waits for a message between two steps, and notes when each step starts. */
function newWaiter(begun: string[]) {
  return workflow('waiter', async (label: string) => {
    await run('first', () => void begun.push(`${label} first`));
    const word = await go.receive({ timeout: '1h' });
    await run('second', () => void begun.push(`${label} second`));
    return word ?? 'none';
  });
}

/** Launches an app with a queue `q` that releases slots, and with workflows on it that wait. */
export async function launchWaiters(backend: Backend, options: QueueOptions, more: TestAppOptions = {}) {
  const begun: string[] = [];
  const waiter = newWaiter(begun);
  /** Holds its slot until the test emits `end`. */
  const holder = workflow('holder', () => run('hold', () => t.signals.wait('end')));
  const queues = [queue('q', { whileWaiting: 'release', ...options })];
  const database = await backend.newDatabase();
  const common = { database, workflows: [waiter, holder], queues, suspendAtOnce: true, version: 'v1' };
  const t = await backend.testApp({ ...common, ...more });
  const start = (label: string, given = {}) => waiter.with({ queue: 'q', app: t.app, ...given }).start(label);
  const hold = () => holder.with({ queue: 'q', app: t.app }).start();
  return { t, begun, start, hold, database, launch: { ...common, ...more } };
}

/** Advances the clock second by second until the queue has these counts of waiting, running and suspended workflows. */
export async function untilOnQueue(t: TestApp, counts: { waiting?: number; running?: number; suspended?: number }) {
  const look = async () => {
    await t.clock.advance('1s');
    return t.app.queues.get('q');
  };
  await expect.poll(look, { interval: 5 }).toMatchObject(counts);
}
