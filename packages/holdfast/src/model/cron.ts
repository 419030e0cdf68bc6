/**
 * The ticks of schedules: the accepted cron expressions, and the instants of their ticks, also around shifts (clock
 * changes). Croner finds the wall times that match an expression. It gets no time zone: with a time zone, it leaves out
 * the repeated hour of autumn and can go back in time at a gap. `Zone` maps wall times to instants, by two rules:
 *
 * 1. **Fixed times** (`30 2 * * *`). A tick is the first instant at which the zone's clock has reached the wall time.
 *    In the gap of spring the tick is the shift itself, once, even if the gap skips several wall times. In the hour
 *    that is repeated in autumn, the tick is the first of the two instants.
 * 2. **Paced** crons, whose hour is a wildcard or a step over the whole day (`0 * * * *`, `0 *\/2 * * *`). A tick is
 *    every instant at which the zone's clock shows the wall time: twice in the repeated hour, never in the gap.
 *
 * The code represents a wall time by the epoch milliseconds of the same date and time in UTC.
 */
import { Cron as Croner } from 'croner';
import { describeError, type ErrorOptions, HoldfastError } from './errors.js';
import { show } from './options.js';
import { didYouMean } from './suggest.js';

export interface Cron {
  readonly expression: string;
  /** The IANA name that was given. */
  readonly timezone: string;
  /** Returns the first tick strictly after this instant, or undefined if there is none before the year 3000. */
  next(after: number): number | undefined;
  /** Returns the first `limit` ticks in (after, until], oldest first. */
  between(after: number, until: number, limit: number): number[];
  /** Returns the last `limit` ticks in (after, until], oldest first. The time needed does not grow with the range. */
  latest(after: number, until: number, limit: number): number[];
}

/**
 * Parses a cron expression of five fields (minute hour day month weekday) or six fields (second first). Each field is
 * `*`, a number, a range `1-5`, a step `*\/15` or `10-40/5`, or a list of these. Months and weekdays have English
 * names of three letters; Sunday is 0 and 7. The day may also be `L` (the last day), `15W` (the working day nearest to
 * the 15th, in the same month) or `LW`. The weekday may also be `5#2` (the second Friday) or `5L` (the last Friday).
 * `?` as day or weekday means `*`. `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight` and `@hourly`
 * have their usual meaning.
 *
 * If both day and weekday are restricted, a date that matches one of them is enough. As in Vixie cron, a field that
 * starts with `*` does not restrict. In `0 0 *\/2 * MON` both fields must match, which selects Mondays on odd dates.
 */
export function parseCron(expression: string, timezone = 'UTC'): Cron {
  const fields = parseFields(expression);
  return new ZonedCron(expression, timezone, fields, zoneNamed(timezone));
}

class ZonedCron implements Cron {
  readonly expression: string;
  readonly timezone: string;
  private readonly zone: Zone;
  private readonly wallTimes: WallTimes;
  private readonly paced: boolean;

  constructor(expression: string, timezone: string, fields: Fields, zone: Zone) {
    this.expression = expression;
    this.timezone = timezone;
    this.zone = zone;
    this.wallTimes = new WallTimes(expression, fields);
    this.paced = /^(\*|0-23)(\/\d+)?$/.test(fields[2]);
  }

  next(after: number): number | undefined {
    return this.paced ? this.nextPaced(after) : this.nextFixed(after);
  }

  between(after: number, until: number, limit: number): number[] {
    const ticks: number[] = [];
    let tick = this.next(after);
    while (tick !== undefined && tick <= until && ticks.length < limit) {
      ticks.push(tick);
      tick = this.next(tick);
    }
    return ticks;
  }

  latest(after: number, until: number, limit: number): number[] {
    const ticks: number[] = [];
    let end = until;
    let reachMs = 1000;
    while (ticks.length < limit) {
      const tick = this.last(after, end, reachMs);
      if (tick === undefined) break;
      ticks.push(tick);
      reachMs = end - tick + 1;
      end = tick - 1;
    }
    return ticks.reverse();
  }

  /** Returns the last tick in (after, until]. Searches the last `reachMs` first, and then longer and longer ranges. */
  private last(after: number, until: number, reachMs: number): number | undefined {
    for (let backMs = reachMs; ; backMs *= 4) {
      const start = Math.max(after, until - backMs);
      const tick = this.nextUpTo(start, until);
      if (tick !== undefined) return this.lastFrom(tick, until);
      if (start === after) return undefined;
    }
  }

