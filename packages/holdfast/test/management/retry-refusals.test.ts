import { expect, it } from 'vitest';
import { run, sleep, type WorkflowRetryOptions, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure } from '../support/faults.js';
import { switchable } from '../support/switchable.js';

describeBackends('workflows.retry, when it must refuse or ask first,', (backend) => {
  it('does not repeat steps that handled the failure, unless it is told to', async () => {
    const ran: string[] = [];
    const { broken, work } = switchable(ran);
    const order = workflow('order', async () => {
      await work('charge');
      try {
        await work('ship');
      } catch (error) {
        await work('refund');
        throw new Error('not shipped', { cause: error });
      }
    });
    const t = await backend.testApp({ workflows: [order] });
    broken.add('ship');
    const handle = await order.with({ id: 'order-7' }).start();
    await failure(t.clock.runUntil(handle.result()));
    broken.clear();
    const error = await failure(t.app.workflows.retry('order-7'));
    expect(error).toMatchObject({
      code: 'WORKFLOW_NOT_RETRYABLE',
      details: { failedStep: 1, repeated: [{ stepNumber: 2, name: 'refund' }] },
    });
    expect(error.message).toMatch(/step 1 "ship".*2 "refund".*fromStep: 1/);
    expect(await handle.status()).toMatchObject({ status: 'ERROR', retries: [] });
    await t.app.workflows.retry('order-7', { fromStep: 0 });
    await t.clock.runUntil(handle.result());
    expect(ran).toEqual(['charge', 'ship', 'refund', 'charge', 'ship']);
  });

  it('does not skip a failed step that handled the failure, because it may have had an effect', async () => {
    const ran: string[] = [];
    const { broken, work } = switchable(ran);
    const order = workflow('order', async () => {
      await work('charge');
      await work('ship').catch(async (error) => {
        await work('refund').catch(() => {});
        throw error;
      });
    });
    const t = await backend.testApp({ workflows: [order] });
    broken.add('ship').add('refund');
    const handle = await order.start();
    await failure(t.clock.runUntil(handle.result()));
    expect(await failure(t.app.workflows.retry(handle.id))).toMatchObject({
      code: 'WORKFLOW_NOT_RETRYABLE',
      details: { failedStep: 1, repeated: [{ stepNumber: 2, name: 'refund' }] },
    });
  });

  it('refuses what has not failed or does not exist, with typed errors, before anything changes', async () => {
    const { broken, work } = switchable([]);
    const waiting = workflow('waiting', () => sleep('1h'));
    const failing = workflow('failing', () => work('a'));
    const t = await backend.testApp({ workflows: [waiting, failing] });
    broken.add('a');
    await failure(failing.with({ id: 'failed' })());
    const { id } = await waiting.start();
    const { retry, cancel } = t.app.workflows;
    const refusal = (workflowId: string, options?: WorkflowRetryOptions) => failure(retry(workflowId, options));
    const code = 'WORKFLOW_NOT_RETRYABLE';
    expect(await refusal(id)).toMatchObject({ code, details: { status: 'PENDING' } });
    await cancel(id);
    expect((await refusal(id)).message).toMatch(/CANCELLED.*resume/);
    expect(await failure(retry(['failed', id]))).toMatchObject({ code });
    expect(await failure(retry(['failed', 'nobody']))).toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    const invalid = { code: 'INVALID_OPTION' };
    expect((await refusal('failed', { fromStep: 2 })).message).toMatch(/"fromStep" must be a recorded step.*or 1/);
    for (const options of [{ fromStep: -1 }, { fromStep: 0.5 }, { fromstep: 0 }, { queue: 'q' }, null]) {
      expect(await refusal('failed', options as never)).toMatchObject(invalid);
    }
    expect(await failure(retry(['failed', id], { fromStep: 0 }))).toMatchObject(invalid);
    expect(await failure(retry('failed', { version: '' }))).toMatchObject({ code: 'INVALID_NAME' });
    expect(await t.app.workflows.get('failed')).toMatchObject({ status: 'ERROR', retries: [] });
    expect(await retry([])).toEqual([]);
  });

  it('is refused inside a workflow function, and allowed inside a step', async () => {
    const { broken, work } = switchable([]);
    const failing = workflow('failing', () => work('a'));
    const operator = workflow('operator', async () => {
      const { code } = await failure(t.app.workflows.retry('failed'));
      await run('retry', async () => void (await t.app.workflows.retry('failed')));
      return code;
    });
    const t = await backend.testApp({ workflows: [failing, operator] });
    broken.add('a');
    await failure(failing.with({ id: 'failed' })());
    broken.clear();
    expect(await operator()).toBe('UNSUPPORTED_CALL');
    expect(await t.clock.runUntil(t.app.workflows.handle('failed').result())).toBe('a');
  });
});
