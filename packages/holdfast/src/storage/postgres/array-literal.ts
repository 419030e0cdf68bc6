/** One column of a batch as the text of an array. The driver could write it too, at several times the cost. */
export function columnLiteral<T extends object>(rows: readonly T[], column: keyof T): string {
  let text = '';
  for (const row of rows) text += element(row[column]);
  return `{${text.slice(1)}}`;
}

/** A list of values as the text of an array. */
export function arrayLiteral(values: readonly unknown[]): string {
  return `{${values.map(element).join('').slice(1)}}`;
}

function element(value: unknown): string {
  if (value === null || value === undefined) return ',NULL';
  return typeof value === 'string' ? `,"${special.test(value) ? escaped(value) : value}"` : `,${value}`;
}

const special = /["\\]/;

function escaped(text: string): string {
  return text.replace(/["\\]/g, '\\$&');
}
