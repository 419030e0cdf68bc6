import { describe, expect, it } from 'vitest';
import { createCodecs } from '../../codec/codecs.js';
import type { StepRecord } from '../../storage/contract/storage.js';
import type { ClaimedWorkflow, Engine } from '../engine.js';
import type { Superseded } from '../write/confirm-writes.js';
import { Macrotasks } from './deliveries.js';
import { Execution } from './execution.js';
import { once } from './once.js';
import { failed, succeeded } from './outcome.js';

const codec = createCodecs().native;
const fortyTwo = '{"json":42,"__dbos_serializer":"superjson"}';

const stored = (stepNumber: number, name: string, output: string | null, more: Partial<StepRecord> = {}) => ({
  ...{ workflowId: 'w', stepNumber, name, output, error: null, serialization: 'js_superjson', childWorkflowId: null },
  ...{ startedAt: 1, completedAt: 1, completionSeq: stepNumber, requestedAfter: null, ...more },
});

/** One execution whose checkpoints go to a list, under an owner that the test can take away. */
function rig(recorded?: readonly StepRecord[]) {
  const written: { stepNumber: number; name: string; output: string | null; error: string | null }[] = [];
  const stalls: string[] = [];
  const bodies: number[] = [];
  let newOwner: Superseded | undefined;
  const loseTo = (owner: Superseded): void => {
    newOwner = owner;
  };
  const engine = {
    macrotasks: new Macrotasks(),
    codecs: createCodecs(),
    clock: { now: () => 1000, at: () => ({ cancel() {} }) },
    checkpoints: {
      landings: 0,
      recordStep: async (row: (typeof written)[number]) => {
        if (newOwner) return newOwner;
        written.push(row);
        return 'written';
      },
    },
    executions: {
      supersede: () => execution.park(),
      stall: async (_id: string, _owner: string, error: Error) => {
        stalls.push(error.message);
        execution.park();
      },
    },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  } as unknown as Engine;
  const claim = { workflowId: 'w', name: 'order', owner: 'me', attempt: 1, createdAt: 0, beganAt: null };
  const execution = new Execution(engine, { ...claim, ...(recorded && { recorded }) } as unknown as ClaimedWorkflow);
  const call = (name: string, body: () => unknown): Promise<unknown> =>
    once(execution, name, async (stepNumber) => {
      bodies.push(stepNumber);
      try {
        return await succeeded(execution, name, 0, await body());
      } catch (error) {
        return failed(execution, 0, error);
      }
    });
  return { execution, call, written, bodies, stalls, loseTo };
}

/** Returns true if the promise is still pending after all deliveries have been made. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol();
  const later = (async () => {
    for (let n = 0; n < 10; n++) await new Promise((resolve) => setImmediate(resolve));
    return pending;
  })();
  return (await Promise.race([promise.catch(() => {}), later])) === pending;
}

describe('a call without a stored outcome', () => {
  it('runs its body, stores the outcome, and returns it only then', async () => {
    const { call, written, bodies } = rig();
    expect(await call('charge', () => 42)).toBe(42);
    expect(bodies).toEqual([0]);
    expect(written).toMatchObject([{ stepNumber: 0, name: 'charge', output: fortyTwo, error: null }]);
  });

  it('stores an error as the outcome, and throws it', async () => {
    const { call, written } = rig();
    await expect(call('charge', () => Promise.reject(new Error('card refused')))).rejects.toThrow('card refused');
    expect(written).toMatchObject([{ output: null, error: expect.stringContaining('card refused') }]);
  });

  it('stores that a value cannot be stored, instead of running the body again in each replay', async () => {
    const { call, written } = rig();
    await expect(call('charge', () => () => {})).rejects.toMatchObject({ code: 'UNSERIALIZABLE' });
    expect(written).toMatchObject([{ output: null, error: expect.any(String) }]);
  });

  it('takes its number at the call, so that two calls in one tick are stored in call order', async () => {
    const { call, written } = rig();
    let finishSlow = (_: unknown): void => {};
    const slow = call(
      'slow',
      () =>
        new Promise((resolve) => {
          finishSlow = resolve;
        }),
    );
    await call('fast', () => 1);
    finishSlow(2);
    await slow;
    expect(written.map(({ name, stepNumber }) => [name, stepNumber])).toEqual([
      ['fast', 1],
      ['slow', 0],
    ]);
  });
});

describe('a call with a stored outcome', () => {
  it('returns the outcome and does not run its body', async () => {
    const { call, bodies, written } = rig([stored(0, 'charge', fortyTwo)]);
    expect(await call('charge', () => 'charged again')).toBe(42);
    expect([bodies, written]).toEqual([[], []]);
  });

  it('throws a stored error', async () => {
    const { text: error } = await codec.encodeError(new Error('card refused'));
    const { call, bodies } = rig([stored(0, 'charge', null, { error })]);
    await expect(call('charge', () => 1)).rejects.toThrow('card refused');
    expect(bodies).toEqual([]);
  });

  it('under another name stalls the workflow, and never returns', async () => {
    const { call, bodies, stalls } = rig([stored(0, 'charge', fortyTwo)]);
    expect(await isPending(call('refund', () => 1))).toBe(true);
    expect(stalls).toEqual([expect.stringMatching(/"refund"(.|\n)*"charge"/)]);
    expect(bodies).toEqual([]);
  });
});

describe('an execution that is no longer the owner', () => {
  it('gives no result to its code when its checkpoint finds another owner', async () => {
    const { call, execution, loseTo } = rig();
    loseTo({ owner: 'another', status: 'PENDING' });
    expect(await isPending(call('charge', () => 1))).toBe(true);
    expect(execution.state).toBe('parked');
  });

  it('runs no further body', async () => {
    const { call, execution, bodies } = rig();
    execution.park();
    expect(await isPending(call('charge', () => 1))).toBe(true);
    expect(bodies).toEqual([]);
  });

  it('that was cancelled rejects every further call', async () => {
    const { call, execution, bodies } = rig();
    execution.cancel('the customer left');
    await expect(call('charge', () => 1)).rejects.toMatchObject({ code: 'WORKFLOW_CANCELLED' });
    expect(bodies).toEqual([]);
  });
});
