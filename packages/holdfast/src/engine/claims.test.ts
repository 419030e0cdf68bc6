import { describe, expect, it } from 'vitest';
import { VirtualClock } from '../testing/virtual-clock.js';
import { Claims, reload } from './claims.js';
import type { Engine } from './engine.js';
import { StartGate } from './start-gate.js';

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** An engine whose database does not give the rows, or the histories, of these. */
function engineWithout({ rows = [], histories = [] }: { rows?: readonly string[]; histories?: readonly string[] }) {
  const ran: string[] = [];
  const refuse = (of: readonly string[], asked: readonly string[]): void => {
    if (asked.some((id) => of.includes(id))) throw new Error('corrupt');
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
          refuse(rows, ids);
          return ids.map(record);
        },
      },
      steps: {
        history: async (ids: readonly string[]) => {
          refuse(histories, ids);
          return [];
        },
      },
    },
    run: ({ workflowId }: { workflowId: string }) => {
      if (workflowId === 'cannot run') throw new Error('no');
      ran.push(workflowId);
    },
  };
  return { engine: parts as unknown as Engine, ran, clock, record };
}

const ids = Array.from({ length: 120 }, (_, n) => `w${n}`);

describe('workflows that are read together', () => {
  it.each([
    ['the row', { rows: ['bad'] }, 'bad'],
    ['the history', { histories: ['bad'] }, 'bad'],
    ['the run', {}, 'cannot run'],
  ])('fail alone when %s of one is at fault', async (_, missing, bad) => {
    const { engine, ran } = engineWithout(missing);
    const rests = [...ids.slice(0, 30), bad, ...ids.slice(30)].map((workflowId) => ({ workflowId, owner: 'me.1' }));
    const failed: string[] = [];
    const running = {
      isAwaited: () => true,
      failed: (each: { workflowId: string }) => void failed.push(each.workflowId),
    };
    await reload(engine, rests, running);
    expect([failed, ran]).toEqual([[bad], ids]);
  });

  it('are tried again when they were claimed, for nobody else would', async () => {
    const histories = ['bad'];
    const { engine, ran, clock, record } = engineWithout({ histories });
    const claims = new Claims(engine);
    await claims.take(121, async () => ['bad', ...ids].map(record) as never);
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
