import { expect, it } from 'vitest';
import { event, run, stream, topic, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';

describeBackends('messages, events and streams', (backend) => {
  const approvals = topic<{ ok: boolean }>('approvals');
  const progress = event<number>('progress');
  const lines = stream<string>('lines');

  it('pass between workflows and the outside', async () => {
    const order = workflow('order', async () => {
      await progress.set(10);
      const answer = await approvals.receive();
      await lines.write(`answered ${answer?.ok}`);
      await run('more', async () => {
        await lines.write('from a step');
        await progress.set(50);
      });
      await lines.close();
      return answer;
    });
    const { app } = await backend.testApp({ workflows: [order] });
    const handle = await order.start();
    expect(await progress.get(handle.id)).toBe(10);
    await approvals.send(handle.id, { ok: true });
    expect(await handle.result()).toEqual({ ok: true });
    const read: string[] = [];
    for await (const line of lines.read(handle.id)) read.push(line);
    expect(read).toEqual(['answered true', 'from a step']);
    expect(await app.workflows.events(handle.id)).toEqual({ progress: 50 });
    expect(await app.workflows.messages(handle.id)).toMatchObject([{ topic: 'approvals', consumed: true }]);
    expect(await app.workflows.streams(handle.id)).toEqual({ lines: ['answered true', 'from a step'] });
  });

  it('keeps the order of 100 messages, sent by a workflow and from outside', async () => {
    const collect = workflow('collect', async (n: number) => {
      const got: unknown[] = [];
      for (let i = 0; i < n; i++) got.push(await topic<number>('n').receive());
      return got;
    });
    const sender = workflow('sender', async (to: string) => {
      await Promise.all(Array.from({ length: 50 }, (_, i) => topic<number>('n').send(to, i)));
    });
    await backend.testApp({ workflows: [collect, sender] });
    const handle = await collect.start(100);
    await sender(handle.id);
    await Promise.all(Array.from({ length: 50 }, (_, i) => topic<number>('n').send(handle.id, 50 + i)));
    expect(await handle.result()).toEqual(Array.from({ length: 100 }, (_, i) => i));
  });

  it('says that a recipient does not exist', async () => {
    const sender = workflow('sender', async () => topic('n').send('nobody', 1));
    await backend.testApp({ workflows: [sender] });
    await expect(topic('n').send('nobody', 1)).rejects.toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    await expect(sender()).rejects.toMatchObject({ code: 'WORKFLOW_NOT_FOUND' });
    await expect(
      topic('n').sendAll([
        { to: 'nobody', value: 1 },
        { to: 'x', value: 2 },
      ]),
    ).rejects.toMatchObject({
      code: 'WORKFLOW_NOT_FOUND',
    });
  });

  it('gives undefined when nothing comes in time', async () => {
    const waits = workflow('waits', async () => [
      await approvals.receive({ timeout: 20 }),
      await progress.get('x', { timeout: 20 }),
    ]);
    await backend.testApp({ workflows: [waits], clock: 'real' });
    expect(await waits()).toEqual([undefined, undefined]);
  });
});
