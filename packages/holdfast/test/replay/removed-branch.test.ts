import { expect, it } from 'vitest';
import { run, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, forever } from '../support/faults.js';

// Results arrive in recorded order. A result that the code no longer requests would block all later results forever.
describeBackends('a concurrent step that was removed from the code', (backend) => {
  const original = workflow('wf', async () => {
    await Promise.all([run('slow', forever), run('fast', () => {}), run('faster', () => {})]);
  });

  async function redeploy(changed: () => Promise<unknown>) {
    const t = await backend.testApp({ workflows: [original], version: 'v1' });
    await original.with({ id: 'x' }).start();
    await t.clock.advance('1m');
    return t.restart({ workflows: [workflow('wf', changed)] });
  }

  it('stalls the workflow with NON_DETERMINISM instead of leaving it waiting', async () => {
    const again = await redeploy(async () => {
      await run('slow', () => {});
      return 'done';
    });
    await again.clock.advance('1m');
    expect(await again.app.workflows.get('x')).toMatchObject({ status: 'STALLED', attempts: 1 });
    const error = await failure(again.app.workflows.handle('x').result());
    expect(error).toMatchObject({ code: 'NON_DETERMINISM' });
    expect(error.message).toMatch(/does not call step 1 "fast"/);
    expect(error.message).toMatch(/> +1 +fast +\(nothing\)/);
  });

  it('is not reported as removed if the code requests it a little later, after another wait', async () => {
    const again = await redeploy(async () => {
      const slow = run('slow', () => 'slow');
      await new Promise((resolve) => setTimeout(resolve, 5));
      return Promise.all([slow, run('fast', () => {}), run('faster', () => {})]);
    });
    expect(await again.app.workflows.handle('x').result()).toEqual(['slow', undefined, undefined]);
  });
});
