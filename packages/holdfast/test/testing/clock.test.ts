import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished, vi } from 'vitest';
import { context, now, run, sleep, step, topic, transaction, workflow } from '../../src/index.js';
import { Signals, testApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';
import { plainest } from '../support/datasources.js';
import { failure, forever } from '../support/faults.js';
import { counter, openUserData } from '../support/user-data.js';

/** Takes some tens of milliseconds outside of this process, like a call of a service. */
const realWork = () => promisify(execFile)(process.execPath, ['--version']);

describeBackends('the clock of the test kit', (backend) => {
  it('stands still while a step does real work, so that the timeout of the step does not pass', async () => {
    const fetchPage = step('fetch', async () => void (await realWork()), { timeout: '10s' });
    const wf = workflow('wf', async () => {
      await fetchPage();
      return now().getTime();
    });
    const t = await backend.testApp({ workflows: [wf] });
    const began = t.clock.now();
    expect(await t.clock.runUntil(wf())).toBe(began);
    await wf.with({ id: 'x' }).start();
    await t.clock.advance('47h');
    expect(await t.app.workflows.get('x')).toMatchObject({ status: 'SUCCESS', output: began });
  });

  it('does not advance past a transaction that is still running', async () => {
    const data = await openUserData(backend, plainest[backend.name]);
    const reserve = transaction(data.datasource, 'reserve', async (tx) => {
      await realWork();
      await data.add(tx, 'reserved', 1);
    });
    const approval = topic<boolean>('approval');
    const wf = workflow('wf', async () => {
      await reserve();
      return approval.receive({ timeout: '48h' });
    });
    const t = await backend.testApp({ workflows: [wf] });
    const began = t.clock.now();
    const handle = await wf.start();
    await t.clock.advance('47h');
    expect(t.clock.now() - began).toBe(47 * 3_600_000);
    await approval.send(handle.id, true);
    expect(await t.clock.runUntil(handle.result())).toBe(true);
    expect(await counter(data.url, 'reserved')).toBe(1);
    const other = await wf.start();
    await t.clock.advance('48h');
    expect(await other.status()).toMatchObject({ status: 'SUCCESS', output: undefined });
  });

  it('does not wait for a step of a cancelled workflow, and skips the time between retries', async () => {
    const hang = workflow('hang', () => run('hang', () => new Promise(() => {})));
    const flaky = workflow('flaky', () =>
      run(
        'flaky',
        async () => {
          await realWork();
          if (context().attempt === 1) throw new Error('not yet');
        },
        { retries: { max: 1, initial: '1h', jitter: 0 } },
      ),
    );
    const t = await backend.testApp({ workflows: [hang, flaky] });
    const began = t.clock.now();
    const hanging = await hang.start();
    await hanging.cancel();
    await t.clock.runUntil(flaky());
    expect(t.clock.now() - began).toBe(3_600_000);
  });

  it('advances while a step waits for another workflow', async () => {
    const slow = workflow('slow', async () => {
      await sleep('1h');
      return 'slow';
    });
    const asking = workflow('asking', () => run('ask', () => t.app.workflows.handle<string>('slow').result()));
    const t = await backend.testApp({ workflows: [slow, asking], patience: '500ms' });
    await slow.with({ id: 'slow' }).start();
    expect(await t.clock.runUntil(asking())).toBe('slow');
  });
});

it('the clock reports the step it waits for if the step takes long, and what to do', async () => {
  const hang = step('hang', () => new Promise<void>(() => {}), { timeout: '10s' });
  const wf = workflow('wf', hang);
  const t = await testApp({ workflows: [wf], patience: 20 });
  const result = wf.with({ id: 'order-7' })();
  const began = t.clock.now();
  for (const held of [failure(t.clock.runUntil(result)), failure(t.clock.advance('11s'))]) {
    expect(await held).toMatchObject({
      code: 'CLOCK_HELD',
      message: expect.stringMatching(/step "hang" of workflow "order-7" \(wf\).*whileRunning.*patience.*stub/is),
      details: { step: 'hang', workflowId: 'order-7', workflow: 'wf', attempt: 1 },
    });
  }
  expect(t.clock.now()).toBe(began);
  await t.clock.advance(0);
  const timedOut = t.clock.runUntil(result, { whileRunning: true });
  expect(await failure(timedOut)).toMatchObject({ code: 'STEP_TIMEOUT' });
  expect(t.clock.now() - began).toBe(10_000);
  await t.stop();
});

it('the clock advances past a step that waits for a signal of the test', async () => {
  const wf = workflow('wf', () => run('hold', () => t.signals.wait('go'), { timeout: '10s' }));
  const t = await testApp({ workflows: [wf], patience: 20 });
  const held = await wf.start();
  await t.clock.advance('9s');
  t.signals.emit('go');
  await t.clock.runUntil(held.result());
  const late = workflow('late', () => run('hold for ever', () => new Signals().wait('never'), { timeout: '10s' }));
  t.app.register(late);
  expect(await failure(t.clock.runUntil(late()))).toMatchObject({ code: 'STEP_TIMEOUT' });
  await t.stop();
});

it('the clock advances past a step that waits for the clock itself', async () => {
  const wf = workflow('wf', () =>
    run('wait', () => new Promise<void>((resolve) => void t.clock.at(t.clock.now() + 1_000, resolve))),
  );
  const t = await testApp({ workflows: [wf], patience: 500 });
  const began = t.clock.now();
  await t.clock.runUntil(wf());
  expect(t.clock.now() - began).toBe(1_000);
  await t.stop();
});

it('the clock advances when a step advances it to simulate slow work', async () => {
  const wf = workflow('wf', () => run('take long', () => t.clock.advance('20s'), { timeout: '10s' }));
  const t = await testApp({ workflows: [wf], patience: 500 });
  expect(await failure(wf())).toMatchObject({ code: 'STEP_TIMEOUT' });
  await t.stop();
});

it('runUntil() returns as soon as the promise settles, even if steps still run', async () => {
  const wf = workflow('wf', () =>
    run('upload', () => {
      t.signals.emit('uploading');
      return new Promise(() => {});
    }),
  );
  const t = await testApp({ workflows: [wf], patience: 500 });
  await wf.start();
  await t.clock.runUntil(t.signals.wait('uploading'));
  await t.stop();
});

it('testApp() refuses a patience that is not a duration, and unknown options', async () => {
  expect(await failure(testApp({ patience: 'soon' as never }))).toMatchObject({ code: 'INVALID_DURATION' });
  const unknown = { code: 'INVALID_OPTION', message: /^testApp\(\) has no option "stubz"\. Did you mean "stubs"\?/ };
  expect(await failure(testApp({ stubz: {} } as never))).toMatchObject({
    ...unknown,
    message: expect.stringMatching(unknown.message),
  });
  const t = await testApp();
  const misspelt = { whilerunning: true } as never;
  expect(await failure(t.clock.advance(1, misspelt))).toMatchObject({ code: 'INVALID_OPTION' });
  expect(await failure(t.clock.runUntil(forever(), misspelt))).toMatchObject({ code: 'INVALID_OPTION' });
  await t.stop();
});

it('testApp() leaves no temporary folder behind if the app cannot be launched', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'test-app-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  vi.stubEnv('TMPDIR', folder).stubEnv('TEMP', folder);
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await failure(testApp({ name: '' }))).toMatchObject({ code: 'INVALID_NAME' });
  expect(await readdir(folder)).toEqual([]);
});
