import { describe, expect, it } from 'vitest';
import { VirtualClock } from '../testing/virtual-clock.js';
import { Claims, reload } from './claims.js';
import type { Engine } from './engine.js';
import { StartGate } from './start-gate.js';

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** Returns an engine whose database fails to read the given rows or histories. */
function engineFailingOn({ rows = [], histories = [] }: { rows?: readonly string[]; histories?: readonly string[] }) {
  const ran: string[] = [];
  const failOn = (corrupt: readonly string[], asked: readonly string[]): void => {
    if (asked.some((id) => corrupt.includes(id))) throw new Error('corrupt');
  };
  const clock = new VirtualClock();
  const record = (workflowId: string) => ({ workflowId, owner: 'me.1', status: 'PENDING', roles: null });
  const parts = {
    clock,
    logger: silent,
    startGate: new StartGate(),
    owners: { next: () => 'me.1' },
    writer: {},
    version: 'v1',
    registry: { require: () => ({}), runnable: () => [] },
    untilAnswered: (_: string, read: () => Promise<unknown>) => read(),
    storage: {
      classify: () => 'refused',
      workflows: {
        owned: async (asked: readonly { workflowId: string }[]) => {
          const ids = asked.map(({ workflowId }) => workflowId);
          failOn(rows, ids);
          return ids.map(record);
        },
      },
      steps: {
        history: async (ids: readonly string[]) => {
          failOn(histories, ids);
          return [];
        },
      },
    },
    executions: {
      run: ({ workflowId }: { workflowId: string }) => {
        if (workflowId === 'cannot run') throw new Error('no');
        ran.push(workflowId);
      },
    },
  };
  return { engine: parts as unknown as Engine, ran, clock, record };
}

const ids = Array.from({ length: 120 }, (_, n) => `w${n}`);

describe('workflows that are read together', () => {
  it.each([
    ['its row cannot be read', { rows: ['bad'] }, 'bad'],
    ['its history cannot be read', { histories: ['bad'] }, 'bad'],
    ['it cannot be run', {}, 'cannot run'],
  ])('do not fail with one of them when %s', async (_, faults, bad) => {
    const { engine, ran } = engineFailingOn(faults);
    const owned = [...ids.slice(0, 30), bad, ...ids.slice(30)].map((workflowId) => ({ workflowId, owner: 'me.1' }));
    const failed: string[] = [];
    const running = {
      isAwaited: () => true,
      failed: (each: { workflowId: string }) => void failed.push(each.workflowId),
    };
    await reload(engine, owned, running);
    expect([failed, ran]).toEqual([[bad], ids]);
  });

  it('are retried if they were claimed, because no other process runs them', async () => {
    const histories = ['bad'];
    const { engine, ran, clock, record } = engineFailingOn({ histories });
    const claims = new Claims(engine);
    await claims.claimAndRun(121, async () => ['bad', ...ids].map(record) as never);
    expect(ran).toEqual(ids);
    await clock.advance('5s');
    expect(ran).toEqual(ids);
    histories.pop();
    await clock.advance('5s');
    await clock.advance('5s');
    expect(ran).toEqual([...ids, 'bad']);
    claims.stop();
  });
});
