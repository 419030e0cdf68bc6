/**
 * When a schedule ticks: which cron expressions are taken, and what becomes of a tick on the day that clocks are changed.
 *
 * Croner finds the wall times that an expression names. It is shown no time zone: it leaves out the repeated hour, and
 * can go back in time at a gap. `Zone` maps wall times to instants, by one of two rules:
 *
 * 1. **Fixed times** (`30 2 * * *`). A tick is the first instant at which the zone's clock has reached the wall time. In
 *    the gap of spring that is the shift itself, once, however many wall times the gap swallows. In the repeated hour of
 *    autumn it is the first of the two.
 * 2. **Paced** crons, whose hour is a wildcard or a step over the whole day (`0 * * * *`, `0 *\/2 * * *`). A tick is every
 *    instant at which the zone's clock shows the wall time: both times in the repeated hour, never in the gap.
 *
 * A wall time is written as the epoch milliseconds that it would be in UTC.
 */
import { Cron as Croner } from 'croner';
import { describeError, type ErrorOptions, HoldfastError } from './errors.js';
import { show } from './options.js';
import { didYouMean } from './suggest.js';

export interface Cron {
  readonly expression: string;
  /** An IANA name, as it was given. */
  readonly timezone: string;
  /** The first tick strictly after this instant, or undefined if there is none before the year 3000. */
  next(after: number): number | undefined;
  /** Ticks in (after, until], oldest first: the first `limit` of them. */
  between(after: number, until: number, limit: number): number[];
  /** Ticks in (after, until], oldest first: the last `limit` of them. The time it takes does not grow with the range. */
  latest(after: number, until: number, limit: number): number[];
}