  /** Returns the last tick up to `until`, given an earlier tick. Each round steps once and halves the search range. */
  private lastFrom(first: number, until: number): number {
    let tick = first;
    let end = until; // no tick in (end, until]
    for (;;) {
      const following = this.nextUpTo(tick, end);
      if (following === undefined) return tick;
      tick = following;
      const middle = Math.floor((tick + end) / 2);
      const later = this.nextUpTo(middle, end);
      if (later === undefined) end = middle;
      else tick = later;
    }
  }

  private nextUpTo(after: number, until: number): number | undefined {
    const tick = this.next(after);
    return tick !== undefined && tick <= until ? tick : undefined;
  }

  private nextFixed(after: number): number | undefined {
    const wall = this.wallTimes.from(this.zone.latestWall(after) + 1);
    return wall === undefined ? undefined : this.zone.firstReached(wall);
  }

  private nextPaced(after: number): number | undefined {
    let from = after + 1;
    for (;;) {
      const offsetMs = this.zone.offsetAt(from);
      const wall = this.wallTimes.from(from + offsetMs);
      if (wall === undefined) return undefined;
      const tick = wall - offsetMs;
      const shiftAt = this.zone.shiftIn(from, tick);
      if (shiftAt === undefined) return tick;
      from = shiftAt;
    }
  }
}

const dayMs = 86_400_000;

/** The wall times that match an expression. */
class WallTimes {
  private readonly croner: Croner;
  /** The earliest matching time of day, in milliseconds. */
  private readonly earliestMs: number;

  constructor(expression: string, fields: Fields) {
    const options = { utcOffset: 0, domAndDow: fields[3].startsWith('*') || fields[5].startsWith('*') };
    const pattern = fields.join(' ');
    let first: Date | null;
    try {
      // Within these years every date falls on every weekday. Without this limit Croner would search for 30 February
      // up to the year 3000, and overflow the stack.
      first = new Croner(`${pattern} 2000-2027`, { ...options }).nextRun(new Date(Date.UTC(1999, 11, 31)));
    } catch (cause) {
      throw invalidCron(expression, describeError(cause), { cause });
    }
    if (first === null) throw invalidCron(expression, 'no date ever matches it');
    this.earliestMs = first.getTime() % dayMs;
    this.croner = new Croner(pattern, options);
  }

  /** Returns the first matching wall time that is not before `wall`. */
  from(wall: number): number | undefined {
    const found = this.croner.nextRun(new Date(Math.floor(wall) - 1))?.getTime();
    return found === undefined ? undefined : (this.skippedInMarch(wall, found) ?? found);
  }

  /** Croner reads 31 February as 3 March and continues from there, so `0 0 1,31 * *` would lose 1 March. */
  private skippedInMarch(from: number, until: number): number | undefined {
    for (let year = new Date(from).getUTCFullYear(); Date.UTC(year, 2, 1) < until; year++) {
      for (const day of [1, 2]) {
        const wall = Date.UTC(year, 2, day) + this.earliestMs;
        if (wall >= from && wall < until && this.croner.match(new Date(wall))) return wall;
      }
    }
    return undefined;
  }
}

/** A span has at most one shift: since 1970 two shifts of a zone are at least a week apart (Recife, October 2000). */
const spanMs = 4 * dayMs;

/** Four days of a zone: its UTC offset before `shiftAt` and from then on. Infinity means that there is no shift. */
interface Span {
  readonly offsetMs: number;
  readonly shiftAt: number;
  readonly shiftedMs: number;
}

/** The clock of a time zone. Spans are cached, because asking Intl each time would double the time for a tick. */
class Zone {
  private readonly format: Intl.DateTimeFormat;
  private readonly spans = new Map<number, Span>();

  constructor(timezone: string) {
    this.format = new Intl.DateTimeFormat('en-US', { timeZone: timezone, timeZoneName: 'longOffset' });
  }

  /** Returns the milliseconds by which the zone's clock is ahead of UTC at this instant. */
  offsetAt(at: number): number {
    const span = this.span(Math.floor(at / spanMs));
    return at < span.shiftAt ? span.offsetMs : span.shiftedMs;
  }

  /** Returns the first instant in (after, until] at which the offset changes. */
  shiftIn(after: number, until: number): number | undefined {
    for (let index = Math.floor(after / spanMs); index * spanMs <= until; index++) {
      const { shiftAt } = this.span(index);
      if (shiftAt > after && shiftAt <= until) return shiftAt;
    }
    return undefined;
  }

