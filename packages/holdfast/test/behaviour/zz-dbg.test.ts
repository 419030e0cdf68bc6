import { it } from 'vitest';
import { queue, run, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { forever } from '../support/faults.js';
describeBackends('dbg', (backend) => {
  it('x', async () => {
    let crashNow = async (): Promise<void> => {};
    const poison = workflow('poison', () => run('kill', () => { console.log('killing'); return crashNow().then(forever); }), { maxRecoveryAttempts: 1 });
    const innocent = workflow('innocent', async (label: string) => {
        await run('long', () => new Promise((resolve) => setImmediate(resolve)));
        await run('work', () => console.log('ran', label));
      }, { maxRecoveryAttempts: 1 });
    let t = await backend.testApp({ workflows: [poison, innocent], queues: [queue('q')] });
    crashNow = () => t.crash();
    await innocent.with({ queue: 'q' }).startAll([['0'],['1']]);
    await poison.with({ queue: 'q' }).start();
    for (let launches = 0; launches < 5; launches++) {
      console.log('advance', launches);
      await t.clock.advance('5s');
      console.log('advanced', launches, t.statements.slice(-12));
      await t.clock.advance('5s');
      t = await t.restart();
      console.log('restarted');
    }
  });
}, ['sqlite']);
