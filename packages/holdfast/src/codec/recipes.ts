/**
 * How each class of object that we know becomes JSON, found by its prototype. superjson's annotations are used
 * wherever superjson has one, so that it (and every DBOS SDK) reads our rows; where it would lose something
 * (Invalid Date, NaN in a Float64Array) the JSON is chosen such that its own reader still gets the value right.
 *
 * `toJSON` is never called. A plain object that has one has a function in it and is refused as such; an instance of a
 * class that has one is refused or registered like any other. What `toJSON` returns is a text for people or for one
 * other program, and a recovered workflow would get that instead of the value.
 *
 * Not part of a value, as in JSON: properties with symbol keys, properties that are not enumerable, properties put on
 * Maps, Dates and the like, and the lack of a prototype. An array with properties is refused.
 */
import { isError } from '../model/errors.js';
import { classWithPrototype, isBuiltIn, type RegisteredClass } from './classes.js';
import { errorFields } from './error-record.js';

/** superjson's name of a type. */
export type Tag = string | readonly [kind: string, name: string];

export type Recipe =
  | { readonly kind: 'record' | 'array' | 'map' | 'set' }
  /** One step to something without members. */
  | { readonly kind: 'leaf'; readonly tag: Tag; readonly toJson: (value: never) => unknown }
  /** One step to a value that is walked in its turn. `opaque`: it cannot be given back before its content is. */
  | {
      readonly kind: 'fields';
      readonly tag: Tag;
      readonly toFields: (value: never) => unknown;
      readonly opaque: boolean;
    };

const record: Recipe = { kind: 'record' };
const array: Recipe = { kind: 'array' };
export const errorRecipe: Recipe = { kind: 'fields', tag: 'Error', toFields: errorFields, opaque: false };

const integerArrays = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array];
const floatArrays = [Float32Array, Float64Array];
const bigintArrays = [BigInt64Array, BigUint64Array];

/** The typed arrays by name, for reading them. */
export const typedArrays: ReadonlyMap<string, new (elements: never) => ArrayBufferView> = new Map(
  [...integerArrays, ...floatArrays, ...bigintArrays].map((Class) => [Class.name, Class as never]),
);

const builtIn: readonly (readonly [{ readonly name: string; readonly prototype: object }, Recipe])[] = [
  [Object, record],
  [Array, array],
  [Map, { kind: 'map' }],
  [Set, { kind: 'set' }],
  [Error, errorRecipe],
  [Date, { kind: 'leaf', tag: 'Date', toJson: dateText }],
  [RegExp, { kind: 'leaf', tag: 'regexp', toJson: String }],
  [URL, { kind: 'leaf', tag: 'URL', toJson: String }],
  [Buffer, { kind: 'leaf', tag: ['custom', 'Buffer'], toJson: (value: Buffer) => Array.from(value) }],
  [ArrayBuffer, { kind: 'leaf', tag: ['custom', 'ArrayBuffer'], toJson: (value: ArrayBuffer) => base64(value) }],
  [
    DataView,
    {
      kind: 'leaf',
      tag: ['custom', 'DataView'],
      toJson: (value: DataView) => base64(value.buffer, value.byteOffset, value.byteLength),
    },
  ],
  ...integerArrays.map(
    (Class) => [Class, typedArray(Class.name, (value: ArrayLike<number>) => Array.from(value))] as const,
  ),
  ...floatArrays.map((Class) => [Class, typedArray(Class.name, floatTexts)] as const),
  ...bigintArrays.map(
    (Class) => [Class, typedArray(Class.name, (value: ArrayLike<bigint>) => Array.from(value, String))] as const,
  ),
];

const byPrototype = new Map<object | null, Recipe>(builtIn.map(([Class, recipe]) => [Class.prototype, recipe]));
byPrototype.set(null, record);
const byName = new Map(builtIn.map(([Class, recipe]) => [Class.name, recipe]));

/** undefined: an instance of a class that we do not know. */
export function recipeFor(value: object): Recipe | undefined {
  const prototype: object | null = Object.getPrototypeOf(value);
  const known = byPrototype.get(prototype);
  if (known !== undefined || prototype === null) return known;
  const registered = classWithPrototype(prototype);
  if (registered !== undefined && !registered.isError) return classRecipe(registered);
  return isError(value) ? errorRecipe : fromAnotherRealm(value, prototype);
}

function classRecipe({ name, to }: RegisteredClass): Recipe {
  if (to !== undefined) return { kind: 'fields', tag: ['custom', name], toFields: to, opaque: true };
  return { kind: 'fields', tag: ['class', name], toFields: (value: object) => ({ ...value }), opaque: false };
}

/** Test runners and `vm` give code its own Object, Map and Date; what Node itself makes then has other prototypes. */
function fromAnotherRealm(value: object, prototype: object): Recipe | undefined {
  // What `Date` is now is not what it was when this module was loaded: a test runner's fake.
  if (prototype === Date.prototype) return byName.get('Date');
  const name = Object.prototype.toString.call(value).slice('[object '.length, -1);
  const Class: unknown = Object.hasOwn(prototype, 'constructor') ? prototype.constructor : undefined;
  return typeof Class === 'function' && Class.name === name && isBuiltIn(Class) ? byName.get(name) : undefined;
}

function typedArray(name: string, toJson: (value: never) => unknown): Recipe {
  return { kind: 'leaf', tag: ['typed-array', name], toJson };
}

/** What JSON has no number for goes as text, which the constructors of the float arrays read as well. */
function floatTexts(value: ArrayLike<number>): (number | string)[] {
  return Array.from(value, (element) => specialNumber(element) ?? element);
}

/** The text of a number that JSON would write as another number or as null. */
export function specialNumber(value: number): string | undefined {
  if (value === 0 && 1 / value < 0) return '-0';
  return Number.isFinite(value) ? undefined : String(value);
}

/** superjson writes an Invalid Date as null; `new Date('Invalid Date')` is one. */
function dateText(value: Date): string {
  return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
}

function base64(bytes: ArrayBufferLike, offset = 0, length = bytes.byteLength): string {
  return Buffer.from(bytes as ArrayBuffer, offset, length).toString('base64');
}
