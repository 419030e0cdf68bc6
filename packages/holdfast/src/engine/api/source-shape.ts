/**
 * The text of a function without names and white space, which a bundler chooses anew in each bundle that the function is in.
 * Two copies of one function have one shape. Two functions of one shape differ in names at most.
 */
export function sourceShape(source: string): string {
  return source.replace(
    parts,
    (part, text?: string) => text ?? (/^\d/.test(part) ? part : /^\s/.test(part) ? '' : '_'),
  );
}

/** Texts, numbers, names and white space. The texts of templates count as names: names can be in them. */
const parts = /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\d[\w.]*|[\p{L}\p{Nl}_$][\p{L}\p{N}_$]*|\s+/gu;
