/** Holdfast reads rows of superjson, of DBOS SDKs and of their predecessors, and superjson reads rows of Holdfast. */
import { SuperJSON } from 'superjson';
import { describe, expect, it } from 'vitest';
import { createCodecs } from './codecs.js';

const { native } = createCodecs();
const superjson = new SuperJSON();
const deduping = new SuperJSON({ dedupe: true });

/** The configuration of superjson in DBOS. */
for (const instance of [superjson, deduping]) {
  instance.registerCustom<Buffer, number[]>(
    {
      isApplicable: (v): v is Buffer => Buffer.isBuffer(v),
      serialize: (v) => [...v],
      deserialize: (v) => Buffer.from(v),
    },
    'Buffer',
  );
}

function marked(writer: SuperJSON, value: unknown): string {
  return JSON.stringify({ ...writer.serialize(value), __dbos_serializer: 'superjson' });
}

const address = { city: 'Oslo', since: new Date(5) };
const cycle: { name: string; self?: unknown } = { name: 'loop' };
cycle.self = cycle;

const both: [string, unknown][] = [
  ['plain JSON', { a: [1, 'two', null, true, { b: {} }] }],
  ['a text', 'hello'],
  ['null', null],
  ['undefined', undefined],
  ['undefined inside', { a: undefined, b: [undefined] }],
  ['numbers that JSON does not have', [NaN, Infinity, -Infinity, -0]],
  ['a Date at the root', new Date(0)],
  ['Dates below dotted keys', { 'a.b': { 'c\\d': new Date(0) } }],
  ['bigints', { n: 12345678901234567890n, m: 1n }],
  ['a Set of Dates', new Set([new Date(0), 1])],
  ['Maps in Maps', new Map<unknown, unknown>([['a', new Map([[new Date(3), 1n]])]])],
  ['a RegExp and a URL', [/a\/b/gi, new URL('https://example.com/?q=1')]],
  ['typed arrays', [new Uint8Array([1, 2]), new Float32Array([1.5]), new Int32Array([-1])]],
  ['a Buffer', { file: Buffer.from('abc') }],
  ['a shared object', { billing: address, shipping: address }],
  ['a cycle', cycle],
  ['a shared object in a shared object', { a: { address }, b: [address, { address }] }],
];

describe('compatibility with superjson', () => {
  it.each(both)('reads a text of superjson: %s', (_, value) => {
    expect(native.decode(marked(superjson, value))).toStrictEqual(value);
    expect(native.decode(marked(deduping, value))).toStrictEqual(value);
  });

  it.each(both)('writes a text that superjson reads: %s', (_, value) => {
    expect(superjson.parse(native.encode(value, 'x') as string)).toStrictEqual(value);
  });

  it.each(both.filter(([name]) => !name.includes('bigints')))('writes the same text as superjson: %s', (_, value) => {
    expect(native.encode(value, 'x')).toBe(marked(superjson, value));
  });

  it('keeps shared references of superjson, even if superjson names the later place first', () => {
    const inner = { x: 1 };
    const outer = { inner };
    const original = { deep: { er: { outer } }, outer, last: [[inner]] };
    const copy = native.decode(marked(superjson, original)) as typeof original;
    expect(copy.deep.er.outer).toBe(copy.outer);
    expect(copy.last[0]?.[0]).toBe(copy.outer.inner);
  });

  it('writes values that superjson loses so that superjson reads them correctly', () => {
    const read = superjson.parse<[Date, Float64Array]>(
      native.encode([new Date(NaN), new Float64Array([NaN, -0])], 'x') as string,
    );
    expect(read[0].getTime()).toBeNaN();
    expect(read[1]).toStrictEqual(new Float64Array([NaN, -0]));
  });

  it('writes an Error that superjson reads as an Error', () => {
    const read = superjson.parse(native.encode({ e: new TypeError('no') }, 'x') as string) as { e: Error };
    expect(read.e).toBeInstanceOf(Error);
    expect(read.e).toMatchObject({ name: 'TypeError', message: 'no' });
  });

  it('reads an Error of superjson, which does not store the stack', () => {
    const read = native.decode(marked(superjson, new RangeError('far', { cause: 7 }))) as Error;
    expect(read).toBeInstanceOf(RangeError);
    expect(read).toMatchObject({ message: 'far', cause: 7, stack: 'RangeError: far' });
  });

  it('reads rows of superjson 1, whose paths do not escape backslashes', () => {
    const text =
      '{"json":{"a\\\\b":"1970-01-01T00:00:00.000Z"},"meta":{"values":{"a\\\\b":["Date"]}},"__dbos_serializer":"superjson"}';
    expect(native.decode(text)).toStrictEqual({ 'a\\b': new Date(0) });
  });
});

