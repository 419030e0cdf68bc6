import { expect, it, vi } from 'vitest';
import { connect, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure } from '../support/faults.js';

vi.mock('acorn', () => {
  throw new Error('the parser is loaded');
});

describeBackends('the parser', (backend) => {
  const greet = () => workflow('greet', async (name: string) => `Hello ${name}`);

  it('is loaded only to compute a version', async () => {
    const database = await backend.newDatabase();
    await backend.testApp({ database, workflows: [greet()], version: 'v1' });
    await backend.testApp({ database, workflows: [greet()], dev: true });
    const client = await connect({ database, name: 'test' });
    await client.close();
    const error = await failure(backend.testApp({ database, workflows: [greet()] }));
    expect(error).toMatchObject({ cause: { message: 'the parser is loaded' } });
  });
});
