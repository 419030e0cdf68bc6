/**
 * The fast path's question: can `JSON.stringify` alone write this value, losing nothing? Most values can, and this
 * walk is run for every one of them, so it allocates nothing for a small value. It explains nothing either: after a
 * no, the slow walk of the format in question finds out whether the value is rich or must be refused, and why.
 *
 * Strings are not looked at. JSON writes what we refuse in them (NUL, half surrogate pairs) as `\u` escapes, so one
 * search of the finished text ({@link hasEscapes}) stands for a test of every string and key.
 */

import { extraProperty } from './arrays.js';
import { deepest } from './refusal.js';

const objectPrototype = Object.prototype;
const arrayPrototype = Array.prototype;

/** Small values are searched for a repeated reference in these slots: cheaper than a Set up to about this many. */
const slotCount = 16;
const slots: (object | undefined)[] = new Array<object | undefined>(slotCount).fill(undefined);
let used = 0;
let overflow: Set<object> | undefined;
let busy = false;

export function isPlainJson(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return isPlainPrimitive(value);
  // A getter of the value is encoding another value; the slots are taken. The slow walk is right as well.
  if (busy) return false;
  busy = true;
  try {
    return isPlainTree(value, 0);
  } finally {
    // Cleared, or the last value stored would stay in memory for as long as nothing else is.
    for (let i = 0; i < used; i++) slots[i] = undefined;
    used = 0;
    overflow = undefined;
    busy = false;
  }
}

/** Whether JSON text has an escape that could be NUL or half a surrogate pair. Other control characters are a false alarm. */
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
  if (depth >= deepest || isRepeated(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === objectPrototype || prototype === null)
    return isPlainRecord(value as Record<string, unknown>, depth);
  return prototype === arrayPrototype && isPlainArray(value as unknown[], depth);
}

function isPlainRecord(record: Record<string, unknown>, depth: number): boolean {
  // for-in builds no array of keys. Where someone extended Object.prototype it also visits what JSON would not, which
  // can only send a plain value the slow way.
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

/** Remembers the object. A second sight of it means a shared reference or a cycle, which JSON alone would lose. */
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
