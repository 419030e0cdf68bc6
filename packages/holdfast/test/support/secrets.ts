import { inspect } from 'node:util';
import fc from 'fast-check';
import type { Logger } from '../../src/index.js';

/**
 * Secrets of letters that occur together in no message and no file name, and of the characters that have a meaning in
 * URLs, connection strings and messages.
 */
export const secret = fc.string({
  unit: fc.constantFrom(...'QZXJKWVqzxjkwv79:@/?#%& =\\\'"+;,'),
  minLength: 6,
  maxLength: 24,
});

/** Collects log lines of all levels. */
export function recordingLogger(): Logger & { readonly lines: unknown[] } {
  const lines: unknown[] = [];
  const note = (...said: unknown[]): void => void lines.push(said);
  return { lines, debug: note, info: note, warn: note, error: note };
}

const run = 4;

/** Returns the parts of a secret that are visible in `shown` (errors, with causes and details, or logs). */
export function survivingParts(secretText: string, shown: unknown): string[] {
  const options = { depth: 12, showHidden: true, maxStringLength: null, maxArrayLength: null, breakLength: 1e6 };
  const text = inspect(shown, options).toLowerCase();
  const spellings = [secretText, encodeURIComponent(secretText), encodeURI(secretText), encodeQuery(secretText)];
  const parts = spellings.flatMap((spelling) =>
    Array.from({ length: spelling.length - run + 1 }, (_, at) => spelling.slice(at, at + run)),
  );
  // A run of blanks and quotes reveals nothing, and occurs in messages too.
  return [...new Set(parts)].filter((part) => /[a-z0-9].*[a-z0-9]/i.test(part) && text.includes(part.toLowerCase()));
}

function encodeQuery(text: string): string {
  return new URLSearchParams({ x: text }).toString().slice(2);
}
