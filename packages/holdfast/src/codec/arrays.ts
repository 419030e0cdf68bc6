import { inspect } from 'node:util';

/** In arrays longer than this, listing all property names (the indices included) costs more than `inspect`. */
const maxListed = 200;

/** Returns a property of an array beside its elements, such as the `index` of a match. JSON cannot represent it. */
export function extraProperty(array: readonly unknown[]): string | undefined {
  // Only `inspect` sees the other properties without listing the indices. Any other output leads to the slow check
  // below.
  if (array.length > maxListed && inspect(array, brief) === `[ ... ${array.length} more items ]`) return undefined;
  const keys = Object.keys(array);
  const last = keys[keys.length - 1];
  // JavaScript lists the indices before all other keys.
  if (last === undefined || last === String(array.length - 1) || isIndex(last)) return undefined;
  return keys.find((key) => !isIndex(key));
}

const brief = { maxArrayLength: 0, depth: 0, breakLength: Number.POSITIVE_INFINITY, customInspect: false } as const;

function isIndex(key: string): boolean {
  const index = Number(key) >>> 0;
  return index !== 2 ** 32 - 1 && String(index) === key;
}
