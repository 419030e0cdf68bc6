import { expect, it } from 'vitest';
import { VirtualClock } from '../testing/index.js';
import { type Holder, reclaim } from './reclaim.js';

const nobody = { isBringing: () => false, isStarting: () => false };

/** A process whose looks find what `found` says, given which of them it is. */
function rig(found: (look: number) => readonly string[]) {
  const clock = new VirtualClock();
  const released: string[] = [];
  let looks = 0;
  const engine = {
    clock,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    writer: { executorId: 'me', appName: 'app' },
    version: 'v1',
    owners: { incarnation: 'me' },
    standing: { doubts: 0 },
    inMemory: new Map(),
    resters: () => [],
    claims: nobody,
    checkpoints: nobody,
    news: { tell() {} },
    storage: {
      breaks: () => 0,
      classify: () => 'lost',
      takeovers: {
        pendingUnder: async () => found(++looks).map((workflowId) => ({ workflowId, owner: 'me.1' })),
      },
      workflows: {
        release: async ({ owned }: { owned: readonly { workflowId: string }[] }) => {
          released.push(...owned.map(({ workflowId }) => workflowId));
        },
      },
    },
  };
  reclaim(engine as unknown as Holder).start();
  const pass = async (minutes: number): Promise<void> => {
    for (let second = 0; second < minutes * 60; second++) await clock.advance(1_000);
  };
  return { pass, released, looks: () => looks };
}

it('looks a few times a minute at most in a process where something ends during each look', async () => {
  const { pass, released, looks } = rig((look) => [`ended ${look}`]);
  await pass(10);
  expect(looks()).toBeLessThanOrEqual(21);
  expect(looks()).toBeGreaterThanOrEqual(9);
  expect(released).toEqual([]);
});

it('finds within a minute and a quarter what nothing runs, whatever else ends meanwhile', async () => {
  const { pass, released } = rig((look) => ['lost', `ended ${look}`]);
  await pass(1.3);
  expect(released).toContain('lost');
});
