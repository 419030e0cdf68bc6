import { expect, it } from 'vitest';
import { queue, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { recordingLogger } from '../support/faults.js';

describeBackends('a start under a taken ID', (backend) => {
  const q = queue('q');

  it.each(['at once', 'on a queue'])('with other arguments causes one warning without values (%s)', async (how) => {
    const pay = workflow('pay', async (order: { to: string; cents: number; at?: Date }) => order.cents);
    const logger = recordingLogger();
    const t = await backend.testApp({ workflows: [pay], queues: [q], logger });
    const start = (order: Parameters<typeof pay>[0]) =>
      pay.with({ id: 'pay-1', ...(how === 'on a queue' && { queue: q }) }).start(order);
    const warnings = () => logger.matching(/other arguments/);
    await start({ to: 'ada', cents: 77_001, at: new Date(0) });
    const before = t.statements.length;
    await start({ cents: 77_001, at: new Date(0), to: 'ada' });
    const statements = t.statements.slice(before).filter((name) => !name.startsWith('signals'));
    expect(warnings()).toEqual([]);
    const handle = await start({ to: 'ada', cents: 88_002 });
    await start({ to: 'ada', cents: 88_002 });
    expect(warnings()).toHaveLength(1);
    expect(warnings()[0]).toMatch(/pay-1.*started again with other arguments/);
    expect(warnings()[0]).not.toMatch(/ada|77|88/);
    expect(statements.filter((name) => name === 'workflows.get').length).toBeLessThanOrEqual(1);
    expect(await t.clock.runUntil(handle.result())).toBe(77_001);
  });
});
