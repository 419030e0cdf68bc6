import { expect, it } from 'vitest';
import { run, workflow } from '../../src/index.js';
import type { TestApp } from '../../src/testing/index.js';
import { describeBackends } from '../support/backends.js';

describeBackends('an executor that joins others', (backend) => {
  const looksOf = ({ statements }: TestApp): number => statements.filter((name) => name === 'executors.list').length;

  it('is known to the others at once, so that they see its death even a moment after its launch', async () => {
    const ran: string[] = [];
    const make = (name: string) =>
      workflow('wf', () =>
        run('work', async () => {
          ran.push(name);
          if (name === 'newcomer') await newcomer.signals.wait('never');
          return name;
        }),
      );
    const database = await backend.newDatabase();
    const common = { database, version: 'v1' };
    const observer = await backend.testApp({ ...common, executorId: 'observer', workflows: [make('observer')] });
    const { clock } = observer;
    const launchedAt = clock.now();
    const looks = looksOf(observer);
    const wf = make('newcomer');
    const newcomer = await backend.testApp({ ...common, executorId: 'newcomer', workflows: [wf], clock });
    // The clock stands still, so no poll is due.
    await expect.poll(() => looksOf(observer), { interval: 5 }).toBeGreaterThan(looks);
    const { id } = await wf.with({ app: newcomer.app }).start();
    await expect.poll(() => ran).toEqual(['newcomer']);
    await newcomer.crash();
    expect(await clock.runUntil(observer.app.workflows.handle(id).result())).toBe('observer');
    expect(clock.now() - launchedAt).toBeLessThan(2_000);
  });
});
