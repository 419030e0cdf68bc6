import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createCodecs } from './codecs.js';

const { portable } = createCodecs();

describe('portable JSON', () => {
  it.each([
    [undefined, 'null'],
    [null, 'null'],
    [{ a: 1, b: ['x', true] }, '{"a":1,"b":["x",true]}'],
    [new Date(0), '"1970-01-01T00:00:00.000Z"'],
    [12345678901234567890n, '"12345678901234567890"'],
    [new Set([1, new Date(0)]), '[1,"1970-01-01T00:00:00.000Z"]'],
    [
      new Map<string, unknown>([
        ['a', 1n],
        ['b', undefined],
      ]),
      '{"a":"1"}',
    ],
    [[undefined, { a: undefined, b: 1 }], '[null,{"b":1}]'],
    [-0, '0'],
  ])('%o is %s', (value, text) => {
    expect(portable.encode(value, 'x')).toBe(text);
  });

  it('reads every JSON value as it was', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        fc.pre(!text.includes('\\u') && !text.includes('__proto__'));
        expect(portable.decode(portable.encode(value, 'x') as string)).toStrictEqual(JSON.parse(text));
      }),
    );
  });

  it('writes a shared object in full at each place', () => {
    const shared = { a: 1 };
    expect(portable.encode([shared, shared], 'x')).toBe('[{"a":1},{"a":1}]');
  });

  it.each([
    ['NaN', { n: [NaN] }, 'value.n[0]', /is NaN, which JSON does not have/],
    ['Infinity', -Infinity, 'value', /is -Infinity/],
    ['an Invalid Date', [new Date(NaN)], 'value[0]', /is an Invalid Date/],
    ['a Buffer', { file: Buffer.from('') }, 'value.file', /is a Buffer, which portable JSON cannot hold\. .*base64/],
    ['a typed array', new Uint8Array(1), 'value', /is a Uint8Array/],
    ['an ArrayBuffer', [new ArrayBuffer(1)], 'value[0]', /is a ArrayBuffer/],
    ['a RegExp', [/x/], 'value[0]', /is a RegExp/],
    ['a URL', [new URL('http://a')], 'value[0]', /is a URL/],
    ['an Error inside a value', { e: new TypeError('x') }, 'value.e', /is a TypeError/],
    ['a Map with a number as key', { m: new Map([[1, 2]]) }, 'value.m', /is a Map with a key of the type number/],
    ['a Map with a key "__proto__"', new Map([['__proto__', 1]]), 'value', /key "__proto__"/],
  ])('refuses %s', (_, value, path, problem) => {
    const encode = () => portable.encode(value, 'x');
    expect(encode).toThrow(
      expect.objectContaining({ code: 'UNSERIALIZABLE', details: expect.objectContaining({ path }) }),
    );
    expect(encode).toThrow(problem);
  });

  it('refuses a cycle', () => {
    const cycle: { self?: unknown } = {};
    cycle.self = new Map([['again', [cycle]]]);
    expect(() => portable.encode(cycle, 'x')).toThrow(
      /value\.self\.get\("again"\)\[0\] refers back to value\. JSON has no cycles/,
    );
  });

  it('refuses a value whose shared objects would fill the memory', () => {
    let value: object = {};
    for (let level = 0; level < 60; level++) value = { left: value, right: value };
    expect(() => portable.encode(value, 'x')).toThrow(/repeats the same objects too often/);
  });

  it('throws a typed error if a text cannot be read', () => {
    for (const text of ['{"a":', '__DBOS_NIL', '']) {
      expect(() => portable.decode(text)).toThrow(expect.objectContaining({ code: 'UNREADABLE_VALUE' }));
    }
  });
});

describe('portable arguments', () => {
  it('are positional', () => {
    expect(portable.encodeArguments(['a', new Date(0), undefined], 'x')).toBe(
      '{"positionalArgs":["a","1970-01-01T00:00:00.000Z",null]}',
    );
    expect(portable.encodeArguments([], 'x')).toBe('{"positionalArgs":[]}');
  });

  it.each([
    ['{"positionalArgs":[1,"a"]}', [1, 'a']],
    ['{"positionalArgs":[1],"namedArgs":{}}', [1]],
    ['{"positionalArgs":[1],"namedArgs":{"b":2}}', [1, { b: 2 }]],
    ['{"namedArgs":{"b":2}}', [{ b: 2 }]],
    ['{"positionalArgs":[],"namedArgs":null}', []],
    ['{}', []],
  ])('%s are read as %j', (text, args) => {
    expect(portable.decodeArguments(text)).toStrictEqual(args);
  });

  it.each(['{"positionalArgs":5}', '{"positionalArgs":null}', '[1]', '5', 'null'])(
    '%s lead to a typed error',
    (text) => {
      expect(() => portable.decodeArguments(text)).toThrow(expect.objectContaining({ code: 'UNREADABLE_VALUE' }));
    },
  );

  it('are refused with the name of the argument', () => {
    expect(() => portable.encodeArguments([1, { n: NaN }], 'Input of workflow "w"')).toThrow(/: args\[1\]\.n is NaN/);
  });
});
