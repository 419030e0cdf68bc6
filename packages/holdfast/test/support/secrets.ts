import { inspect } from 'node:util';
import fc from 'fast-check';
import type { Logger } from '../../src/index.js';

/**
 * Secrets of letters that no message and no name of a file has in a row, with the characters that have a meaning in URLs,
 * connection strings and messages.
 */
export const secret = fc.string({
  unit: fc.constantFrom(...'QZXJKWVqzxjkwv79:@/?#%& =\\\'"+;,'),
  minLength: 6,
  maxLength: 24,
});

/** Keeps what is logged, at all levels. */
export function recordingLogger(): Logger & { readonly lines: unknown[] } {
  const lines: unknown[] = [];
  const note = (...said: unknown[]): void => void lines.push(said);
  return { lines, debug: note, info: note, warn: note, error: note };
}

const run = 4;

/** The parts of a secret that somebody who sees `shown` (errors, with causes and details, or logs) gets to know. */
export function survivingParts(secretText: string, shown: unknown): string[] {
  const options = { depth: 12, showHidden: true, maxStringLength: null, maxArrayLength: null, breakLength: 1e6 };
  const text = inspect(shown, options).toLowerCase();
  const spellings = [secretText, encodeURIComponent(secretText), encodeURI(secretText), encodeQuery(secretText)];
  const parts = spellings.flatMap((spelling) =>
    Array.from({ length: spelling.length - run + 1 }, (_, at) => spelling.slice(at, at + run)),
  );
  // A run of blanks and quotes tells nobody anything, and messages have them too.
  return [...new Set(parts)].filter((part) => /[a-z0-9].*[a-z0-9]/i.test(part) && text.includes(part.toLowerCase()));
}

function encodeQuery(text: string): string {
  return new URLSearchParams({ x: text }).toString().slice(2);
}
