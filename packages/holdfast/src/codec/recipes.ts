/**
 * How objects of each known class become JSON. A recipe is found by the prototype of the object. Holdfast uses the
 * annotation of superjson wherever superjson has one, so that superjson and every DBOS SDK can read our rows. Where
 * superjson loses a value (Invalid Date, NaN in a Float64Array), our JSON is chosen so that superjson reads it
 * correctly.
 *
 * `toJSON` is never called. A plain object with `toJSON` contains a function and is refused. An instance of a class
 * with `toJSON` is refused or registered like any other. The result of `toJSON` is meant for people or for another
 * program, and a recovered workflow would get that result instead of the value.
 *
 * As in JSON, these are not part of a value: properties with symbol keys, properties that are not enumerable, extra
 * properties of Maps, Dates and other built-in objects, and the lack of a prototype. An array with extra properties
 * is refused.
 */
import { isError } from '../model/errors.js';
import { classWithPrototype, isBuiltIn, type RegisteredClass } from './classes.js';
import { errorFields } from './error-record.js';

/** The name of a type in superjson. */
export type Tag = string | readonly [kind: string, name: string];

export type Recipe =
  | { readonly kind: 'record' | 'array' | 'map' | 'set' }
  /** One conversion to a value without members. */
  | { readonly kind: 'leaf'; readonly tag: Tag; readonly toJson: (value: never) => unknown }
  /**
   * One conversion to a value whose members are then converted. `opaque`: the content must be read before the object.
   */
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

/** The typed array classes by name, for reading. */
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

/** Returns undefined for an instance of an unknown class. */
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

/**
 * Finds the recipe of an object of another realm. Test runners and `vm` give code its own Object, Map and Date, so
 * objects that Node creates have other prototypes.
 */
function fromAnotherRealm(value: object, prototype: object): Recipe | undefined {
  // A test runner may have replaced `Date` by a fake since this module was loaded.
  if (prototype === Date.prototype) return byName.get('Date');
  const name = Object.prototype.toString.call(value).slice('[object '.length, -1);
  const Class: unknown = Object.hasOwn(prototype, 'constructor') ? prototype.constructor : undefined;
  return typeof Class === 'function' && Class.name === name && isBuiltIn(Class) ? byName.get(name) : undefined;
}

function typedArray(name: string, toJson: (value: never) => unknown): Recipe {
  return { kind: 'leaf', tag: ['typed-array', name], toJson };
}

/** Numbers that JSON cannot write become strings. The constructors of the float arrays accept these strings. */
function floatTexts(value: ArrayLike<number>): (number | string)[] {
  return Array.from(value, (element) => specialNumber(element) ?? element);
}

/** Returns the text of a number that JSON would write as another number or as null. */
export function specialNumber(value: number): string | undefined {
  if (value === 0 && 1 / value < 0) return '-0';
  return Number.isFinite(value) ? undefined : String(value);
}

/** superjson writes an Invalid Date as null. The text 'Invalid Date' is read as an Invalid Date. */
function dateText(value: Date): string {
  return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
}

function base64(bytes: ArrayBufferLike, offset = 0, length = bytes.byteLength): string {
  return Buffer.from(bytes as ArrayBuffer, offset, length).toString('base64');
}
