import { hostname } from 'node:os';
import { expect, it, vi } from 'vitest';
import { queue, run, sleep, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure, recordingLogger } from '../support/faults.js';

describeBackends('the version while developing', (backend) => {
  const jobs = queue('jobs');
  /** Returns an edited version of the workflow. The step named `first` is recorded before the sleep. */
  const edited = (text: string, first = 'first') =>
    workflow('wf', async () => {
      await run(first, () => first);
      await sleep('1h');
      return run('last', () => text);
    });

  it('is fixed for each machine, so that edited code continues earlier work', async () => {
    const wf = edited('before');
    const dev = await backend.testApp({ dev: true, workflows: [wf], queues: [jobs] });
    expect(dev.app.version).toBe(`dev@${hostname()}`);
    await wf.with({ id: 'running' }).start();
    await dev.app.queues.pause('jobs');
    await wf.with({ id: 'enqueued', queue: jobs }).start();
    await dev.clock.advance('1m');
    const next = await dev.restart({ workflows: [edited('after')] });
    await next.app.queues.resume('jobs');
    for (const id of ['running', 'enqueued']) {
      expect(await next.clock.runUntil(next.app.workflows.handle(id).result())).toBe('after');
    }
  });

  it('stalls a workflow whose history does not match the edited code', async () => {
    const wf = edited('before');
    const dev = await backend.testApp({ dev: true, workflows: [wf] });
    await wf.with({ id: 'x' }).start();
    await dev.clock.advance('1m');
    const next = await dev.restart({ workflows: [edited('after', 'renamed')] });
    await next.clock.advance('2h');
    expect(await next.app.workflows.get('x')).toMatchObject({ status: 'STALLED' });
    const fixed = await next.restart({ workflows: [edited('fixed')] });
    const resumed = await fixed.app.workflows.resume('x');
    expect(await fixed.clock.runUntil(resumed.result())).toBe('fixed');
  });

  it('leaves work of other versions alone, and logs how to continue it', async () => {
    const wf = edited('deployed');
    const deployed = await backend.testApp({ workflows: [wf] });
    await wf.with({ id: 'x' }).start();
    await deployed.clock.advance('1m');
    const logger = recordingLogger();
    const dev = await deployed.restart({ dev: true, workflows: [edited('developed')], logger });
    await dev.app.recovery.recover(['test']);
    await dev.clock.advance('2h');
    expect(await dev.app.workflows.get('x')).toMatchObject({ status: 'PENDING', version: deployed.app.version });
    expect(logger.matching(/launch\(\{ dev: true \}\) or version: 'dev'.*patch\(\)/s)).toHaveLength(1);
  });

  it('is the default under a watcher, unless a version is given', async () => {
    vi.stubEnv('WATCH_REPORT_DEPENDENCIES', '1');
    try {
      const workflows = [edited('x')];
      const watched = await backend.testApp({ workflows, dev: undefined as never });
      expect(watched.app.version).toBe(`dev@${hostname()}`);
      expect((await watched.restart({ version: 'v1' })).app.version).toBe('v1');
      expect((await watched.restart({ dev: false })).app.version).toMatch(/^[0-9a-f]{32}$/);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  it('refuses contradictory options', async () => {
    for (const options of [{ dev: true, version: 'v1' }, { version: 'dev@here' }, { dev: 'yes' as never }]) {
      expect(await failure(backend.testApp(options))).toMatchObject({ code: 'INVALID_OPTION' });
    }
  });
});
