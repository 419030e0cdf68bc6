/**
 * SQL for drivers that know only positional parameters: each use of `$1`, `$2` and so on becomes a `?`. `order`
 * contains the number of the parameter for each `?`, counted from 1.
 */
export interface Positional {
  readonly text: string;
  readonly order: readonly number[];
}

/**
 * Replaces numbered parameters by `?`. `literal` is the driver's notation for a question mark that is not a parameter.
 */
export function positional(text: string, literal = '?'): Positional {
  const order: number[] = [];
  // Quoted names and texts stay unchanged, except for question marks, which the driver would treat as parameters.
  const marked = text.replace(/("[^"]*"|'[^']*')|\$(\d+)/g, (_, quoted: string | undefined, number: string) => {
    if (quoted !== undefined) return quoted.replaceAll('?', literal);
    order.push(Number(number));
    return '?';
  });
  return { text: marked, order };
}
