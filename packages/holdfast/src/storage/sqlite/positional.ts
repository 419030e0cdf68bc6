/**
 * SQL with `$1`, `$2` and so on, for drivers that know parameters by their place only: each use becomes a `?` of its own.
 * `order` says which parameter belongs to each of them, counted from 1.
 */
export interface Positional {
  readonly text: string;
  readonly order: readonly number[];
}

/** `literal`: how the driver wants a question mark that is none of a parameter. */
export function positional(text: string, literal = '?'): Positional {
  const order: number[] = [];
  // Quoted names and texts stay as they are, but for what a question mark means in them to the library.
  const marked = text.replace(/("[^"]*"|'[^']*')|\$(\d+)/g, (_, quoted: string | undefined, number: string) => {
    if (quoted !== undefined) return quoted.replaceAll('?', literal);
    order.push(Number(number));
    return '?';
  });
  return { text: marked, order };
}
