import { expect, it } from 'vitest';
import type { Effect } from '../../src/storage/contract/messaging.js';
import { type EffectfulStep, stepKey } from '../../src/storage/contract/steps.js';
import { describeStorage, finished, newClaim, start, takeOver } from './contract-support.js';
import { effectful, message, said, sent, set, written } from './messaging-support.js';

describeStorage('steps with effects', (store) => {
  const record = (...rows: readonly EffectfulStep[]) => store.storage.steps.recordEffects('app', rows);
  const everything = (id: string, to: string): Effect[] => [
    sent(`from ${id}`, to),
    { kind: 'consume', messageId: `to ${id}` },
    set('k', `of ${id}`),
    written('k', `of ${id}`),
  ];
  const steps = async (...ids: string[]) =>
    (await store.storage.steps.history(ids)).map((step) => `${stepKey(step)} ${step.error ?? 'ok'}`).sort();

  it('commit the record of each step with all its effects', async () => {
    await start(store, 'a', 'b');
    await store.storage.messages.send([message('to a', 'a'), message('to b', 'b')]);
    const landed = await record(effectful('a', 0, everything('a', 'b')), effectful('b', 3, everything('b', 'a')));
    expect(landed).toEqual(
      new Map([
        ['0:a', true],
        ['3:b', true],
      ]),
    );
    expect(await steps('a', 'b')).toEqual(['0:a ok', '3:b ok']);
    expect(await said(store)).toEqual({
      messages: ['from a unread', 'from b unread', 'to a read', 'to b read'],
      events: ['a k of a', 'b k of b'],
      history: ['a 0 k of a', 'b 3 k of b'],
      streams: ['a k 0 of a 0', 'b k 0 of b 3'],
    });
  });

  it('write nothing for a former owner or an ended workflow; the rest of the batch is written', async () => {
    await start(store, 'a', 'b', 'ended', 'cancelled');
    await store.storage.messages.send(['a', 'ended', 'cancelled'].map((id) => message(`to ${id}`, id)));
    await takeOver(store.storage, newClaim({ owner: 'fresh' }));
    await store.storage.workflows.finishMany([finished('ended', { owner: 'fresh' })]);
    await store.storage.workflows.cancel({ workflowIds: ['cancelled'], reason: null, now: 3000 });
    const landed = await record(
      effectful('a', 0, everything('a', 'b')),
      effectful('b', 0, [set('k', 'of b')], { owner: 'fresh' }),
      effectful('ended', 0, everything('ended', 'b'), { owner: 'fresh' }),
      effectful('cancelled', 0, everything('cancelled', 'b'), { owner: 'fresh' }),
      effectful('nowhere', 0, everything('nowhere', 'b')),
    );
    expect(landed).toEqual(new Map([['0:b', true]]));
    expect(await steps('a', 'b', 'ended', 'cancelled')).toEqual(['0:b ok']);
    expect(await said(store)).toEqual({
      messages: ['to a unread', 'to cancelled unread', 'to ended unread'],
      events: ['b k of b'],
      history: ['b 0 k of b'],
      streams: [],
    });
  });

  it('have no effect when they are recorded a second time', async () => {
    await start(store, 'a', 'b');
    const rows = [effectful('a', 0, [sent('m', 'b'), set('k', '1'), written('k', '1')])];
    expect(await record(...rows)).toEqual(new Map([['0:a', true]]));
    await store.storage.steps.recordEffects('app', [effectful('a', 1, [set('k', '2')])]);
    const before = await said(store);
    expect(await record(...rows)).toEqual(new Map());
    expect(await said(store)).toEqual(before);
  });

  it('record their given error without effects if a recipient is missing; other steps are not affected', async () => {
    await start(store, 'a', 'b');
    const letters = [sent('m1', 'b'), sent('m2', 'nowhere'), sent('m3', 'b')];
    const landed = await record(
      effectful('a', 0, letters, { errorIfAbsent: '"nobody there"' }),
      effectful('b', 0, [sent('m4', 'a')], { errorIfAbsent: '"nobody there"' }),
    );
    expect(landed).toEqual(
      new Map([
        ['0:a', false],
        ['0:b', true],
      ]),
    );
    expect(await steps('a', 'b')).toEqual(['0:a "nobody there"', '0:b ok']);
    expect((await said(store)).messages).toEqual(['m4 unread']);
  });

  it('consume a message even if their step failed on it', async () => {
    await start(store, 'a');
    await store.storage.messages.send([message('bad', 'a')]);
    const row = effectful('a', 0, [{ kind: 'consume', messageId: 'bad' }], {
      error: '"unreadable"',
      name: 'DBOS.recv',
    });
    expect(await record(row)).toEqual(new Map([['0:a', true]]));
    expect((await said(store)).messages).toEqual(['bad read']);
    expect(await steps('a')).toEqual(['0:a "unreadable"']);
  });

  it('do not send a message again that has the ID of an earlier one, and succeed', async () => {
    await start(store, 'a', 'b');
    const rows = [0, 1].map((n) => effectful('a', n, [sent('same', 'b', { value: `${n}` })], { errorIfAbsent: '"x"' }));
    expect(await record(...rows)).toEqual(new Map([['0:a', true], ['1:a', true]])); // biome-ignore format: a pair a line
    expect((await store.storage.messages.list('b')).map((each) => each.value)).toEqual(['0']);
  });

  it('set an event to the value of the step of a batch that completes last', async () => {
    await start(store, 'a');
    const rows = [
      effectful('a', 0, [set('k', 'earlier'), set('k', 'early')], { completionSeq: 0 }),
      effectful('a', 1, [set('k', 'late'), set('k', 'latest')], { completionSeq: 1 }),
    ];
    await record(...rows);
    const { events, history } = await said(store);
    expect(events).toEqual(['a k latest']);
    expect(history).toEqual(['a 0 k early', 'a 1 k latest']);
  });

  it('order their messages by the order of completion', async () => {
    await start(store, 'a', 'b');
    const rows = [4, 0, 3, 1, 2].map((n) =>
      effectful('a', n, [sent(`${n}.0`, 'b'), sent(`${n}.1`, 'b')], { completionSeq: n }),
    );
    if (store.backend === 'sqlite') rows.sort((x, y) => x.stepNumber - y.stepNumber);
    await record(...rows);
    const found = await store.storage.messages.waiting([{ workflowId: 'b', topic: 't', most: 20 }]);
    const expected = [0, 1, 2, 3, 4].flatMap((n) => [`${n}.0`, `${n}.1`]);
    expect(found.map((each) => each.messageId)).toEqual(expected);
  });

  it('keep values of any text', async () => {
    await start(store, 'a', 'b');
    const texts = ['', '"', '\\', "'; drop table x", '\u{1f600}', '{"json":[1]}', 'null', '\n\t', '$1', '{a,b}'];
    await record(
      ...texts.map((text, n) =>
        effectful('a', n, [sent(`m${n}`, 'b', { value: text }), set(`k${n}`, text), written('s', text)]),
      ),
    );
    const { messages, events, streams } = store.storage;
    expect((await messages.list('b')).map((each) => each.value)).toEqual(texts);
    expect((await streams.list('a')).map((each) => each.value)).toEqual(texts);
    expect((await events.list('a')).map((each) => each.value)).toEqual(texts);
  });
});
