import { expect, it } from 'vitest';
import type { Engine } from '../engine/engine.js';
import { VirtualClock } from '../testing/virtual-clock.js';
import { Promotion } from './promotion.js';

/** A process without others. `counts` says how many workflows each statement promotes, one after the other. */
function setUp(...counts: number[]) {
  const clock = new VirtualClock();
  const attempts: number[] = [];
  const startedAt = clock.now();
  const promoteDue = async ({ now }: { now: number }) => {
    attempts.push(now - startedAt);
    return Array.from({ length: counts.shift() ?? 0 }, () => 'q');
  };
  const fleet = { peersOn: () => [], versionsAlive: async () => new Set<string>() };
  const engine = {
    clock,
    owners: { incarnation: 'self' },
    storage: { queues: { promoteDue } },
    news: { announce: () => {}, tellDue: () => {} },
    logger: { warn: () => {} },
  } as unknown as Engine;
  const promotion = new Promotion(engine, fleet, () => {});
  return { clock, attempts, dueIn: (ms: number) => promotion.setNextDue(startedAt + ms) };
}

it('retries a due workflow that another session has locked after a second', async () => {
  const { clock, attempts, dueIn } = setUp(0, 1);
  dueIn(10);
  await clock.advance(10);
  dueIn(10);
  await clock.advance(999);
  expect(attempts).toEqual([10]);
  await clock.advance(1);
  expect(attempts).toEqual([10, 1010]);
});

it('promotes at once an overdue workflow that was committed after an attempt that found nothing', async () => {
  const { clock, attempts, dueIn } = setUp(0, 1);
  await clock.advance(20);
  dueIn(10);
  await clock.advance(1);
  dueIn(15);
  await clock.advance(1);
  expect(attempts).toHaveLength(2);
});
