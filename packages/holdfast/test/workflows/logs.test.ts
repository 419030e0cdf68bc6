import { expect, it } from 'vitest';
import { run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { recordingLogger } from '../support/faults.js';

describeBackends('the log and the step list', (backend) => {
  const failing = workflow('failing', async () => {
    await sleep('1h');
    throw new Error('out of stock');
  });

  it('report a failure if no caller waits for the workflow', async () => {
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [failing], logger });
    await failing.with({ id: 'background' }).start();
    await t.clock.advance('2h');
    expect(logger.lines).toEqual(['Workflow "background" (failing) failed: Error: out of stock']);
  });

  it('do not report a failure that a caller receives', async () => {
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [failing], logger });
    await expect(t.clock.runUntil(failing())).rejects.toThrow('out of stock');
    expect(logger.lines).toEqual([]);
  });

  it('name the step of a failed attempt, and the time until the next attempt', async () => {
    const logger = recordingLogger();
    let attempts = 0;
    const flaky = workflow('flaky', () =>
      run('charge', () => (++attempts === 1 ? Promise.reject(new Error('busy')) : 'paid'), { retries: 1 }),
    );
    const t = await backend.testApp({ workflows: [flaky], logger });
    expect(await t.clock.runUntil(flaky.with({ id: 'f' })())).toBe('paid');
    expect(logger.lines).toEqual([
      expect.stringMatching(
        /^Step "charge" of workflow "f" failed \(attempt 1 of 2\), next attempt in \d+ ms: Error: busy$/,
      ),
    ]);
  });

  it('show the end of a sleep only after the sleep has ended', async () => {
    const napping = workflow('napping', async () => sleep('1h'));
    const t = await backend.testApp({ workflows: [napping] });
    const { id } = await napping.start();
    await t.clock.advance('1m');
    expect(await t.app.workflows.steps(id)).toMatchObject([{ name: 'DBOS.sleep', completedAt: undefined }]);
    await t.clock.advance('2h');
    expect(await t.app.workflows.steps(id)).toMatchObject([{ name: 'DBOS.sleep', completedAt: expect.any(Number) }]);
  });
});

describeBackends('recovery of work from a queue', (backend) => {
  it('runs the work at once, without waiting for the next poll of the queue', async () => {
    let starts = 0;
    let t = await backend.testApp();
    const resumed = workflow('resumed', async () => {
      await run('note', () => t.signals.emit(`start ${++starts}`));
      await sleep('1d');
    });
    t = await t.restart({ workflows: [resumed], version: 'one' });
    const { id } = await resumed.start();
    await t.signals.wait('start 1');
    await t.app.workflows.cancel(id);
    await t.app.workflows.resume(id);
    await expect.poll(async () => (await t.app.workflows.get(id))?.status).toBe('PENDING');
    t = await t.restart();
    // The clock stands still, so only a notification can continue the workflow.
    await expect.poll(async () => (await t.app.workflows.get(id))?.attempts).toBe(2);
  });
});
