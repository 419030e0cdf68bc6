import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createCodecs } from './codecs.js';

const { native } = createCodecs();

function roundTrip(value: unknown): unknown {
  return native.decode(native.encode(value, 'The value') as string);
}

/**
 * Returns the first difference in types, -0, NaN, the order of Maps and Sets, or in which places share one object.
 */
function difference(a: unknown, b: unknown, at = 'value', pairs = new Map<unknown, unknown>()): string | undefined {
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) {
    return Object.is(a, b) ? undefined : `${at}: ${String(a)} is not ${String(b)}`;
  }
  if (pairs.has(a)) return pairs.get(a) === b ? undefined : `${at} is another object than before`;
  pairs.set(a, b);
  const prototypes = [a, b].map((value) => Object.getPrototypeOf(value) ?? Object.prototype);
  if (prototypes[0] !== prototypes[1]) return `${at} has another prototype`;
  if (a instanceof Date) return difference(a.getTime(), (b as Date).getTime(), at, pairs);
  if (a instanceof RegExp || a instanceof URL) return difference(String(a), String(b), at, pairs);
  if (a instanceof ArrayBuffer) return difference(new Uint8Array(a), new Uint8Array(b as ArrayBuffer), at, pairs);
  if (a instanceof DataView) return difference(bytesOf(a), bytesOf(b as DataView), at, pairs);
  if (a instanceof Map || a instanceof Set) return membersDiffer([...a], [...(b as Set<unknown>)], at, pairs);
  return membersDiffer(a, b, at, pairs);
}

function bytesOf(view: DataView): number[] {
  return Array.from({ length: view.byteLength }, (_, i) => view.getUint8(i));
}

function membersDiffer(a: object, b: object, at: string, pairs: Map<unknown, unknown>): string | undefined {
  const keys = Array.isArray(a) ? Array.from(a, (_, i) => String(i)) : Object.keys(a);
  const others = Array.isArray(b) ? Array.from(b, (_, i) => String(i)) : Object.keys(b);
  if (keys.join() !== others.join()) return `${at} has the keys ${others.join()} instead of ${keys.join()}`;
  for (const key of keys) {
    const found = difference(Reflect.get(a, key), Reflect.get(b, key), `${at}.${key}`, pairs);
    if (found !== undefined) return found;
  }
  return undefined;
}

const text = fc.string({ unit: 'binary' }).map((value) => value.replaceAll('\0', ''));
/** Any key except `__proto__`, which is refused. */
const key = fc
  .oneof(
    text,
    fc.constantFrom(
      'a.b',
      'a\\b',
      'a\\.b',
      '',
      '0',
      '1',
      'constructor',
      'prototype',
      'toString',
      'json',
      'meta',
      'length',
    ),
  )
  .filter((name) => name !== '__proto__');
const leaf = fc.oneof(
  text,
  fc.boolean(),
  fc.double(),
  fc.integer(),
  fc.bigInt(),
  fc.constantFrom(null, undefined, NaN, Infinity, -Infinity, -0),
  fc.date({ noInvalidDate: false }),
  fc.constantFrom(/a.b/giu, /[/\\]\//, /(?:)/).map((regexp) => new RegExp(regexp)),
  fc.webUrl().map((url) => new URL(url)),
  fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  fc.uint8Array().map((bytes) => new Uint8Array(bytes).buffer),
  fc.uint8Array({ minLength: 4 }).map((bytes) => new DataView(new Uint8Array(bytes).buffer, 2)),
  ...[fc.int8Array(), fc.uint8Array(), fc.uint8ClampedArray(), fc.int16Array(), fc.uint16Array()],
  ...[fc.int32Array(), fc.uint32Array(), fc.float32Array(), fc.float64Array(), fc.bigInt64Array(), fc.bigUint64Array()],
);

const { value } = fc.letrec<{ value: unknown; shared: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(key, tie('value'), { maxKeys: 4 }),
    fc.array(tie('value'), { maxLength: 4 }).map((members) => new Set(members)),
    fc.array(fc.tuple(tie('value'), tie('value')), { maxLength: 3 }).map((entries) => new Map(entries)),
    tie('shared'),
  ),
  // The same objects in every kind of container, so that each kind must restore a shared reference.
  shared: fc.tuple(tie('value'), tie('value'), key).map(([a, b, name]) => {
    const cycle: Record<string, unknown> = { b, a };
    cycle[name === '__proto__' ? 'x' : name] = new Map<unknown, unknown>([
      [a, cycle],
      [cycle, b],
    ]);
    return [cycle, b, new Set([cycle, a, b, 1]), { a, cycle }];
  }),
}));

