import { beforeAll, expect, it } from 'vitest';
import { describeBackends } from '../support/backends.js';
import { requireBuild, runFixture } from './child-process.js';

describeBackends('a program that works on a queue and shuts down', (backend) => {
  beforeAll(requireBuild);

  it('exits on its own with success when nothing else keeps its process alive', async () => {
    const exit = await runFixture('queue-shutdown.mjs', { database: await backend.newDatabase() });
    expect(exit).toEqual({ signal: null, output: 'a b c' });
  });
});
