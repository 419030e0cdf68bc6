import { expect, it } from 'vitest';
import { queue, run, workflow } from '../../src/index.js';
import { describeBackends } from '../support/backends.js';
import { failure } from '../support/faults.js';

/** A serializer that depends on a service, for example for encryption, that may be unreachable. */
function fragileSerializer() {
  const service = { isUp: true };
  const serializer = {
    name: 'encrypting',
    stringify: async (value: unknown) => {
      if (!service.isUp) throw new Error('the key service is out of reach');
      return JSON.stringify(value ?? null);
    },
    parse: async (text: string) => JSON.parse(text),
  };
  return { service, serializer };
}

describeBackends('a serializer that fails', (backend) => {
  it.each(['result', 'step', 'error'])(
    'ends the workflow whose %s it cannot write, and frees its slot',
    async (what) => {
      const { service, serializer } = fragileSerializer();
      const charged: number[] = [];
      const fail = (n: number): void => {
        if (n === 1) service.isUp = false;
      };
      const pay = workflow('pay', async (n: number) => {
        await run('charge', () => {
          charged.push(n);
          if (what === 'step') fail(n);
        });
        fail(n);
        if (what === 'error' && n === 1) throw new Error('of the card of Grace');
        return n;
      });
      const queues = [queue('q', { concurrency: 1 })];
      const t = await backend.testApp({ workflows: [pay], queues, serializer });
      const [first, second] = await pay.with({ queue: 'q' }).startAll([[1], [2]]);
      const error = await failure(t.clock.runUntil((first as typeof second)?.result() as Promise<number>));
      expect(error).toMatchObject({
        code: 'UNSERIALIZABLE',
        message: /could not be stored.*key service is out of reach/,
      });
      // The error does not contain the value that the serializer would have encrypted.
      expect(error.message).not.toMatch(/Grace/);
      service.isUp = true;
      await failure(t.clock.runUntil(second?.result() as Promise<number>));
      expect(charged).toEqual([1, 2]);
      expect((await t.app.queues.get('q'))?.running).toBe(0);
    },
  );
});
