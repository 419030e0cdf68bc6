import { expect, it } from 'vitest';
import type { Effect } from '../../src/storage/contract/messaging.js';
import type { EffectfulStep } from '../../src/storage/contract/steps.js';
import { describeStorage, newClaim, start, takeOver } from './contract-support.js';
import { effectful, sent, set, written } from './messaging-support.js';

/** More effects than one statement on Postgres takes. */
const many = 12_000;
const times = (effect: (i: number) => Effect): Effect[] => Array.from({ length: many }, (_, i) => effect(i));

describeStorage('a step with very many effects', (store) => {
  const record = (...rows: readonly EffectfulStep[]) => store.storage.steps.recordEffects('app', rows);
  const count = async (table: string): Promise<number> =>
    Number((await store.sql(`select count(*) as n from ${store.table(table)}`))[0]?.n);
  const isAbsent = { errorIfAbsent: '"nobody there"' };

  it('writes every value of a stream in its place, beside another step of the batch', async () => {
    await start(store, 'a', 'b');
    await record(effectful('a', 0, [written('k', 'before')]));
    const step = effectful(
      'a',
      1,
      times((i) => written(i % 2 === 0 ? 'k' : 'l', `v${i}`)),
    );
    const landed = await record(effectful('b', 0, [written('k', 'of b')]), step);
    expect(landed).toEqual(
      new Map([
        ['0:b', true],
        ['1:a', true],
      ]),
    );
    const rows = await store.sql(
      `select key, "offset" as place, value from ${store.table('streams')} where workflow_uuid = 'a' order by key, "offset"`,
    );
    const expected = [
      ['k', 0, 'before'],
      ...Array.from({ length: many / 2 }, (_, i) => ['k', i + 1, `v${2 * i}`]),
      ...Array.from({ length: many / 2 }, (_, i) => ['l', i, `v${2 * i + 1}`]),
    ];
    expect(rows.map(({ key, place, value }) => [key, Number(place), value])).toEqual(expected);
  });

  it('leaves an event at the value that it was set to last', async () => {
    await start(store, 'a');
    await record(
      effectful(
        'a',
        0,
        times((i) => set('k', `v${i}`)),
      ),
    );
    expect(await store.storage.events.list('a')).toMatchObject([{ key: 'k', value: `v${many - 1}` }]);
  });

  it('sends messages in order, or none of them if the very last has no recipient', async () => {
    await start(store, 'a', 'b');
    const messages = times((i) => sent(`m${i}`, 'b', { value: `v${i}` }));
    const lost = [...messages.slice(0, -1), sent('m', 'nobody')];
    expect(await record(effectful('a', 0, lost, isAbsent))).toEqual(new Map([['0:a', false]]));
    expect(await count('notifications')).toBe(0);
    expect(await store.storage.steps.history(['a'])).toMatchObject([{ error: '"nobody there"' }]);
    expect(await record(effectful('a', 1, messages, isAbsent))).toEqual(new Map([['1:a', true]]));
    const values = (await store.storage.messages.list('b')).map(({ value }) => value);
    expect(values).toEqual(Array.from({ length: many }, (_, i) => `v${i}`));
  });

  it('changes nothing a second time, or for a former owner', async () => {
    await start(store, 'a');
    const step = effectful(
      'a',
      0,
      times((i) => written('k', `v${i}`)),
    );
    await record(step);
    expect(await record(step)).toEqual(new Map());
    expect(await count('streams')).toBe(many);
    await takeOver(store.storage, newClaim({ owner: 'fresh' }));
    expect(await record({ ...step, stepNumber: 1 })).toEqual(new Map());
    expect(await count('streams')).toBe(many);
    expect(await count('operation_outputs')).toBe(1);
  });
});
