import { expect, it } from 'vitest';
import { connect, debouncer, queue, run, sleep, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends, silent } from '../support/backends.js';
import { failure, tamper } from '../support/faults.js';
import { launchFleet, rowCounts } from '../support/queues.js';

describeBackends('a debouncer', (backend) => {
  /** A workflow that records its input and when it ran, counted from the call of `follow` on the clock of that app. */
  function recorder() {
    const ran: [input: string, after: number][] = [];
    let since = (): number => 0;
    const wf = workflow('wf', async (input: string) => {
      ran.push([input, since()]);
      return input;
    });
    const follow = ({ clock }: TestApp): void => {
      const from = clock.now();
      since = () => clock.now() - from;
    };
    return { wf, ran, follow };
  }

  it.each(['cancel', 'timeout'])('keeps the run when the first caller ends (%s) after a second call', async (how) => {
    const { wf, ran, follow } = recorder();
    const save = debouncer(wf);
    const first = workflow('first', async () => {
      await save.debounce('k', '10s', 'from a workflow');
      await sleep('1h');
    });
    const t = await backend.testApp({ workflows: [wf, first] });
    follow(t);
    await first.with({ id: 'first', ...(how === 'timeout' && { timeout: '5s' }) }).start();
    while ((await t.app.workflows.list({ name: 'wf' })).length === 0) await t.clock.advance(0);
    const shared = await save.debounce('k', '10s', 'from outside');
    if (how === 'cancel') await t.app.workflows.cancel('first');
    expect(await t.clock.runUntil(shared.result())).toBe('from outside');
    expect(ran.map(([input]) => input)).toEqual(['from outside']);
    expect((await t.app.workflows.get('first'))?.status).toBe('CANCELLED');
  });

  it('runs the workflow once, with the last input, when no call comes during the delay', async () => {
    const { wf, ran, follow } = recorder();
    const t = await backend.testApp({ workflows: [wf] });
    follow(t);
    const save = debouncer(wf);
    const first = await save.debounce('k', '10s', 'a');
    expect(await first.status()).toMatchObject({ status: 'DELAYED', input: ['a'] });
    await t.clock.advance('9s');
    const second = await save.debounce('k', '10s', 'b');
    await t.clock.advance('9s');
    const third = await save.debounce('k', '10s', 'c');
    await t.clock.advance('9999ms');
    expect(ran).toEqual([]);
    await t.clock.advance('1ms');
    expect(ran).toEqual([['c', 28_000]]);
    expect([second.id, third.id]).toEqual([first.id, first.id]);
    expect(await first.result()).toBe('c');
    await t.clock.advance('1h');
    expect(ran).toHaveLength(1);
  });

  it('runs the workflow at the version of the last call, not of the first', async () => {
    const { wf, ran } = recorder();
    const database = await backend.newDatabase();
    const old = await backend.testApp({ database, workflows: [wf], version: '1', executorId: 'old' });
    await debouncer(wf, { app: old.app }).debounce('k', '10s', 'from the old one');
    await old.stop();
    const next = await backend.testApp({
      database,
      workflows: [wf],
      version: '2',
      executorId: 'next',
      clock: old.clock,
    });
    const handle = await debouncer(wf, { app: next.app }).debounce('k', '10s', 'from the new one');
    expect(await next.clock.runUntil(handle.result())).toBe('from the new one');
    expect(await handle.status()).toMatchObject({ version: '2', executorId: 'next' });
    expect(ran).toHaveLength(1);
  });

  it('keeps keys and workflows apart, whatever characters their names contain', async () => {
    const names = ['a', 'a-b', 'a"', 'a","b'];
    const keys = ['b-c', 'c', 'b', '","c', '-', '  x'];
    const workflows = names.map((name) => workflow(name, async (input: string) => input));
    const t = await backend.testApp({ workflows });
    const handles = [];
    for (const wf of workflows) {
      for (const key of keys) handles.push(await debouncer(wf).debounce(key, '1s', `${wf.workflowName}/${key}`));
    }
    await t.clock.advance('1s');
    const expected = names.flatMap((name) => keys.map((key) => `${name}/${key}`));
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual(expected);
  });

  it('delays a run at most for its timeout, counted from the first call', async () => {
    const { wf, ran, follow } = recorder();
    const t = await backend.testApp({ workflows: [wf] });
    follow(t);
    const save = debouncer(wf, { timeout: '25s' });
    for (const input of ['a', 'b', 'c']) {
      await save.debounce('k', '10s', input);
      await t.clock.advance('9s');
    }
    expect(ran).toEqual([['c', 25_000]]);
    await save.debounce('k', '10s', 'd');
    await t.clock.advance('1m');
    // For a new wait, the timeout counts from the first call of that wait.
    expect(ran).toEqual([
      ['c', 25_000],
      ['d', 37_000],
    ]);
    await save.debounce('k', '1h', 'a delay longer than the timeout');
    await t.clock.advance('25s');
    expect(ran.at(-1)).toEqual(['a delay longer than the timeout', 112_000]);
  });

  it('shares its keys with other debouncers of the workflow, and the shortest timeout limits the wait', async () => {
    const { wf, ran, follow } = recorder();
    const t = await backend.testApp({ workflows: [wf] });
    follow(t);
    const [none, long, short] = [debouncer(wf), debouncer(wf, { timeout: '1h' }), debouncer(wf, { timeout: '10s' })];
    const ids = [(await none.debounce('k', '1m', 'a')).id];
    await t.clock.advance('3s');
    ids.push((await long.debounce('k', '1m', 'b')).id);
    await t.clock.advance('3s');
    ids.push((await short.debounce('k', '1m', 'c')).id);
    ids.push((await none.debounce('k', '1m', 'd')).id);
    await t.clock.advance('1h');
    expect(new Set(ids).size).toBe(1);
    expect(ran).toEqual([['d', 10_000]]);
  });

  it('runs the workflow earlier if a later call has a shorter delay, and at once if it has none', async () => {
    const { wf, ran, follow } = recorder();
    const t = await backend.testApp({ workflows: [wf] });
    follow(t);
    const save = debouncer(wf);
    await save.debounce('k', '1h', 'a');
    await save.debounce('now', '1h', 'later');
    await t.clock.advance('1s');
    await save.debounce('now', 0, 'at once');
    await t.clock.advance(0);
    await save.debounce('k', '2s', 'b');
    await t.clock.advance('2s');
    expect(ran).toEqual([
      ['at once', 1_000],
      ['b', 3_000],
    ]);
  });

  it('starts another run for a call that comes after the first run became due but before it ended', async () => {
    const slow = workflow('slow', async (input: string) => {
      await sleep('1h');
      return input;
    });
    const q = queue('q', { concurrency: 1 });
    const t = await backend.testApp({ workflows: [slow], queues: [q] });
    const save = debouncer(slow, { start: { queue: q } });
    const running = await save.debounce('k', '1s', 'running');
    await t.clock.advance('1s');
    const waiting = await save.debounce('k', '1s', 'waiting');
    await t.clock.advance('1s');
    const delayed = await save.debounce('k', '1s', 'delayed');
    expect((await delayed.status()).status).toBe('DELAYED');
    expect((await waiting.status()).status).toBe('ENQUEUED');
    expect((await running.status()).status).toBe('PENDING');
    const results = Promise.all([running, waiting, delayed].map((handle) => handle.result()));
    expect(await t.clock.runUntil(results)).toEqual(['running', 'waiting', 'delayed']);
  });

  it('applies its start options: queue, priority, partition, attributes, timeout, version', async () => {
    const { wf } = recorder();
    const t = await backend.testApp({ workflows: [wf], queues: [queue('q', { partition: {} })] });
    const attributes = { source: 'web' };
    const start = { queue: 'q', priority: 3, partition: 'p', attributes, timeout: '5m', user: 'ada', version: 'v2' };
    const handle = await debouncer(wf, { start }).debounce('k', '1s', 'a');
    expect(await handle.status()).toMatchObject({
      status: 'DELAYED',
      queueName: 'q',
      priority: 3,
      partition: 'p',
      attributes,
      timeoutMs: 300_000,
      user: 'ada',
      version: 'v2',
      delayUntil: t.clock.now() + 1000,
    });
  });

  it('sends one statement per call', async () => {
    const { wf } = recorder();
    const t = await backend.testApp({ workflows: [wf], queues: [queue('q')] });
    const save = debouncer(wf, { timeout: '1m', start: { queue: 'q' } });
    const before = t.statements.length;
    for (let i = 0; i < 20; i++) await save.debounce('k', '1s', `${i}`);
    await t.clock.advance(0);
    const made = t.statements.slice(before).filter((name) => name !== 'queues.overview' && name !== 'signals.announce');
    expect(made).toEqual(Array.from({ length: 20 }, () => 'workflows.debounce'));
  });

  it('of a client takes the workflow by name, and shares its keys with the app', async () => {
    const { wf, ran } = recorder();
    const database = await backend.newDatabase();
    const t = await backend.testApp({ database, workflows: [wf], version: 'v' });
    const client = await connect({ database, name: 'test', logger: silent });
    const own = await debouncer(wf).debounce('k', '1m', 'from the app');
    await tamper(database, `update workflow_status set delay_until_epoch_ms = delay_until_epoch_ms + 600000`);
    const theirs = await debouncer('wf', { app: client }).debounce('k', '1ms', 'from a client');
    expect(theirs.id).toBe(own.id);
    await expect.poll(async () => (await own.status()).input).toEqual(['from a client']);
    await t.app.workflows.setDelay(own.id, 0);
    expect(await t.clock.runUntil(theirs.result())).toBe('from a client');
    expect(ran.map(([input]) => input)).toEqual(['from a client']);
    await client.close();
  });

  it('in a workflow function accepts only the app of that workflow', async () => {
    const { wf, follow } = recorder();
    const database = await backend.newDatabase();
    const client = await connect({ database, name: 'test', logger: silent });
    const caller = workflow('caller', async (): Promise<string> => {
      const refused = await failure(debouncer('wf', { app: client }).debounce('k', '1s', 'x'));
      const taken = await debouncer('wf', { app: t.app }).debounce('k', '1s', 'x');
      const inStep = await run(
        'in a step',
        async () => (await debouncer('wf', { app: client }).debounce('k', '1s', 'y')).id,
      );
      return `${(refused as { code?: string }).code} ${taken.id} ${inStep}`;
    });
    const t = await backend.testApp({ database, workflows: [wf, caller] });
    follow(t);
    expect(await caller.with({ id: 'c' })()).toBe('UNSUPPORTED_CALL c-0 c-0');
    await client.close();
  });

  it('in a workflow is recorded: a replay returns the same run and does not delay it further', async () => {
    const { wf, ran, follow } = recorder();
    const caller = workflow('caller', async () => {
      const { id } = await debouncer(wf).debounce('k', '10s', 'from a workflow');
      await sleep('3s');
      return id;
    });
    const t = await backend.testApp({ workflows: [wf, caller] });
    follow(t);
    const handle = await caller.with({ id: 'c' }).start();
    await t.clock.advance('2s');
    const again = await t.restart();
    expect(await again.clock.runUntil(again.app.workflows.handle(handle.id).result())).toBe('c-0');
    await again.clock.advance('1h');
    expect(ran).toEqual([['from a workflow', 10_000]]);
    expect(await again.app.workflows.steps('c')).toMatchObject([
      { name: 'DBOS.debounceDelayedWorkflow', childWorkflowId: 'c-0' },
      { name: 'DBOS.sleep' },
    ]);
  });

  it.each(['before-send', 'after-apply', 'after-reply', 'before-resolve'] as const)(
    'in a workflow starts one run even if the app crashes %s',
    async (phase) => {
      const { wf, ran } = recorder();
      const caller = workflow('caller', async () => (await debouncer(wf).debounce('k', '10s', 'once')).id);
      const probe = await backend.testApp({ workflows: [wf, caller] });
      await caller();
      const statement = probe.statements.indexOf('workflows.debounce') + 1;
      expect(statement).toBeGreaterThan(0);
      await probe.stop();
      const database = await backend.newDatabase();
      const t = await backend.testApp({ database, workflows: [wf, caller], crashAt: { statement, phase } });
      caller
        .with({ id: 'c' })()
        .catch(() => {});
      await t.crashed;
      const again = await t.restart();
      expect(await again.app.workflows.handle('c').result()).toBe('c-0');
      await again.clock.advance('1m');
      expect(ran.map(([input]) => input)).toEqual(['once']);
      expect(await rowCounts(database)).toMatchObject({ workflows: 2 });
    },
  );

  it('in a workflow returns the same run even if the workflow is recovered after the run began', async () => {
    const { wf, ran } = recorder();
    const caller = workflow('caller', async () => (await debouncer(wf).debounce('k', '10s', 'once')).id);
    const probe = await backend.testApp({ workflows: [wf, caller] });
    await caller();
    const statement = probe.statements.indexOf('workflows.debounce') + 1;
    await probe.stop();
    const shared = { database: await backend.newDatabase(), workflows: [wf, caller] };
    const t = await backend.testApp({ ...shared, crashAt: { statement, phase: 'after-apply' } });
    caller
      .with({ id: 'c' })()
      .catch(() => {});
    await t.crashed;
    const other = await backend.testApp({ ...shared, clock: t.clock, executorId: 'other' });
    await other.clock.advance('10s');
    expect(ran.map(([input]) => input)).toEqual(['once']);
    await other.app.recovery.recover(['test']);
    expect(await other.app.workflows.handle('c').result()).toBe('c-0');
    await other.clock.advance('1m');
    expect(ran).toHaveLength(1);
  });

  it('does not take over a workflow whose deduplication ID happens to equal its key', async () => {
    const { wf } = recorder();
    await backend.testApp({ workflows: [wf], queues: [queue('q')] });
    const save = debouncer(wf, { start: { queue: 'q' } });
    await wf.with({ queue: 'q', dedupId: 'debounce:["wf","k"]', delay: '1m' }).start('mine');
    expect(await failure(save.debounce('k', '1s', 'theirs'))).toMatchObject({ code: 'QUEUE_DUPLICATE' });
  });
});

