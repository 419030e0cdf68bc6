import { expect, it } from 'vitest';
import { now, random, run, sleep, uuid, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, gate } from '../support/faults.js';

// P7. Replay is exact: Promise.all, race, any, allSettled over steps, sleeps, receives and children give the same
// results in the same order. Generated programs: test/faults; mismatches: non-determinism.test.ts.
describeBackends('P7 replay', (backend) => {
  /** Runs the workflow until it sleeps, crashes, replays it, and returns what both executions saw. */
  async function replay(body: (log: (entry: unknown) => void) => Promise<unknown>) {
    const logs: unknown[][] = [];
    const wf = workflow('wf', async () => {
      const entries: unknown[] = [];
      logs.push(entries);
      const result = await body((entry) => entries.push(entry));
      entries.push(result);
      await sleep('365d');
      return result;
    });
    const t = await backend.testApp({ workflows: [wf] });
    await wf.with({ id: 'x' }).start();
    await t.clock.advance('1d');
    const again = await t.restart();
    await again.clock.advance('1m');
    expect(logs).toHaveLength(2);
    return { first: logs[0], second: logs[1], result: await again.clock.runUntil(handleOf(again).result()) };
  }

  const handleOf = (t: { app: { workflows: { handle(id: string): { result(): Promise<unknown> } } } }) =>
    t.app.workflows.handle('x');

  const after = (ms: number, value: string) => sleep(ms).then(() => value);

  it('continues the branches of Promise.all in the order in which their steps completed', async () => {
    const { first, second } = await replay(async (log) => {
      const branch = async (name: string, ms: number) => {
        await sleep(ms);
        log(`${name} woke`);
        log(await run(name, () => Math.random()));
        log(await run(`${name} again`, () => Math.random()));
        return name;
      };
      return Promise.all([branch('slow', 300), branch('fast', 100), branch('middle', 200)]);
    });
    expect(first?.slice(0, 1)).toEqual(['fast woke']);
    expect(second).toEqual(first);
  });

  it('lets the same branch win a Promise.race, and continues the losers in the same way', async () => {
    const { first, second, result } = await replay(async (log) => {
      const loser = after(200, 'loser').then((name) => run('loser goes on', () => `${name} ${Math.random()}`));
      void loser.then(log);
      const winner = await Promise.race([loser, after(100, 'winner')]);
      log(await run('after the race', () => Math.random()));
      log(await loser);
      return winner;
    });
    expect(result).toBe('winner');
    expect(second).toEqual(first);
  });

  it('gives Promise.any the same first success after the same failures', async () => {
    const { first, second, result } = await replay(async (log) => {
      const fails = (name: string, ms: number) =>
        sleep(ms).then(() => run(name, () => Promise.reject(new Error(`${name} failed`))));
      const any = await Promise.any([fails('a', 10), after(300, 'late'), after(200, 'first'), fails('b', 20)]);
      log(any);
      const none = await failure(Promise.any([fails('c', 20), fails('d', 10)]));
      log((none as unknown as AggregateError).errors.map((error: Error) => error.message));
      return any;
    });
    expect(result).toBe('first');
    expect(second).toEqual(first);
  });

  it('gives Promise.allSettled the same outcomes, errors included', async () => {
    const { first, second } = await replay(async (log) => {
      const settled = await Promise.allSettled([
        run('ok', () => 1),
        run('fails', () => Promise.reject(Object.assign(new TypeError('no'), { code: 'E1' }))),
        after(50, 'later'),
      ]);
      log(settled.map((each) => (each.status === 'fulfilled' ? each.value : `${each.reason} ${each.reason.code}`)));
      return settled.length;
    });
    expect(first?.[0]).toEqual([1, 'TypeError: no E1', 'later']);
    expect(second).toEqual(first);
  });

  it('delivers a faster step before its neighbor, even if its number is higher', async () => {
    const held = gate();
    const { first, second } = await replay(async (log) => {
      const slow = run('slow', () => held.promise);
      const fast = run('fast', () => {});
      void fast.then(() => held.open());
      await Promise.all([slow.then(() => log('slow')), fast.then(() => log('fast'))]);
    });
    expect(first?.slice(0, 2)).toEqual(['fast', 'slow']);
    expect(second).toEqual(first);
  });

  it('accepts a rejection that the code handles late, without reporting it as unhandled', async () => {
    // Vitest fails the run on an unhandled rejection.
    const { first, second } = await replay(async (log) => {
      const failing = run('fails', () => Promise.reject(new Error('picked up late')));
      await run('another', () => {});
      await sleep('1h');
      log((await failure(failing)).message);
    });
    expect(first?.[0]).toBe('picked up late');
    expect(second).toEqual(first);
  });

  it('runs the code between two results to its end before the next result arrives', async () => {
    const { first, second } = await replay(async (log) => {
      // The first branch needs many microtasks between its result and its next step, and the second one none. If both
      // results arrived in one event loop turn, the second branch would overtake, and they would swap their next steps.
      const roundabout = run('a', () => {}).then(async () => {
        for (let hop = 0; hop < 20; hop++) await null;
        log(await run('after a', () => 'a'));
      });
      const direct = run('b', () => {}).then(async () => log(await run('after b', () => 'b')));
      await Promise.all([roundabout, direct]);
    });
    expect(first?.slice(0, 2)).toEqual(['a', 'b']);
    expect(second).toEqual(first);
  });

  it('gives the same time, random numbers and UUIDs in a replay', async () => {
    const { first, second } = await replay(async (log) => {
      log([now().getTime(), random(), uuid()]);
      await sleep('1h');
      log([now().getTime(), random(), uuid()]);
      await Promise.all([run('a', () => {}), run('b', () => {})].map((step) => step.then(() => log(uuid()))));
      return now().toISOString();
    });
    expect(second).toEqual(first);
    const [before, woken] = first as [[number, number, string], [number, number, string]];
    expect(woken[0] - before[0]).toBe(3_600_000);
    expect(before[1]).toBeGreaterThanOrEqual(0);
    expect(before[1]).toBeLessThan(1);
    expect(before[2]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(before[2]).not.toBe(woken[2]);
  });

  it('uses no statements for time and random numbers, and gives each workflow its own numbers', async () => {
    const drawn: string[] = [];
    const wf = workflow('wf', async () => {
      for (let n = 0; n < 100; n++) drawn.push(`${now().getTime()} ${random()} ${uuid()}`);
    });
    const t = await backend.testApp({ workflows: [wf] });
    await wf();
    const before = t.statements.length;
    await wf();
    expect(t.statements.slice(before)).toEqual(['workflows.insert', 'workflows.finish']);
    expect(new Set(drawn.map((line) => line.slice(line.indexOf(' ')))).size).toBe(200);
  });

  it('gives real time and random numbers outside a workflow and inside a step', async () => {
    expect(Math.abs(now().getTime() - Date.now())).toBeLessThan(10_000);
    const wf = workflow('wf', () => run('inside', () => [now().getTime(), uuid(), random()] as const));
    await backend.testApp({ workflows: [wf] });
    const [time, id, number] = await wf();
    expect(Math.abs(time - Date.now())).toBeLessThan(10_000);
    expect(id).not.toBe(uuid());
    expect(number).not.toBe(random());
  });

  it('gives a workflow the same error in the first run and in the replay', async () => {
    class CardError extends Error {
      override readonly name = 'CardError';
      readonly code = 'DECLINED';
    }
    const { first, second } = await replay(async (log) => {
      const describe = (error: Error & { code?: unknown; cause?: unknown }) => [
        error instanceof CardError,
        error.constructor.name,
        error.name,
        error.message,
        error.code,
        error.stack,
        String(error.cause),
      ];
      const cause = new RangeError('limit');
      log(describe(await failure(run('own', () => Promise.reject(new CardError('card', { cause }))))));
      const several = [new TypeError('one'), new CardError('two')];
      const aggregate = await failure(run('aggregate', () => Promise.reject(new AggregateError(several, 'all'))));
      log([...describe(aggregate), (aggregate as unknown as AggregateError).errors.map(describe)]);
    });
    expect(second).toEqual(first);
    expect(first?.[0]).toMatchObject([
      false,
      'Error',
      'CardError',
      'card',
      'DECLINED',
      expect.any(String),
      'RangeError: limit',
    ]);
  });

  it('gives a workflow the same input in the first run and in the replay, even if the caller changes it', async () => {
    const seen: string[] = [];
    const wf = workflow('wf', async (order: { items: string[]; at: Date }) => {
      seen.push(JSON.stringify(order));
      order.items.push('added by the workflow');
      await sleep('1h');
      return order.items.length;
    });
    const t = await backend.testApp({ workflows: [wf] });
    const order = { items: ['book'], at: new Date(0) };
    const starting = wf.start(order);
    order.items.push('added by the caller');
    const { id } = await starting;
    await t.clock.advance('1m');
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(id).result())).toBe(2);
    expect(seen[1]).toBe(seen[0]);
    expect(order.items).toHaveLength(2);
  });

  it('replays the results of children in the order in which they arrived', async () => {
    const child = workflow('child', async (name: string, ms: number) => {
      await sleep(ms);
      return `${name} ${Math.random()}`;
    });
    const logs: string[][] = [];
    const parent = workflow('parent', async () => {
      const log: string[] = [];
      logs.push(log);
      const call = (name: string, ms: number) => child(name, ms).then((value) => void log.push(value));
      await Promise.all([call('slow', 3000), call('fast', 1000)]);
      await sleep('1d');
      return log;
    });
    const t = await backend.testApp({ workflows: [parent, child] });
    const { id } = await parent.start();
    await t.clock.advance('1h');
    const again = await t.restart();
    const result = await again.clock.runUntil(again.app.workflows.handle(id).result());
    expect(logs[0]?.map((entry) => entry.split(' ')[0])).toEqual(['fast', 'slow']);
    expect(logs[1]).toEqual(logs[0]);
    expect(result).toEqual(logs[0]);
  });
});
