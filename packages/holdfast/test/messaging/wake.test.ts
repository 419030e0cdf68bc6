import pg from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { event, run, stream, topic, workflow } from '../../src/index.js';
import type { TestApp, TestAppOptions, VirtualClock } from '../../src/testing/index.js';
import { openWire } from '../storage/wire.js';
import { type Backend, describeBackends } from '../support/backends.js';
import { gate, isSettled, listeningSessions, recordingLogger, tamper } from '../support/faults.js';

const numbers = topic<number>('numbers');
const progress = event<number>('progress');
const lines = stream<number>('lines');
const takes = workflow('takes', () => numbers.receive({ timeout: '1h' }));

/** Launches two apps on one database, each with its own clock, like two processes. `here` waits, `there` acts. */
async function launchTwo(backend: Backend, options: TestAppOptions & { there?: TestAppOptions } = {}) {
  const { there: more, ...common } = options;
  const database = common.database ?? (await backend.newDatabase());
  const here = await backend.testApp({ version: 'v', executorId: 'here', ...common, database });
  const there = await backend.testApp({ version: 'v', executorId: 'there', ...common, database, ...more });
  return { database, here, there };
}

/** Returns the result of the promise if a notification brings it before the first poll, which is 5 s away. */
async function byNews<T>(clock: VirtualClock, promise: Promise<T>): Promise<T> {
  const pollAt = clock.now() + 4_900;
  while (!(await isSettled(clock, promise))) {
    if (clock.now() >= pollAt) throw new Error('No notification arrived before the first poll.');
    await new Promise((resolve) => setTimeout(resolve, 5));
    await clock.advance(10);
  }
  return promise;
}

describeBackends('a notification from another process', (backend) => {
  it('wakes a receive when a message arrives from outside or from a workflow', async () => {
    const sends = workflow('sends', (to: string) => numbers.send(to, 2));
    const { here, there } = await launchTwo(backend, { workflows: [takes, sends] });
    const start = () => takes.with({ app: here.app }).start();
    const [one, two] = [await start(), await start()];
    await here.clock.advance(0);
    await numbers.send(one.id, 1, { app: there.app });
    expect(await byNews(here.clock, one.result())).toBe(1);
    await sends.with({ app: there.app })(two.id);
    expect(await byNews(here.clock, two.result())).toBe(2);
  });

  it('wakes a caller that waits for an event, set by a workflow or in a step', async () => {
    const [first, second] = [gate(), gate()];
    const sets = workflow('sets', async (inStep: boolean) => {
      await run('hold', () => (inStep ? second : first).promise);
      if (inStep) await run('set', () => progress.set(2));
      else await progress.set(1);
    });
    const { here, there } = await launchTwo(backend, { workflows: [sets] });
    const start = (inStep: boolean) => sets.with({ app: there.app }).start(inStep);
    const handles = [await start(false), await start(true)];
    const wanted = handles.map(({ id }) => progress.get(id, { app: here.app, timeout: '1h' }));
    await here.clock.advance(0);
    first.open();
    expect(await byNews(here.clock, wanted[0] as Promise<unknown>)).toBe(1);
    second.open();
    expect(await byNews(here.clock, wanted[1] as Promise<unknown>)).toBe(2);
  });

  it.each(['close', 'return', 'failure', 'cancellation'])(
    'brings a reader each value of a stream, and the end of the stream by %s',
    async (how) => {
      const [first, second] = [gate(), gate()];
      const writes = workflow('writes', async () => {
        await run('first', () => first.promise);
        await lines.write(1);
        await run('second', () => second.promise);
        if (how === 'close') await lines.close();
        if (how === 'failure') throw new Error('failed');
        if (how === 'close') await run('hold', () => gate().promise);
      });
      const { here, there } = await launchTwo(backend, { workflows: [writes] });
      const { id } = await writes.with({ app: there.app }).start();
      const reader = lines.read(id, { app: here.app });
      const value = reader.next();
      await here.clock.advance(0);
      first.open();
      expect(await byNews(here.clock, value)).toEqual({ done: false, value: 1 });
      const end = reader.next();
      await here.clock.advance(0);
      if (how === 'cancellation') await there.app.workflows.cancel(id);
      else second.open();
      expect(await byNews(here.clock, end)).toEqual({ done: true, value: undefined });
    },
  );

  it('wakes only the receive it concerns, with one query per change', async () => {
    const many = 300;
    const { here, there } = await launchTwo(backend, { workflows: [takes] });
    const handles = await Promise.all(Array.from({ length: many }, () => takes.with({ app: here.app }).start()));
    await here.clock.advance(0);
    const before = here.statements.length;
    await numbers.send(handles[7]?.id ?? '', 1, { app: there.app });
    expect(await byNews(here.clock, handles[7]?.result() ?? Promise.reject())).toBe(1);
    const looks = here.statements.slice(before).filter((name) => name === 'messages.waiting');
    // SQLite does not report which rows changed: one query checks all waiting receives together.
    expect(looks.length).toBeLessThanOrEqual(backend.name === 'sqlite' ? 3 : 2);
    expect(here.statements.slice(before).filter((name) => name === 'queues.overview').length).toBeLessThanOrEqual(
      backend.name === 'sqlite' ? 100 : 0,
    );
  });

  it('is not needed: polls check 10,000 waiting callers every five seconds, in pages', async () => {
    const many = 10_000;
    const t = await backend.testApp({});
    const waiting = Array.from({ length: many }, (_, i) => progress.get(`nobody ${i}`, { timeout: '1h' }));
    void Promise.allSettled(waiting);
    await t.clock.advance(0);
    const looks = () => t.statements.filter((name) => name === 'events.read').length;
    await t.clock.advance('4s');
    // On Postgres each waiting caller is checked again as soon as the listener for its notifications is open.
    const begun = looks();
    expect(begun).toBeGreaterThanOrEqual(many / 500);
    expect(begun).toBeLessThanOrEqual(backend.name === 'sqlite' ? many / 500 : (3 * many) / 500);
    for (let second = 0; second < 20; second++) await t.clock.advance('1s');
    const polls = (looks() - begun) / (many / 500);
    expect(polls).toBeGreaterThanOrEqual(1);
    expect(polls).toBeLessThanOrEqual(5);
    const sets = workflow('sets', () => progress.set(1));
    t.app.register(sets);
    const before = looks();
    await sets.with({ id: 'nobody 77' })();
    expect(await waiting[77]).toBe(1);
    expect(looks() - before).toBeLessThanOrEqual(3);
  });
});