  /** Returns the latest wall time shown up to this instant. While an hour is repeated, it is the end of that hour. */
  latestWall(at: number): number {
    const wall = at + this.offsetAt(at);
    const shiftAt = this.shiftIn(at - dayMs, at);
    return shiftAt === undefined ? wall : Math.max(wall, shiftAt - 1 + this.offsetAt(shiftAt - 1));
  }

  /** Returns the first instant at which the clock shows this wall time or, if it skips this time, a later one. */
  firstReached(wall: number): number {
    let from = wall - dayMs; // no zone is a day ahead of UTC, so the clock has not reached the wall time yet
    for (;;) {
      const at = wall - this.offsetAt(from);
      const shiftAt = this.shiftIn(from, at);
      if (shiftAt === undefined) return Math.max(from, at);
      from = shiftAt;
    }
  }

  private span(index: number): Span {
    const known = this.spans.get(index);
    if (known) return known;
    const offsetMs = this.readOffset(index * spanMs);
    const shiftedMs = this.readOffset((index + 1) * spanMs);
    const shiftAt = offsetMs === shiftedMs ? Number.POSITIVE_INFINITY : this.findShift(index * spanMs, offsetMs);
    const span = { offsetMs, shiftAt, shiftedMs };
    this.spans.set(index, span);
    return span;
  }

  private findShift(start: number, offsetMs: number): number {
    let before = start;
    let shifted = start + spanMs;
    while (shifted - before > 1000) {
      const middle = before + Math.floor((shifted - before) / 2000) * 1000;
      if (this.readOffset(middle) === offsetMs) before = middle;
      else shifted = middle;
    }
    return shifted;
  }

  private readOffset(at: number): number {
    // The format is "1/31/2027, GMT-05:00". Some versions of ICU write a zero offset as "GMT".
    const match = /([+-])(\d\d):(\d\d)(?::(\d\d))?$/.exec(this.format.format(at));
    if (!match) return 0;
    const [, sign, hours, minutes, seconds = 0] = match;
    const offsetMs = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000;
    return sign === '-' ? -offsetMs : offsetMs;
  }
}

const zones = new Map<string, Zone>();

function zoneNamed(timezone: unknown): Zone {
  if (!looksLikeTimezone(timezone)) throw invalidTimezone(timezone);
  const known = zones.get(timezone);
  if (known) return known;
  try {
    const zone = new Zone(timezone);
    zones.set(timezone, zone);
    return zone;
  } catch (cause) {
    throw invalidTimezone(timezone, { cause });
  }
}

/** The abbreviations of IANA. ICU knows more, with unexpected meanings: for ICU, BST is Bangladesh time. */
const abbreviations = ['UTC', 'GMT', 'UCT', 'EST', 'MST', 'HST', 'CET', 'MET', 'EET', 'WET', 'PRC', 'ROC', 'ROK'];

/** Returns false for texts that only Intl accepts, such as the offset "+02:00" in newer versions of Node. */
function looksLikeTimezone(timezone: unknown): timezone is string {
  if (typeof timezone !== 'string' || !/^[a-z]/i.test(timezone)) return false;
  return timezone.length !== 3 || abbreviations.includes(timezone.toUpperCase());
}

function invalidTimezone(timezone: unknown, options: ErrorOptions = {}): HoldfastError {
  return new HoldfastError(
    'INVALID_TIMEZONE',
    `${show(timezone)} is not a time zone.${suggestTimezone(timezone)} Give an IANA name such as "Europe/Berlin" or ` +
      '"UTC". An offset or an abbreviation does not say when the clocks change.',
    { ...options, details: { timezone } },
  );
}

/** Suggests a time zone. For an offset it suggests nothing, because the nearest name would be "UTC". */
function suggestTimezone(timezone: unknown): string {
  if (typeof timezone !== 'string' || timezone.length > 64 || /[+-]\d/.test(timezone)) return '';
  const known = ['UTC', ...Intl.supportedValuesOf('timeZone')];
  const city = `/${timezone.trim().replaceAll(' ', '_').toLowerCase()}`;
  return didYouMean(known.find((name) => name.toLowerCase().endsWith(city)) ?? timezone, known);
}

