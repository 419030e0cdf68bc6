import { expect, it } from 'vitest';
import { sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, overTime, thrown } from '../support/faults.js';

describeBackends('P8 extreme values', (backend) => {
  it('the highest number of recovery attempts does not keep any workflow from being recovered', async () => {
    const napping = () => sleep('1m').then(() => 'rested');
    const endless = workflow('endless', napping, { maxRecoveryAttempts: Number.MAX_SAFE_INTEGER });
    const ordinary = workflow('ordinary', napping);
    const t = await backend.testApp({ workflows: [endless, ordinary] });
    const handles = [await endless.start(), await ordinary.start()];
    const again = await t.restart();
    for (const { id } of handles) {
      expect(await overTime(again.clock, again.app.workflows.handle(id).result())).toBe('rested');
    }
  });

  it('a workflow cannot have the name of an internal operation', () => {
    for (const name of ['DBOS.sleep', 'DBOS.getResult', 'DBOS.']) {
      expect(thrown(() => workflow(name, () => {}))).toMatchObject({ code: 'INVALID_NAME' });
    }
  });

  it('a list cannot begin at a negative or fractional offset', async () => {
    const t = await backend.testApp();
    for (const offset of [-1, 0.5, Number.NaN]) {
      expect(await failure(t.app.workflows.list({ offset }))).toMatchObject({ code: 'INVALID_OPTION' });
    }
  });

  it('a child is resumed with its parent even if the parent had timed out waiting for it', async () => {
    const child = workflow('child', () => sleep('5m').then(() => 'child'));
    const parent = workflow('parent', async () => {
      const handle = await child.start();
      await handle.result({ timeout: '1m' }).catch(() => {});
      return handle.result();
    });
    const t = await backend.testApp({ workflows: [child, parent] });
    const handle = await parent.start();
    await t.clock.advance('2m');
    await handle.cancel();
    expect(await failure(handle.result())).toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    const resumed = await t.app.workflows.resume<string>(handle.id);
    expect(await overTime(t.clock, resumed.result())).toBe('child');
  });
});