describe('native round trip', () => {
  it('reads every supported value with the same types, order and shared references', () => {
    fc.assert(
      fc.property(value, (original) => {
        expect(difference(original, roundTrip(original))).toBeUndefined();
      }),
      { numRuns: 1000 },
    );
  });

  it('reads arguments with the references that they share', () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 3 }), (args) => {
        const decoded = native.decodeArguments(native.encodeArguments(args, 'Input') as string);
        expect(difference(args, decoded)).toBeUndefined();
      }),
      { numRuns: 200 },
    );
  });

  it.each([
    ['undefined', undefined],
    ['undefined in an array and in an object', [undefined, { a: undefined }]],
    ['NaN, infinities and -0', [NaN, Infinity, -Infinity, -0, 0]],
    ['an Invalid Date', new Date(NaN)],
    [
      'float arrays with numbers that JSON does not have',
      [new Float32Array([NaN, -0, 1.5]), new Float64Array([-Infinity])],
    ],
    ['a Buffer as a Buffer and a Uint8Array as a Uint8Array', [Buffer.from('é'), new Uint8Array([1, 2])]],
    ['a key with dots and backslashes above a Date', { 'a.b\\c.': { '\\': new Date(0) } }],
    ['keys that superjson forbids', { constructor: { prototype: [new Date(1), { a: 1 }] } }],
  ])('keeps %s', (_, original) => {
    expect(difference(original, roundTrip(original))).toBeUndefined();
  });

  it('reads a hole of an array as undefined', () => {
    // biome-ignore lint/suspicious/noSparseArray: the subject of the test
    expect(roundTrip([1, , 3])).toStrictEqual([1, undefined, 3]);
  });

  it('reads an object without a prototype as a plain object', () => {
    expect(roundTrip(Object.assign(Object.create(null), { a: new Date(0) }))).toStrictEqual({ a: new Date(0) });
  });
});

describe('with a fake clock of a test runner', () => {
  afterEach(() => void vi.useRealTimers());

  it('keeps dates that were created before and after the fake clock was installed', () => {
    const before = new Date(5);
    vi.useFakeTimers({ toFake: ['Date'], now: 7 });
    const dates = roundTrip([before, new Date(), new Date(9)]) as Date[];
    expect(dates.map((date) => date.getTime())).toEqual([5, 7, 9]);
    expect(dates.every((date) => date instanceof Date)).toBe(true);
  });
});

describe('references', () => {
  it('keeps the order of a Set that contains a shared object', () => {
    const shared = { id: 1 };
    const { set } = roundTrip({ shared, set: new Set([shared, 'after']) }) as { set: Set<unknown> };
    expect([...set]).toStrictEqual([{ id: 1 }, 'after']);
  });

  it('restores cycles through the root, Maps, Sets and Errors', () => {
    const root: Record<string, unknown> = {};
    const error = new Error('boom');
    error.cause = new Error('why', { cause: error });
    Object.assign(root, { root, error, map: new Map([[root, error]]), set: new Set([root]) });
    const copy = roundTrip(root) as {
      root: unknown;
      error: { cause: { cause: unknown } };
      map: Map<unknown, unknown>;
      set: Set<unknown>;
    };
    expect(copy.root).toBe(copy);
    expect(copy.error.cause.cause).toBe(copy.error);
    expect(copy.map.get(copy)).toBe(copy.error);
    expect(copy.set.has(copy)).toBe(true);
  });

  it('writes a shared object in full at each place, for readers that use only the JSON', () => {
    const address = { city: 'Oslo' };
    const text = native.encode({ billing: address, shipping: address }, 'x') as string;
    expect(JSON.parse(text).json).toStrictEqual({ billing: address, shipping: address });
  });

  it('does not write 2^n copies for n levels of sharing', () => {
    let value: object = { leaf: true };
    for (let level = 0; level < 60; level++) value = { left: value, right: value };
    const text = native.encode(value, 'x') as string;
    expect(text.length).toBeLessThan(1_000_000);
    expect(difference(value, native.decode(text))).toBeUndefined();
  });

  it('detects a shared object among more objects than the fast path has slots for', () => {
    const rows = Array.from({ length: 40 }, (_, id) => ({ id }));
    const copy = roundTrip([...rows, rows[39]]) as unknown[];
    expect(copy[40]).toBe(copy[39]);
  });

  it('writes a value with a getter that writes another value', () => {
    const value = {
      a: { b: 1 },
      get text() {
        return native.encode({ c: { d: 2 } }, 'inner');
      },
    };
    expect(roundTrip(value)).toStrictEqual({ a: { b: 1 }, text: native.encode({ c: { d: 2 } }, 'inner') });
  });
});
