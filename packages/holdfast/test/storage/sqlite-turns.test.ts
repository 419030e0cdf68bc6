import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { event, run, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';

const progress = event<number>('progress');
const loopMs = 1000;

describeBackends(
  'calls that a step awaits one after the other',
  (backend) => {
    it.each(['set', 'get', 'cancel'] as const)('let timers and other workflows continue: %s', async (what) => {
      const other = workflow('other', () => run('step', () => 1));
      const loop = workflow('loop', () =>
        run('loop', async () => {
          for (const begunAt = performance.now(); performance.now() - begunAt < loopMs; ) await calls[what]();
        }),
      );
      const { app } = await backend.testApp({ workflows: [loop, other], clock: 'real' });
      await other.with({ id: 'ended' })();
      const calls = {
        set: () => progress.set(1),
        get: () => app.workflows.get('ended'),
        cancel: () => app.workflows.cancel('ended'),
      };
      const ended: string[] = [];
      const handle = await loop.start();
      const result = handle.result().then(() => ended.push('loop'));
      await delay(5);
      await other();
      ended.push('other');
      await result;
      expect(ended).toEqual(['other', 'loop']);
    });
  },
  ['sqlite'],
);