/**
 * Five fields (minute hour day month weekday) or six (second first), each `*`, a number, a range `1-5`, a step `*\/15` or
 * `10-40/5`, or a list of these. Months and weekdays have English names of three letters; Sunday is 0 and 7. Beyond that
 * the day may be `L` (the last), `15W` (the working day nearest to the 15th, in the same month) or `LW`, and a weekday
 * `5#2` (the second Friday) or `5L` (the last one); a day or weekday `?` means `*`. `@yearly`, `@annually`, `@monthly`,
 * `@weekly`, `@daily`, `@midnight` and `@hourly` stand for what they do elsewhere.
 *
 * If both day and weekday are restricted, a date that matches either of them is taken. As in Vixie cron, a field that
 * begins with `*` does not restrict: in `0 0 *\/2 * MON` both must match, which leaves the Mondays with an odd date.
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

  /** The last tick in (after, until], looked for in the last `reachMs` first, and then ever further back. */
  private last(after: number, until: number, reachMs: number): number | undefined {
    for (let backMs = reachMs; ; backMs *= 4) {
      const start = Math.max(after, until - backMs);
      const tick = this.nextUpTo(start, until);
      if (tick !== undefined) return this.lastFrom(tick, until);
      if (start === after) return undefined;
    }
  }

  /** The last tick up to `until`, given one: each round takes one step and halves what is left to search. */
  private lastFrom(first: number, until: number): number {
    let tick = first;
    let end = until; // none in (end, until]
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
    const wall = this.wallTimes.from(this.zone.furthestWall(after) + 1);
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

/** The wall times that an expression names. */
class WallTimes {
  private readonly croner: Croner;
  /** The first time of day. */
  private readonly earliestMs: number;

  constructor(expression: string, fields: Fields) {
    const options = { utcOffset: 0, domAndDow: fields[3].startsWith('*') || fields[5].startsWith('*') };
    const pattern = fields.join(' ');
    let first: Date | null;
    try {
      // These years have every date on every weekday. Without them Croner would look for a 30 February until the year
      // 3000, and run out of stack on the way.
      first = new Croner(`${pattern} 2000-2027`, { ...options }).nextRun(new Date(Date.UTC(1999, 11, 31)));
    } catch (cause) {
      throw invalidCron(expression, describeError(cause), { cause });
    }
    if (first === null) throw invalidCron(expression, 'no date ever matches it');
    this.earliestMs = first.getTime() % dayMs;
    this.croner = new Croner(pattern, options);
  }

  /** The first one that is not before `wall`. */
  from(wall: number): number | undefined {
    const found = this.croner.nextRun(new Date(Math.floor(wall) - 1))?.getTime();
    return found === undefined ? undefined : (this.missedInMarch(wall, found) ?? found);
  }

  /** Croner takes 31 February for 3 March, and goes on from there: `0 0 1,31 * *` would lose 1 March. */
  private missedInMarch(from: number, until: number): number | undefined {
    for (let year = new Date(from).getUTCFullYear(); Date.UTC(year, 2, 1) < until; year++) {
      for (const day of [1, 2]) {
        const wall = Date.UTC(year, 2, day) + this.earliestMs;
        if (wall >= from && wall < until && this.croner.match(new Date(wall))) return wall;
      }
    }
    return undefined;
  }
}

/** No two shifts of a zone share a span: the closest two since 1970 are a week apart (Recife, October 2000). */
const spanMs = 4 * dayMs;

/** Four days of a zone: its offset from UTC until `shiftAt`, and from then on. Infinity if it stays the same. */
interface Span {
  readonly offsetMs: number;
  readonly shiftAt: number;
  readonly shiftedMs: number;
}

/** The clock of a time zone. Spans are kept: to ask Intl each time would double the time that a tick takes. */
class Zone {
  private readonly format: Intl.DateTimeFormat;
  private readonly spans = new Map<number, Span>();

  constructor(timezone: string) {
    this.format = new Intl.DateTimeFormat('en-US', { timeZone: timezone, timeZoneName: 'longOffset' });
  }

  /** What the zone's clock is ahead of UTC at this instant. */
  offsetAt(at: number): number {
    const span = this.span(Math.floor(at / spanMs));
    return at < span.shiftAt ? span.offsetMs : span.shiftedMs;
  }

  /** The first instant in (after, until] at which the offset changes. */
  shiftIn(after: number, until: number): number | undefined {
    for (let index = Math.floor(after / spanMs); index * spanMs <= until; index++) {
      const { shiftAt } = this.span(index);
      if (shiftAt > after && shiftAt <= until) return shiftAt;
    }
    return undefined;
  }

  /** The latest wall time shown up to this instant: in a repeated hour that is its end, not what the clock shows. */
  furthestWall(at: number): number {
    const wall = at + this.offsetAt(at);
    const shiftAt = this.shiftIn(at - dayMs, at);
    return shiftAt === undefined ? wall : Math.max(wall, shiftAt - 1 + this.offsetAt(shiftAt - 1));
  }

  /** The first instant at which the clock shows this wall time or, if it leaves it out, a later one. */
  firstReached(wall: number): number {
    let from = wall - dayMs; // no zone is a day ahead, so it is not reached yet
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
    const offsetMs = this.askOffset(index * spanMs);
    const shiftedMs = this.askOffset((index + 1) * spanMs);
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
      if (this.askOffset(middle) === offsetMs) before = middle;
      else shifted = middle;
    }
    return shifted;
  }

  private askOffset(at: number): number {
    // "1/31/2027, GMT-05:00"; some versions of ICU write zero as "GMT".
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

/** ICU knows more abbreviations than IANA has, and means by them what nobody expects: its BST is in Bangladesh. */
const abbreviations = ['UTC', 'GMT', 'UCT', 'EST', 'MST', 'HST', 'CET', 'MET', 'EET', 'WET', 'PRC', 'ROC', 'ROK'];

/** What Intl need not be asked about, and would take: an offset such as "+02:00" in newer versions of Node. */
function looksLikeTimezone(timezone: unknown): timezone is string {
  if (typeof timezone !== 'string' || !/^[a-z]/i.test(timezone)) return false;
  return timezone.length !== 3 || abbreviations.includes(timezone.toUpperCase());
}

function invalidTimezone(timezone: unknown, options: ErrorOptions = {}): HoldfastError {
  return new HoldfastError(
    'INVALID_TIMEZONE',
    `${show(timezone)} is not a time zone.${suggestTimezone(timezone)} Give an IANA name such as "Europe/Berlin" or ` +
      '"UTC". An offset or an abbreviation does not say when clocks are changed.',
    { ...options, details: { timezone } },
  );
}

/** Nothing for an offset, to which the nearest name is "UTC". */
function suggestTimezone(timezone: unknown): string {
  if (typeof timezone !== 'string' || timezone.length > 64 || /[+-]\d/.test(timezone)) return '';
  const known = ['UTC', ...Intl.supportedValuesOf('timeZone')];
  const city = `/${timezone.trim().replaceAll(' ', '_').toLowerCase()}`;
  return didYouMean(known.find((name) => name.toLowerCase().endsWith(city)) ?? timezone, known);
}

/** second minute hour day month weekday, with names as numbers. */
type Fields = readonly [string, string, string, string, string, string];

interface FieldRule {
  readonly name: string;
  readonly least: number;
  readonly most: number;
  readonly names?: readonly string[];
  readonly special?: RegExp;
}

const fieldRules: readonly FieldRule[] = [
  { name: 'second', least: 0, most: 59 },
  { name: 'minute', least: 0, most: 59 },
  { name: 'hour', least: 0, most: 23 },
  { name: 'day', least: 1, most: 31, special: /^(?:LW?|(\d{1,2})W)$/i },
  { name: 'month', least: 1, most: 12, names: 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ') },
  {
    name: 'weekday',
    least: 0,
    most: 7,
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
  if (typeof expression !== 'string') throw invalidCron(expression, 'it is not a text');
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
      if (problem) throw invalidCron(expression, `the ${rule.name} is "${field}", and ${problem}`);
    }
    return numeric;
  });
  return fields as unknown as Fields;
}

/** Says what to write in the place of what other systems have. */
function nicknameProblem(given: string): string {
  const known = `of such names there are ${[...nicknames.keys()].join(', ')}`;
  if (given.startsWith('@every')) return `${known}; a pace is a step, such as "*/5 * * * *" for every five minutes`;
  return given === '@reboot' ? `${known}; what is to run when a process starts is a call after launch()` : known;
}

/** `sat-sun` becomes `6-7`: there Sunday is the end of the week. */
function namesToNumbers(field: string, { names = [], least }: FieldRule): string {
  return field.replace(/(-?)\b([a-z]{3})(?=l?\b)/g, (all, dash: string, name: string) => {
    const at = names.indexOf(name);
    return at < 0 ? all : `${dash}${dash && name === 'sun' ? 7 : at + least}`;
  });
}

/** Croner is laxer: it reads `1*5` as 1, `janfeb` as December and `15L` as the 15th and the last. */
function itemProblem(item: string, { least, most, special }: FieldRule): string | undefined {
  const match = special?.exec(item) ?? plainItem.exec(item);
  if (!match)
    return `takes "*", a number, a range "${least}-${most}", a step "*/2" or "${least}-${most}/2", or a list of these`;
  const [, single, first, last, step] = match;
  const outside = [single, first, last].some((value) => value && (Number(value) < least || Number(value) > most));
  if (outside) return `goes from ${least} to ${most}`;
  if (Number(first) > Number(last)) return 'a range goes upwards';
  if (Number(step) === 0) return 'a step is at least 1';
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
