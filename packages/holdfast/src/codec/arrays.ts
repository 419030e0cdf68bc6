import { inspect } from 'node:util';

/** From here on the property names of an array, all its indices among them, cost more than an inspection. */
const long = 200;

/** A property of an array beside its elements, such as the `index` of a match. JSON has no place for one. */
export function extraProperty(array: readonly unknown[]): string | undefined {
  // An inspection alone sees the other properties without listing the indices. Anything but this answer is looked into.
  if (array.length > long && inspect(array, shortly) === `[ ... ${array.length} more items ]`) return undefined;
  const keys = Object.keys(array);
  const last = keys[keys.length - 1];
  // Indices come first.
  if (last === undefined || last === String(array.length - 1) || isIndex(last)) return undefined;
  return keys.find((key) => !isIndex(key));
}

const shortly = { maxArrayLength: 0, depth: 0, breakLength: Number.POSITIVE_INFINITY, customInspect: false } as const;

function isIndex(key: string): boolean {
  const index = Number(key) >>> 0;
  return index !== 2 ** 32 - 1 && String(index) === key;
}
