import { HoldfastError } from './errors.js';
import { hideUrl, show } from './options.js';

/** A length of time in the public API: milliseconds, or a string such as `'30s'`, `'3 days'`, `'1h 30m'`. */
export type Duration = number | string;

type OneUnit =
  | 'ms'
  | 's'
  | 'sec'
  | 'second'
  | 'm'
  | 'min'
  | 'minute'
  | 'h'
  | 'hr'
  | 'hour'
  | 'd'
  | 'day'
  | 'w'
  | 'week';
type Unit = OneUnit | `${OneUnit | 'millisecond'}s` | 'millisecond';
type OnePart = `${number}${Unit}` | `${number} ${Unit}`;

/** A string that starts like a length of time. The part after the first unit is checked only at run time. */
type WrittenDuration = OnePart | `${OnePart}${' ' | ''}${number}${string}`;

/**
 * `Given`, unless it is a literal string that is not a duration: `'tomorrow'`, `'10 parsecs'`. A value of the type
 * `string` is checked at run time. This includes the options of `const options = { timeout: '1h' }`, whose type is
 * `string`.
 */
export type CheckedDuration<Given extends Duration> = Given extends number
  ? Given
  : string extends Given
    ? Given
    : Lowercase<Given & string> extends WrittenDuration
      ? Given
      : OnePart;

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  millisecond: 1,
  s: 1000,
  sec: 1000,
  second: 1000,
  m: 60_000,
  min: 60_000,
  minute: 60_000,
  h: 3_600_000,
  hr: 3_600_000,
  hour: 3_600_000,
  d: 86_400_000,
  day: 86_400_000,
  w: 604_800_000,
  week: 604_800_000,
};

/** About 10,000 years. A longer duration would overflow the instant to which it is added. */
const longestMs = 315_576_000_000_000;

/**
 * Returns the milliseconds of a duration. Throws a typed error that starts with `what` if the value is not a duration.
 */
export function parseDuration(value: Duration, what: string): number {
  const ms = typeof value === 'number' ? value : typeof value === 'string' ? parseText(value) : Number.NaN;
  if (ms >= 0 && ms <= longestMs) return Math.ceil(ms);
  throw new HoldfastError(
    'INVALID_DURATION',
    `${what} must be a length of time, but it is ${show(value)}. ` +
      'Give milliseconds from 0 up, or a string such as "500ms", "30s", "5m", "1h 30m", "3 days".',
    { details: { value: hideUrl(value) } },
  );
}

function parseText(text: string): number {
  let total = 0;
  let remaining = text.trim().toLowerCase();
  if (remaining === '') return Number.NaN;
  while (remaining !== '') {
    const match = /^(\d+(?:\.\d+)?)\s*([a-z]+)\s*/.exec(remaining);
    if (!match) return Number.NaN;
    const unit = match[2] ?? '';
    const ms = unitMs[unit] ?? (unit.endsWith('s') ? unitMs[unit.slice(0, -1)] : undefined);
    if (ms === undefined) return Number.NaN;
    total += Number(match[1]) * ms;
    remaining = remaining.slice(match[0].length);
  }
  return total;
}
