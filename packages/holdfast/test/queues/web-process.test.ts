import { expect, it } from 'vitest';
import { queue, schedule, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';

/** Tests the usual split: some processes only enqueue and have few workflows, other processes run the work. */
describeBackends('a process that works on no queue', (backend) => {
  const q = queue('q');
  const send = workflow('send', async (to: string) => `sent to ${to}`);
  const tick = workflow('tick', async () => 'ticked');
  const everyMinute = schedule('every minute', '* * * * *', tick);
  const launchWorker = (database: string) =>
    backend.testApp({ database, executorId: 'worker', workflows: [send, tick], queues: [q], schedules: [everyMinute] });
  const launchWeb = (database: string, version?: string) =>
    backend.testApp({ database, executorId: 'web', workflows: [send], listen: [], ...(version && { version }) });

  it('enqueues work for processes of another version', async () => {
    const database = await backend.newDatabase();
    const worker = await launchWorker(database);
    const web = await launchWeb(database);
    expect(web.app.version).not.toBe(worker.app.version);
    const handle = await send.with({ queue: 'q', app: web.app }).start('ada');
    expect(await worker.clock.runUntil(worker.app.workflows.handle(handle.id).result())).toBe('sent to ada');
    expect(await handle.status()).toMatchObject({ executorId: 'worker', version: worker.app.version });
  });

  it('does not make its version the latest, so the schedules of other processes continue', async () => {
    const database = await backend.newDatabase();
    const worker = await launchWorker(database);
    const web = await launchWeb(database);
    expect(await web.app.versions.latest()).toMatchObject({ name: worker.app.version });
    await web.stop();
    await worker.clock.advance('90s');
    const runs = await worker.app.workflows.list({ schedule: 'every minute' });
    expect(runs.map((run) => run.status)).toEqual(['SUCCESS']);
  });

  it('leaves its version to become the latest when the first working process of that version launches', async () => {
    const database = await backend.newDatabase();
    const worker = await launchWorker(database);
    await launchWeb(database, 'next');
    expect(await worker.app.versions.latest()).toMatchObject({ name: worker.app.version });
    const next = await backend.testApp({ database, executorId: 'next', workflows: [send], version: 'next' });
    expect(await next.app.versions.latest()).toMatchObject({ name: 'next' });
  });
});
