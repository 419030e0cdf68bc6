import { expect, it } from 'vitest';
import { VirtualClock } from '../testing/index.js';
import type { RunningEngine } from './drop-lost.js';
import { reclaim } from './reclaim.js';

const nothingLoads = { isLoading: () => false, isStarting: () => false };

/** A process whose n-th check finds the workflows `found(n)`. */
function rig(found: (check: number) => readonly string[]) {
  const clock = new VirtualClock();
  const released: string[] = [];
  let checks = 0;
  const engine = {
    clock,
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    writer: { executorId: 'me', appName: 'app' },
    version: 'v1',
    owners: { incarnation: 'me' },
    startGate: { rollbackCount: 0 },
    executions: { inMemory: new Map(), allSuspended: [] },
    claims: nothingLoads,
    checkpoints: nothingLoads,
    news: { announce() {}, announceToOthers() {} },
    storage: {
      lostConnections: () => 0,
      classify: () => 'lost',
      takeovers: {
        pendingUnder: async () => found(++checks).map((workflowId) => ({ workflowId, owner: 'me.1' })),
      },
      workflows: {
        release: async ({ owned }: { owned: readonly { workflowId: string }[] }) => {
          released.push(...owned.map(({ workflowId }) => workflowId));
        },
      },
    },
  };
  reclaim(engine as unknown as RunningEngine).start();
  const pass = async (minutes: number): Promise<void> => {
    for (let second = 0; second < minutes * 60; second++) await clock.advance(1_000);
  };
  return { pass, released, checks: () => checks };
}

it('checks a few times a minute at most in a process where a workflow ends during each check', async () => {
  const { pass, released, checks } = rig((check) => [`ended ${check}`]);
  await pass(10);
  expect(checks()).toBeLessThanOrEqual(21);
  expect(checks()).toBeGreaterThanOrEqual(9);
  expect(released).toEqual([]);
});

it('finds a workflow that does not run within 75 seconds, whatever else ends meanwhile', async () => {
  const { pass, released } = rig((check) => ['lost', `ended ${check}`]);
  await pass(1.3);
  expect(released).toContain('lost');
});