describeBackends('LISTEN', listening, ['postgres']);

function listening(backend: Backend): void {
  const sessions = async (database: string) => (await listeningSessions(database)).map((row) => Number(row.pid));
  const receiving = async (t: TestApp) => {
    const handle = await takes.with({ app: t.app }).start();
    await t.clock.advance(0);
    return handle;
  };

  it('needs one connection, however many callers wait', async () => {
    const database = await backend.newDatabase();
    const t = await backend.testApp({ workflows: [takes], database });
    const handles = await Promise.all(Array.from({ length: 500 }, () => takes.start()));
    const values = Array.from({ length: 500 }, (_, i) => progress.get(`nobody ${i}`, { timeout: '1h' }));
    void Promise.allSettled(values);
    await t.clock.advance(0);
    expect(await sessions(database)).toHaveLength(1);
    await numbers.sendAll(handles.map(({ id }, value) => ({ to: id, value })));
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(handles.map((_, i) => i));
  });

  it('reports a message sent in a transaction of the caller once the transaction commits, and not before', async () => {
    const { database, here, there } = await launchTwo(backend, { workflows: [takes] });
    const handle = await receiving(here);
    const tx = new pg.Client(database);
    await tx.connect();
    onTestFinished(() => tx.end());
    await tx.query('begin');
    await numbers.sendIn(tx, handle.id, 1, { app: there.app });
    expect(await isSettled(here.clock, handle.result())).toBe(false);
    await tx.query('commit');
    expect(await byNews(here.clock, handle.result())).toBe(1);
  });

  it('continues in a new session if the server ends the old one, and finds what arrived meanwhile', async () => {
    const { database, here, there } = await launchTwo(backend, { workflows: [takes] });
    const [one, two] = [await receiving(here), await receiving(here)];
    const before = await sessions(database);
    expect(before).toHaveLength(2);
    for (const pid of before) await tamper(database, `select pg_terminate_backend(${pid})`);
    await numbers.send(one.id, 1, { app: there.app });
    expect(await byNews(here.clock, one.result())).toBe(1);
    await vi.waitFor(async () => expect(await sessions(database)).toHaveLength(2), { timeout: 10_000 });
    expect((await sessions(database)).some((pid) => before.includes(pid))).toBe(false);
    await numbers.send(two.id, 2, { app: there.app });
    expect(await byNews(here.clock, two.result())).toBe(2);
  });

  it('may die silently: a poll finds the message within five seconds', async () => {
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    const { here, there } = await launchTwo(backend, { workflows: [takes], database: wire.url, there: { database } });
    const handle = await receiving(here);
    expect(wire.deafen()).toBe(1);
    await numbers.send(handle.id, 1, { app: there.app });
    const result = handle.result();
    await here.clock.advance('4s');
    expect(await isSettled(here.clock, result)).toBe(false);
    await here.clock.advance('1s');
    expect(await isSettled(here.clock, result)).toBe(true);
    expect(await result).toBe(1);
  });

  it('is logged once at launch if a pooler breaks it, and polls twice a second replace it', async () => {
    const database = await backend.newDatabase();
    const wire = await openWire(database);
    wire.swallowNotifications(true);
    const logger = recordingLogger();
    const common = { workflows: [takes], database: wire.url, logger, there: { database } };
    const { here, there } = await launchTwo(backend, common);
    expect(logger.matching(/LISTEN does not work/)).toHaveLength(1);
    const handle = await receiving(here);
    await numbers.send(handle.id, 1, { app: there.app });
    const result = handle.result();
    expect(await isSettled(here.clock, result)).toBe(false);
    await here.clock.advance(500);
    expect(await result).toBe(1);
    expect(logger.matching(/LISTEN does not work/)).toHaveLength(1);
  });
}