describeBackends('concurrent calls of a debouncer', (backend) => {
  it('from one process share one run, with the input of the last call', async () => {
    const ran: number[] = [];
    const wf = workflow('wf', async (input: number) => void ran.push(input));
    const t = await backend.testApp({ workflows: [wf] });
    const save = debouncer(wf);
    const calls = Array.from({ length: 100 }, (_, i) => save.debounce('k', '1s', i));
    const ids = (await Promise.all(calls)).map(({ id }) => id);
    expect(new Set(ids).size).toBe(1);
    await t.clock.advance('1s');
    expect(ran).toEqual([99]);
  });

  it('from two processes and a client share one run, with the input of the last call to commit', async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async (input: string) => void ran.push(input));
    const database = await backend.newDatabase();
    const fleet = await launchFleet(backend, 2, { database, workflows: [wf], version: 'v' });
    const client = await connect({ database, name: 'test', logger: silent });
    const [one, two] = fleet as [TestApp, TestApp];
    const callers = [one.app, two.app, client].map((app) => debouncer('wf', { app }));
    // The client uses the real clock, so the delay must be too long for that clock as well.
    const calls = Array.from({ length: 100 }, (_, i) => callers[i % 3]?.debounce('k', '7300 days', `${i}`));
    const ids = (await Promise.all(calls)).map((handle) => handle?.id);
    expect(new Set(ids).size).toBe(1);
    const [row] = await tamper(database, 'select inputs from workflow_status');
    await one.app.workflows.setDelay(ids[0] ?? '', 0);
    await expect.poll(() => ran.length).toBe(1);
    expect(JSON.stringify(row?.inputs)).toContain(`${ran[0]}`);
    expect([97, 98, 99]).toContain(Number(ran[0]));
    expect(await rowCounts(database)).toMatchObject({ workflows: 1 });
    await client.close();
  });

  it('are never lost when they race with the moment the run becomes due', async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async (input: string) => void ran.push(input));
    const t = await backend.testApp({ workflows: [wf] });
    const save = debouncer(wf);
    const runs = new Map<string, string>();
    for (let round = 0; round < 20; round++) {
      await save.debounce('k', '1s', `${round} first`);
      const [, late] = await Promise.all([t.clock.advance('1s'), save.debounce('k', '1s', `${round} late`)]);
      runs.set(late.id, `${round} late`);
      await t.clock.advance('1s');
    }
    for (const [id, input] of runs)
      expect(await t.app.workflows.get(id)).toMatchObject({ status: 'SUCCESS', input: [input] });
    expect([...runs.values()].every((input) => ran.includes(input))).toBe(true);
  });
});