describe('golden rows', () => {
  it.each([
    ['{"json":[1,"a"],"__dbos_serializer":"superjson"}', [1, 'a']],
    ['{"json":null,"meta":{"values":["undefined"],"v":1},"__dbos_serializer":"superjson"}', undefined],
    [
      '{"json":{"at":"2026-01-01T00:00:00.000Z"},"meta":{"values":{"at":["Date"]},"v":1},"__dbos_serializer":"superjson"}',
      { at: new Date('2026-01-01T00:00:00.000Z') },
    ],
    [
      '{"json":[["a",[1,2]]],"meta":{"values":["map",{"0.1":["set"]}],"v":1},"__dbos_serializer":"superjson"}',
      new Map([['a', new Set([1, 2])]]),
    ],
    [
      '{"json":{"file":[97]},"meta":{"values":{"file":[["custom","Buffer"]]},"v":1},"__dbos_serializer":"superjson"}',
      { file: Buffer.from('a') },
    ],
    [
      '{"json":{"a":{"x":1},"b":{"x":1}},"meta":{"referentialEqualities":{"a":["b"]},"v":1},"__dbos_serializer":"superjson"}',
      (() => {
        const x = { x: 1 };
        return { a: x, b: x };
      })(),
    ],
  ])('%s', (text, value) => {
    expect(native.encode(value, 'x')).toBe(text);
    expect(native.decode(text)).toStrictEqual(value);
  });
});

describe('rows of DBOS before superjson', () => {
  it('reads plain JSON', () => {
    expect(native.decode('{"a":[1,null]}')).toStrictEqual({ a: [1, null] });
    expect(native.decodeArguments('["x",2]')).toStrictEqual(['x', 2]);
  });

  it('reads wrapped dates, bigints and Buffers', () => {
    const text =
      '{"d":{"dbos_type":"dbos_Date","dbos_data":"2024-01-02T03:04:05.000Z"},' +
      '"n":{"dbos_type":"dbos_BigInt","dbos_data":"12345678901234567890"},"b":{"type":"Buffer","data":[1,2]}}';
    expect(native.decode(text)).toStrictEqual({
      d: new Date('2024-01-02T03:04:05.000Z'),
      n: 12345678901234567890n,
      b: Buffer.from([1, 2]),
    });
  });

  it('does not unwrap values of a marked row that only look wrapped', () => {
    const value = { type: 'Buffer', data: [1], dbos_type: 'dbos_Date', dbos_data: 'x' };
    expect(native.decode(native.encode(value, 'x') as string)).toStrictEqual(value);
    const marker = { json: 1, __dbos_serializer: 'superjson' };
    expect(native.decode(native.encode(marker, 'x') as string)).toStrictEqual(marker);
  });
});

describe('texts that cannot be read', () => {
  const row = (json: string, meta: string) => `{"json":${json},"meta":${meta},"__dbos_serializer":"superjson"}`;
  it.each([
    ['cut', '{"json":{"a"'],
    ['empty', ''],
    ['of an unknown class', row('{}', '{"values":[["class","Nowhere"]],"v":1}')],
    ['of an unknown type', row('1', '{"values":["Temporal"],"v":1}')],
    ['of a symbol', row('"s"', '{"values":[["symbol","s"]],"v":1}')],
    ['of an unknown typed array', row('[]', '{"values":[["typed-array","Float8Array"]],"v":1}')],
    ['with an impossible number', row('"x"', '{"values":["bigint"],"v":1}')],
    ['with the "meta" of another value', row('{}', '{"values":{"a.b":["Date"]},"v":1}')],
    ['with null as "meta"', row('{}', 'null')],
  ])('lead to a typed error: %s', (_, text) => {
    expect(() => native.decode(text)).toThrow(
      expect.objectContaining({
        code: 'UNREADABLE_VALUE',
        cause: expect.any(Error),
        message: expect.stringContaining('correct the row'),
      }),
    );
  });

  it('lead to an error that names the missing class', () => {
    expect(() => native.decode(row('{}', '{"values":[["class","Nowhere"]],"v":1}'))).toThrow(
      /class "Nowhere".*registerClass/,
    );
  });

  it('lead to an error if the arguments are not an array', () => {
    expect(() => native.decodeArguments('{"json":{},"__dbos_serializer":"superjson"}')).toThrow(
      /arguments are not an array/,
    );
  });
});

describe('prototype pollution', () => {
  const row = (json: string, meta: string) => `{"json":${json},"meta":${meta},"__dbos_serializer":"superjson"}`;
  const attacks = [
    '{"json":{"__proto__":{"polluted":true}},"__dbos_serializer":"superjson"}',
    '{"__proto__":{"polluted":true}}',
    row('{"polluted":"1"}', '{"values":{"__proto__.polluted":["bigint"]},"v":1}'),
    row('{"polluted":"1"}', '{"values":{"constructor.prototype.polluted":["bigint"]},"v":1}'),
    row('{"a":{"polluted":1}}', '{"referentialEqualities":{"a":["__proto__","constructor.prototype"]},"v":1}'),
    row('{"a":{"polluted":1},"__proto__":null}', '{"referentialEqualities":{"a":["__proto__"]},"v":1}'),
    row('{"name":"E","message":"m","__proto__":{"polluted":1}}', '{"values":["Error"],"v":1}'),
    row('{"a":1}', '{"referentialEqualities":[["a","a"],{"a":["a"]}],"v":1}'),
  ];

  it.each(attacks)('changes no prototype: %s', (text) => {
    let decoded: unknown;
    try {
      decoded = native.decode(text);
    } catch (error) {
      expect(error).toMatchObject({ code: 'UNREADABLE_VALUE' });
    }
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    expect((decoded as { polluted?: unknown } | undefined)?.polluted).toBeUndefined();
  });
});
