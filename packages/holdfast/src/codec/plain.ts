/**
 * The check of the fast path: can `JSON.stringify` alone write this value without loss? For most values it can. The
 * check runs for every value, so it allocates nothing for a small value. If the answer is no, the slow walk of the
 * format finds out whether the value needs annotations or must be refused, and why.
 *
 * Strings are not checked here. JSON writes the refused characters (NUL, half surrogate pairs) as `\u` escapes. One
 * search of the finished text ({@link hasEscapes}) therefore replaces a test of every string and key.
 */

import { extraProperty } from './arrays.js';
import { maxDepth } from './refusal.js';

const objectPrototype = Object.prototype;
const arrayPrototype = Array.prototype;

/** The objects seen so far. Up to about this many, searching an array for a repeated object is cheaper than a Set. */
const slotCount = 16;
const slots: (object | undefined)[] = new Array<object | undefined>(slotCount).fill(undefined);
let used = 0;
let overflow: Set<object> | undefined;
let busy = false;

export function isPlainJson(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return isPlainPrimitive(value);
  // Busy means that a getter of a value is encoding another value. The slots are in use, so this value takes the slow
  // walk, which is also correct.
  if (busy) return false;
  busy = true;
  try {
    return isPlainTree(value, 0);
  } finally {
    // Without this loop the last stored value would stay in memory until the next value is stored.
    for (let i = 0; i < used; i++) slots[i] = undefined;
    used = 0;
    overflow = undefined;
    busy = false;
  }
}

/**
 * Returns true if the JSON text has an escape that could be NUL or half a surrogate pair. Other control characters
 * also return true; the slow walk then accepts them.
 */
export function hasEscapes(json: string): boolean {
  return json.includes('\\u');
}

function isPlainPrimitive(value: unknown): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true;
    case 'number':
      return isPlainNumber(value);
    default:
      return value === null;
  }
}

function isPlainNumber(value: number): boolean {
  return Number.isFinite(value) && (value !== 0 || 1 / value > 0);
}

function isPlainTree(value: object, depth: number): boolean {
  if (depth >= maxDepth || isRepeated(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === objectPrototype || prototype === null)
    return isPlainRecord(value as Record<string, unknown>, depth);
  return prototype === arrayPrototype && isPlainArray(value as unknown[], depth);
}

function isPlainRecord(record: Record<string, unknown>, depth: number): boolean {
  // for-in allocates no array of keys. If Object.prototype was extended, for-in also visits inherited keys, which
  // JSON skips. At worst a plain value then takes the slow walk.
  for (const key in record) {
    const member = record[key];
    if (typeof member === 'string') {
      if (key === '__proto__') return false;
    } else if (typeof member === 'object' && member !== null) {
      if (key === '__proto__' || !isPlainTree(member, depth + 1)) return false;
    } else if (key === '__proto__' || !isPlainPrimitive(member)) return false;
  }
  return true;
}

function isPlainArray(array: readonly unknown[], depth: number): boolean {
  for (let i = 0; i < array.length; i++) {
    const member = array[i];
    if (typeof member === 'string') continue;
    if (typeof member === 'object' && member !== null) {
      if (!isPlainTree(member, depth + 1)) return false;
    } else if (!isPlainPrimitive(member)) return false;
  }
  return extraProperty(array) === undefined;
}

/** Remembers the object. Returns true for a repeated object: a shared reference or a cycle, which JSON would lose. */
function isRepeated(value: object): boolean {
  if (overflow !== undefined) {
    if (overflow.has(value)) return true;
    overflow.add(value);
    return false;
  }
  for (let i = 0; i < used; i++) if (slots[i] === value) return true;
  if (used < slotCount) {
    slots[used++] = value;
    return false;
  }
  overflow = new Set(slots as object[]);
  overflow.add(value);
  return false;
}
