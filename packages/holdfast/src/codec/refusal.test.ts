import { describe, expect, it } from 'vitest';
import { createCodecs, registerClass } from './codecs.js';

const { native, portable } = createCodecs();

class Unregistered {
  constructor(readonly id = 1) {}
}

class Query {
  // biome-ignore lint/suspicious/noThenProperty: the subject of the test
  then() {}
}

function nested(levels: number): object {
  let value: object = {};
  for (let i = 0; i < levels; i++) value = { in: value };
  return value;
}

const refusals: [name: string, value: unknown, path: string, problem: RegExp][] = [
  ['a function', { items: [1, 2, { callback() {} }] }, 'value.items[2].callback', /is a function\. Store plain data/],
  ['a symbol', [Symbol('x')], 'value[0]', /is a symbol/],
  ['a promise', { later: Promise.resolve(1) }, 'value.later', /is a promise\. Await it first/],
  ['a thenable', { query: new Query() }, 'value.query', /is a promise/],
  ['a WeakMap', { cache: new WeakMap() }, 'value.cache', /built-in class WeakMap/],
  ['a boxed text', [new String('x')], 'value[0]', /built-in class String/],
  ['a SharedArrayBuffer', [new SharedArrayBuffer(1)], 'value[0]', /built-in class SharedArrayBuffer/],
  [
    'a class that is not registered',
    { a: { 'b c': new Unregistered() } },
    'value.a["b c"]',
    /instance of Unregistered.*registerClass\(Unregistered\)/,
  ],
  ['a response', { answer: new Response('x') }, 'value.answer', /built-in class Response.*Store plain data/],
  ['a signal', [AbortSignal.abort()], 'value[0]', /built-in class AbortSignal/],
  ['a subclass of a built-in class', [new (class Scores extends Map {})()], 'value[0]', /instance of Scores/],
  ['a subclass of Array', [new (class Rows extends Array {})()], 'value[0]', /instance of Rows/],
  ['an object with a custom prototype', [Object.create({ a: 1 })], 'value[0]', /has a custom prototype/],
  ['a plain object with toJSON', { money: { toJSON: () => 5 } }, 'value.money.toJSON', /is a function/],
  ['NUL in a text', { text: 'a\0b' }, 'value.text', /NUL character, which Postgres/],
  ['half a surrogate pair in a text', ['\ud83d'], 'value[0]', /half a surrogate pair/],
  ['the other half', ['x\ude00'], 'value[0]', /half a surrogate pair/],
  ['NUL in a key', { deep: { 'a\0': 1 } }, 'value.deep', /has the key "a\\u0000", with a NUL/],
  ['half a surrogate pair in a key', { '\udc00': 1 }, 'value', /has the key "\\udc00", with half/],
  ['a key "__proto__"', { a: JSON.parse('{"__proto__":{}}') }, 'value.a', /key "__proto__"/],
  ['a key "__proto__" with a text', JSON.parse('{"__proto__":"x"}'), 'value', /key "__proto__"/],
  [
    'an extra property of an array',
    { found: 'a-b'.match(/-/) },
    'value.found',
    /has the property "index" beside its elements/,
  ],
  ['an extra property of an empty array', [Object.assign([], { page: 2 })], 'value[0]', /has the property "page"/],
  [
    'an extra property of a long array',
    Object.assign(new Array(1_000).fill(0), { columns: ['a'] }),
    'value',
    /"columns"/,
  ],
  [
    'an extra property of an array with a Date',
    Object.assign([new Date(0)], { page: 2 }),
    'value',
    /has the property "page"/,
  ],
  ['a value in a Map', new Map([['cb', () => 1]]), 'value.get("cb")', /is a function/],
  ['a member of a Set', { s: new Set([1, Symbol.iterator]) }, 'value.s.values()[1]', /is a symbol/],
];

describe('both formats refuse', () => {
  it.each(refusals)('%s, and name the place', (_, value, path, problem) => {
    for (const codec of [native, portable]) {
      const encode = () => codec.encode(value, 'Output of step "charge"');
      expect(encode).toThrow(
        expect.objectContaining({ code: 'UNSERIALIZABLE', details: expect.objectContaining({ path }) }),
      );
      expect(encode).toThrow(problem);
      expect(encode).toThrow(/^Output of step "charge" cannot be stored: /);
    }
  });

  it('arguments, with this message', () => {
    expect(() =>
      native.encodeArguments([{ items: [0, 1, { callback: () => 1 }] }], 'Input of workflow "checkout"'),
    ).toThrow(
      'Input of workflow "checkout" cannot be stored: args[0].items[2].callback is a function. ' +
        'Store plain data. Functions belong in the code of a workflow or step.',
    );
  });

  it('the value itself', () => {
    expect(() => native.encode(() => 1, 'The message')).toThrow('The message cannot be stored: it is a function.');
  });

  it('values nested more than 1000 levels deep, without a stack overflow', () => {
    for (const codec of [native, portable]) {
      expect(codec.decode(codec.encode(nested(999), 'x') as string)).toStrictEqual(nested(999));
      for (const levels of [1001, 200_000]) {
        expect(() => codec.encode(nested(levels), 'x')).toThrow(/nested more than 1000 levels deep/);
      }
      expect(() => codec.encode({ at: new Date(0), deep: nested(1001) }, 'x')).toThrow(/ … .*1000 levels/);
    }
  });

  it('a getter that throws, with its error as the cause', () => {
    const cause = new Error('no access');
    const value = {
      get secret() {
        throw cause;
      },
    };
    expect(() => native.encode(value, 'x')).toThrow(expect.objectContaining({ code: 'UNSERIALIZABLE', cause }));
  });
});

describe('the native format refuses', () => {
  it.each([
    ['a key of a Map', new Map([[() => 1, 1]]), 'value.keys()[0]'],
    ['the cause of an Error', new Error('x', { cause: new Error('b\0') }), 'value.cause.message'],
    ['the message of an Error', { e: new Error('a\0') }, 'value.e.message'],
    ['a RegExp', [new RegExp(String.fromCharCode(0))], 'value[0]'],
  ])('%s, and names the place', (_, value, path) => {
    expect(() => native.encode(value, 'x')).toThrow(
      expect.objectContaining({ details: expect.objectContaining({ path }) }),
    );
  });

  it('an instance with "from" that contains itself', () => {
    class Ring {
      next: unknown = this;
    }
    registerClass(Ring, { to: ({ next }) => ({ next }), from: ({ next }) => Object.assign(new Ring(), { next }) });
    expect(() => native.encode(new Ring(), 'x')).toThrow(/refers back to an instance that contains it/);
  });
});

describe('texts that look dangerous but are valid', () => {
  it.each(['\u001b[31mred', '\\u0000', '\\ud83d', '😀', '\u2028', '"\\"'])('are stored: %j', (text) => {
    for (const codec of [native, portable]) {
      expect(codec.decode(codec.encode({ [text]: text }, 'x') as string)).toStrictEqual({ [text]: text });
    }
  });
});
