import { expect, it } from 'vitest';
import { run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';

describeBackends('first', (backend) => {
  it('sleeps thirty days in no time', async () => {
    const wf = workflow('wf', async () => {
      await sleep('30 days');
      return run('after', () => 'done');
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    expect(await t.clock.runUntil(handle.result())).toBe('done');
  });

  it('resumes after a crash', async () => {
    const ran: string[] = [];
    const wf = workflow('wf', async () => {
      await run('a', () => void ran.push('a'));
      await sleep('1h');
      await run('b', () => void ran.push('b'));
      return 'ok';
    });
    const t = await backend.testApp({ workflows: [wf] });
    const handle = await wf.start();
    await t.clock.advance('10m');
    expect(ran).toEqual(['a']);
    const again = await t.restart();
    const h2 = again.app.workflows.handle(handle.id);
    await again.clock.advance('49m');
    expect(ran).toEqual(['a']);
    await again.clock.advance('2m');
    expect(await h2.result()).toBe('ok');
    expect(ran).toEqual(['a', 'b']);
    expect(await h2.status()).toMatchObject({ attempts: 2, status: 'SUCCESS' });
    await again.stop();
  });
});
