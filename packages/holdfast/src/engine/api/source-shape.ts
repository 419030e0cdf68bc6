/**
 * Returns the source text of a function without names and white space, because a bundler chooses these anew in each
 * bundle. Two copies of one function have the same shape. Two functions of the same shape differ only in names.
 */
export function sourceShape(source: string): string {
  return source.replace(
    tokens,
    (token, text?: string) => text ?? (/^\d/.test(token) ? token : /^\s/.test(token) ? '' : '_'),
  );
}

/**
 * Matches strings, numbers, names and white space. The text of a template literal counts as names, because it can
 * contain names.
 */
const tokens = /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\d[\w.]*|[\p{L}\p{Nl}_$][\p{L}\p{N}_$]*|\s+/gu;
