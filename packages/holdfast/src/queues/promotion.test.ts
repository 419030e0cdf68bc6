import { expect, it } from 'vitest';
import type { Engine } from '../engine/engine.js';
import { VirtualClock } from '../testing/virtual-clock.js';
import { Promotion } from './promotion.js';

/** One process without others. `found` is how many workflows its looks promote, one after the other. */
function rig(...found: number[]) {
  const clock = new VirtualClock();
  const looks: number[] = [];
  const begun = clock.now();
  const promoteDue = async ({ now }: { now: number }) => {
    looks.push(now - begun);
    return Array.from({ length: found.shift() ?? 0 }, () => 'q');
  };
  const engine = {
    clock,
    owners: { incarnation: 'self' },
    peersOn: () => [],
    storage: { workflows: { promoteDue } },
    news: { announce: () => {}, tellDue: () => {} },
    logger: { warn: () => {} },
  } as unknown as Engine;
  const promotion = new Promotion(engine, () => {});
  return { clock, looks, dueIn: (ms: number) => promotion.nextIs(begun + ms) };
}

it('leaves alone for a second what is due and another session has locked', async () => {
  const { clock, looks, dueIn } = rig(0, 1);
  dueIn(10);
  await clock.advance(10);
  dueIn(10);
  await clock.advance(999);
  expect(looks).toEqual([10]);
  await clock.advance(1);
  expect(looks).toEqual([10, 1010]);
});

it('promotes at once what was committed after a look in vain, although it was due before that look', async () => {
  const { clock, looks, dueIn } = rig(0, 1);
  await clock.advance(20);
  dueIn(10);
  await clock.advance(1);
  dueIn(15);
  await clock.advance(1);
  expect(looks).toHaveLength(2);
});
