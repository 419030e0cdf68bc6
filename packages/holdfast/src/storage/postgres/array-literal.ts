/**
 * Returns the columns of a batch as array literals. A column without values is empty: `unnest` fills the shorter arrays
 * with nulls, and most batches have several such columns. Only the first column must have all its elements.
 */
export function columnLiterals<T extends object>(rows: readonly T[], columns: readonly (keyof T)[]): string[] {
  return columns.map((column, i) => (i > 0 && isEmpty(rows, column) ? '{}' : columnLiteral(rows, column)));
}

function isEmpty<T extends object>(rows: readonly T[], column: keyof T): boolean {
  for (const row of rows) if (row[column] !== null && row[column] !== undefined) return false;
  return true;
}

/** The driver can build this literal too, but takes several times as long. */
function columnLiteral<T extends object>(rows: readonly T[], column: keyof T): string {
  let text = '';
  let previous: unknown;
  let encoded = encode(previous);
  for (const row of rows) {
    const value = row[column];
    // Neighboring rows often have the same value: the same owner, status or instant.
    if (value !== previous) encoded = encode(value);
    previous = value;
    text += encoded;
  }
  return `{${text.slice(1)}}`;
}

/** Returns a list of values as an array literal. */
export function arrayLiteral(values: readonly unknown[]): string {
  return `{${values.map(encode).join('').slice(1)}}`;
}

function encode(value: unknown): string {
  if (value === null || value === undefined) return ',NULL';
  return typeof value === 'string' ? `,"${escapeText(value)}"` : `,${value}`;
}

/** Longer texts are escaped in pieces of this length. */
const pieceLength = 65_536;

/**
 * Escapes quotes and backslashes. Nearly every text is JSON and has quotes, but few texts have backslashes.
 * For such texts `replaceAll` is twice as fast as a regular expression.
 */
function escapeText(text: string): string {
  if (text.length > pieceLength) return escapeInPieces(text);
  const safe = text.includes('\\') ? text.replaceAll('\\', '\\\\') : text;
  return safe.includes('"') ? safe.replaceAll('"', '\\"') : safe;
}

/**
 * Escapes a long text in pieces, to limit memory. In V8 `replaceAll` returns a tree of text parts: for 80 MB of quotes
 * the tree needs more than 2 GB. A regular expression returns a flat text, but needs as much memory while it runs.
 */
function escapeInPieces(text: string): string {
  let result = '';
  for (let at = 0; at < text.length; at += pieceLength) {
    result += text.slice(at, at + pieceLength).replace(/["\\]/g, '\\$&');
  }
  return result;
}