/** Second, minute, hour, day, month and weekday. Names are replaced by numbers. */
type Fields = readonly [string, string, string, string, string, string];

interface FieldRule {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly names?: readonly string[];
  readonly special?: RegExp;
}

const fieldRules: readonly FieldRule[] = [
  { name: 'second', min: 0, max: 59 },
  { name: 'minute', min: 0, max: 59 },
  { name: 'hour', min: 0, max: 23 },
  { name: 'day', min: 1, max: 31, special: /^(?:LW?|(\d{1,2})W)$/i },
  { name: 'month', min: 1, max: 12, names: 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ') },
  {
    name: 'weekday',
    min: 0,
    max: 7,
    names: 'sun mon tue wed thu fri sat'.split(' '),
    special: /^(\d)(?:L|#[1-5])$/i,
  },
];

const plainItem = /^(?:(\d{1,2})|(?:\*|(\d{1,2})-(\d{1,2}))(?:\/(\d{1,2}))?)$/;

const nicknames = new Map([
  ['@yearly', '0 0 1 1 *'],
  ['@annually', '0 0 1 1 *'],
  ['@monthly', '0 0 1 * *'],
  ['@weekly', '0 0 * * 0'],
  ['@daily', '0 0 * * *'],
  ['@midnight', '0 0 * * *'],
  ['@hourly', '0 * * * *'],
]);

function parseFields(expression: unknown): Fields {
  if (typeof expression !== 'string') throw invalidCron(expression, 'it is not a string');
  const text = expression.trim().toLowerCase();
  if (text.startsWith('@') && !nicknames.has(text)) throw invalidCron(expression, nicknameProblem(text));
  const given = (nicknames.get(text) ?? text).split(/[ \t]+/);
  if (given.length < 5 || given.length > 6) {
    const count = text === '' ? 'no fields' : given.length === 1 ? 'one field' : `${given.length} fields`;
    throw invalidCron(expression, `it has ${count}`);
  }
  const fields = (given.length === 5 ? ['0', ...given] : given).map((field, at) => {
    const rule = fieldRules[at] as FieldRule;
    const numeric = field === '?' && rule.special ? '*' : namesToNumbers(field, rule);
    for (const item of numeric.split(',')) {
      const problem = itemProblem(item, rule);
      if (problem) throw invalidCron(expression, `the ${rule.name} is "${field}", but ${problem}`);
    }
    return numeric;
  });
  return fields as unknown as Fields;
}

/** Explains what to write instead of nicknames that other systems have. */
function nicknameProblem(given: string): string {
  const known = `the known nicknames are ${[...nicknames.keys()].join(', ')}`;
  if (given.startsWith('@every')) return `${known}; for an interval use a step: "*/5 * * * *" is every five minutes`;
  return given === '@reboot' ? `${known}; to run something when a process starts, call it after launch()` : known;
}

/** Replaces names by numbers. `sat-sun` becomes `6-7`: at the end of a range, Sunday is 7. */
function namesToNumbers(field: string, { names = [], min }: FieldRule): string {
  return field.replace(/(-?)\b([a-z]{3})(?=l?\b)/g, (all, dash: string, name: string) => {
    const at = names.indexOf(name);
    return at < 0 ? all : `${dash}${dash && name === 'sun' ? 7 : at + min}`;
  });
}

/** Describes what is wrong with an item. Croner is less strict: it reads `1*5` as 1, and `janfeb` as December. */
function itemProblem(item: string, { min, max, special }: FieldRule): string | undefined {
  const match = special?.exec(item) ?? plainItem.exec(item);
  if (!match)
    return `must be "*", a number, a range "${min}-${max}", a step "*/2" or "${min}-${max}/2", or a list of these`;
  const [, single, first, last, step] = match;
  const outside = [single, first, last].some((value) => value && (Number(value) < min || Number(value) > max));
  if (outside) return `must be from ${min} to ${max}`;
  if (Number(first) > Number(last)) return 'a range must go upwards';
  if (Number(step) === 0) return 'a step must be at least 1';
  return undefined;
}

function invalidCron(expression: unknown, problem: string, options: ErrorOptions = {}): HoldfastError {
  return new HoldfastError(
    'INVALID_CRON',
    `The cron expression ${show(expression)} cannot be used: ${problem}. Give five fields (minute hour day month weekday) ` +
      'or six (second first), such as "30 2 * * MON-FRI" for 02:30 on working days.',
    { ...options, details: { expression } },
  );
}
