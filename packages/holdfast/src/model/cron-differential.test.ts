/**
 * Compares ten years of ticks with a second cron library, and random crons with a wall clock that is read minute by
 * minute. The expected ticks are not computed by Croner or by functions of cron.ts.
 */
import { CronExpressionParser } from 'cron-parser';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseCron } from './cron.js';

const secondMs = 1000;
const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;
const from = Date.UTC(2026, 0, 1);
const until = Date.UTC(2036, 0, 1);

const ours = (expression: string, timezone: string, after = from, end = until) =>
  parseCron(expression, timezone).between(after, end, Number.POSITIVE_INFINITY);

/** The ticks of cron-parser in (after, end]. */
function theirs(expression: string, timezone: string, after = from, end = until): number[] {
  const iterator = CronExpressionParser.parse(expression, { tz: timezone, currentDate: new Date(after) });
  const ticks: number[] = [];
  for (let tick = iterator.next().getTime(); tick <= end; tick = iterator.next().getTime()) ticks.push(tick);
  return ticks;
}

/**
 * The ticks of the other library. On the days (in UTC) of the table, where its policy differs, the tick is from the
 * table.
 */
function corrected(ticks: readonly number[], table: ReadonlyMap<string, string>): number[] {
  const kept = ticks.filter((tick) => !table.has(new Date(tick).toISOString().slice(0, 10)));
  return [...kept, ...[...table.values()].map(Date.parse)].sort((a, b) => a - b);
}

describe('ten years of ticks equal those of cron-parser', () => {
  it.each([
    ['0 0 29 2 *', 'UTC', 2],
    ['0 0 29 2 *', 'America/New_York', 2],
    ['0 0 31 * *', 'UTC', 70],
    ['0 0 31 * *', 'Europe/Berlin', 70],
    ['0 0 1,31 * *', 'UTC', 190],
    ['0 0 */10 * *', 'Europe/Berlin', 430],
    ['0 12 13 * 5', 'UTC', 625],
    ['0 9 * * 1#1', 'UTC', 120],
    ['0 9 * * 5L', 'UTC', 120],
    ['0 9 L * *', 'UTC', 120],
  ])('%s in %s', (expression, timezone, count) => {
    const ticks = ours(expression, timezone);
    expect(ticks).toEqual(theirs(expression, timezone));
    expect(ticks).toHaveLength(count);
  });

  it('30 2 * * * in America/New_York, except in the gap: ours runs at the shift, theirs an hour later', () => {
    // The shift is at 02:00 EST (07:00 UTC) on the second Sunday of March.
    const shifts =
      '2026-03-08 2027-03-14 2028-03-12 2029-03-11 2030-03-10 2031-03-09 2032-03-14 2033-03-13 2034-03-12 2035-03-11';
    const table = new Map(shifts.split(' ').map((day) => [day, `${day}T07:00:00Z`]));
    const ticks = ours('30 2 * * *', 'America/New_York');
    expect(ticks).toEqual(corrected(theirs('30 2 * * *', 'America/New_York'), table));
    expect(ticks).toHaveLength(3652);
  });

  it.each([
    ['30 2 * * *', 'at the end of the gap'],
    ['45 1 * * *', 'in the repeated half hour'],
  ])('%s in Australia/Lord_Howe, which is %s', (expression) => {
    const ticks = ours(expression, 'Australia/Lord_Howe');
    expect(ticks).toEqual(theirs(expression, 'Australia/Lord_Howe'));
    expect(ticks).toHaveLength(3652);
  });
});

/**
 * Ten years of `*\/7 * * * * *` are 47 million ticks. The offset of New York is a whole number of hours, so the ticks
 * are the seconds 0, 7 ... 56 of every UTC minute. This closed form is compared with next() at the start of every hour
 * of the ten years. It is also compared with every tick on days with a shift and on random days. The ticks of
 * cron-parser are compared within 30 minutes of each shift, and of the start and the end of the ten years.
 */
describe('*/7 * * * * * in America/New_York', () => {
  const expression = '*/7 * * * * *';
  const timezone = 'America/New_York';
  const shifts = shiftsOf(timezone);

  function closedForm(after: number, end: number): number[] {
    const ticks: number[] = [];
    for (let minute = after - (after % minuteMs); minute <= end; minute += minuteMs) {
      for (let second = 0; second < 60; second += 7) ticks.push(minute + second * secondMs);
    }
    return ticks.filter((tick) => tick > after && tick <= end);
  }

  it('has two shifts a year', () => {
    expect(shifts).toHaveLength(20);
  });

  it('begins every hour of ten years with the seconds 0 and 7, after 56', () => {
    const cron = parseCron(expression, timezone);
    for (let hour = from; hour < until; hour += hourMs) {
      const ticks = [cron.next(hour - 5 * secondMs), cron.next(hour - 1), cron.next(hour)];
      if (ticks[0] === hour - 4 * secondMs && ticks[1] === hour && ticks[2] === hour + 7 * secondMs) continue;
      expect.fail(`${new Date(hour).toISOString()}: ${ticks.join(', ')}`);
    }
  });

  it('has the ticks of the closed form on days with a shift and on random days', () => {
    const randomDays = fc.sample(fc.integer({ min: 0, max: 3651 }), 10).map((days) => from + days * dayMs);
    for (const day of [...shifts.map((shift) => shift - (shift % dayMs)), ...randomDays]) {
      const same = sameNumbers(ours(expression, timezone, day, day + dayMs), closedForm(day, day + dayMs));
      expect(same, new Date(day).toISOString()).toBe(true);
    }
  });

  it('has the ticks of cron-parser around every shift, and at the start and the end', () => {
    for (const middle of [from, ...shifts, until]) {
      const [after, end] = [middle - hourMs / 2, middle + hourMs / 2];
      const same = sameNumbers(ours(expression, timezone, after, end), theirs(expression, timezone, after, end));
      expect(same, new Date(after).toISOString()).toBe(true);
    }
  });
});

function sameNumbers(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i]);
}

/** Returns the wall clock of a zone, as if it were UTC. The Swedish locale formats dates and times as ISO does. */
function wallClock(timezone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat('sv-SE', {
    ...{ timeZone: timezone, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit' },
    ...{ hour: '2-digit', minute: '2-digit', second: '2-digit' },
  });
  return (at) => Date.parse(`${format.format(at).replace(' ', 'T')}Z`);
}

/** Returns the instants within ten years at which a zone changes its offset, to the quarter of an hour. */
function shiftsOf(timezone: string): number[] {
  const wall = wallClock(timezone);
  const shifts: number[] = [];
  for (let day = from; day < until; day += dayMs) {
    if (wall(day + dayMs) - wall(day) === dayMs) continue;
    for (let at = day; at < day + dayMs; at += hourMs / 4) {
      if (wall(at + hourMs / 4) - wall(at) !== hourMs / 4) shifts.push(at + hourMs / 4);
    }
  }
  return shifts;
}

interface Field {
  readonly text: string;
  readonly matches: (wall: Date) => boolean;
}

/** A random field of a cron expression, together with a function that checks it without parsing. */
function field(min: number, max: number, read: (wall: Date) => number): fc.Arbitrary<Field> {
  const value = fc.integer({ min, max });
  const step = fc.integer({ min: 1, max: max - min });
  const numbers = (text: string, has: (value: number) => boolean): Field => ({
    text,
    matches: (wall) => has(read(wall)),
  });
  const range = fc.tuple(value, value, step).map(([a, b, by]) => {
    const [low, high] = [Math.min(a, b), Math.max(a, b)];
    return by === 1
      ? numbers(`${low}-${high}`, (given) => given >= low && given <= high)
      : numbers(`${low}-${high}/${by}`, (given) => given >= low && given <= high && (given - low) % by === 0);
  });
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant(numbers('*', () => true)) },
    { weight: 2, arbitrary: step.map((by) => numbers(`*/${by}`, (given) => (given - min) % by === 0)) },
    { weight: 3, arbitrary: value.map((only) => numbers(String(only), (given) => given === only)) },
    { weight: 2, arbitrary: range },
    {
      weight: 1,
      arbitrary: fc.tuple(value, range).map(([one, other]) => ({
        text: `${one},${other.text}`,
        matches: (wall: Date) => read(wall) === one || other.matches(wall),
      })),
    },
  );
}

const lastDay = (wall: Date) => new Date(Date.UTC(wall.getUTCFullYear(), wall.getUTCMonth() + 1, 0)).getUTCDate();

/** Returns the working day nearest to a date, within the month of `wall`. Tries the dates around it. */
function nearestWorkingDay(wall: Date, day: number): number | undefined {
  if (day > lastDay(wall)) return undefined;
  return [day, day - 1, day + 1, day - 2, day + 2].find((near) => {
    const weekday = new Date(Date.UTC(wall.getUTCFullYear(), wall.getUTCMonth(), near)).getUTCDay();
    return near >= 1 && near <= lastDay(wall) && weekday !== 0 && weekday !== 6;
  });
}

const day = fc.oneof(
  { weight: 6, arbitrary: field(1, 31, (wall) => wall.getUTCDate()) },
  fc.constant<Field>({ text: 'L', matches: (wall) => wall.getUTCDate() === lastDay(wall) }),
  fc.constant<Field>({ text: 'LW', matches: (wall) => wall.getUTCDate() === nearestWorkingDay(wall, lastDay(wall)) }),
  fc.integer({ min: 1, max: 31 }).map<Field>((near) => ({
    text: `${near}W`,
    matches: (wall) => wall.getUTCDate() === nearestWorkingDay(wall, near),
  })),
);

const weekday = fc.oneof(
  { weight: 6, arbitrary: field(0, 6, (wall) => wall.getUTCDay()) },
  fc.tuple(fc.integer({ min: 0, max: 7 }), fc.integer({ min: 1, max: 5 })).map<Field>(([which, nth]) => ({
    text: `${which}#${nth}`,
    matches: (wall) => wall.getUTCDay() === which % 7 && Math.ceil(wall.getUTCDate() / 7) === nth,
  })),
  fc.integer({ min: 0, max: 7 }).map<Field>((which) => ({
    text: `${which}L`,
    matches: (wall) => wall.getUTCDay() === which % 7 && wall.getUTCDate() + 7 > lastDay(wall),
  })),
);

interface RandomCron {
  readonly expression: string;
  readonly paced: boolean;
  readonly matches: (wall: number) => boolean;
  readonly matchesDate: (wall: Date) => boolean;
}

const hours = (wall: Date) => wall.getUTCHours();
const anyTime = fc.tuple(
  field(0, 59, (wall) => wall.getUTCMinutes()),
  fc.oneof(field(0, 23, hours), field(0, 3, hours)),
);
const anyDate = fc.tuple(
  day,
  field(1, 12, (wall) => wall.getUTCMonth() + 1),
  weekday,
);
const every: Field = { text: '*', matches: () => true };
const anyDay = fc.constant<[Field, Field, Field]>([every, every, every]);

function cronOf([[minute, hour], [dayOfMonth, month, dayOfWeek]]: [[Field, Field], [Field, Field, Field]]): RandomCron {
  const either = !dayOfMonth.text.startsWith('*') && !dayOfWeek.text.startsWith('*');
  const matchesDate = (wall: Date) => {
    const days = [dayOfMonth.matches(wall), dayOfWeek.matches(wall)];
    return month.matches(wall) && (either ? days.includes(true) : !days.includes(false));
  };
  return {
    expression: [minute, hour, dayOfMonth, month, dayOfWeek].map(({ text }) => text).join(' '),
    paced: ['*', '0-23'].includes(hour.text.replace(/\/\d+$/, '')),
    matches: (at: number) => {
      const wall = new Date(at);
      return minute.matches(wall) && hour.matches(wall) && matchesDate(wall);
    },
    matchesDate,
  };
}

const dated = fc.tuple(anyTime, anyDate).map(cronOf);
/** Half of these run daily. Otherwise the hours around a shift would rarely have a tick. */
const nightly = fc.tuple(anyTime, fc.oneof(anyDay, anyDate)).map(cronOf);

const zones = (
  'America/New_York Europe/Berlin Australia/Lord_Howe America/Santiago Africa/Cairo Asia/Beirut Antarctica/Troll ' +
  'Pacific/Chatham Africa/Casablanca Asia/Kathmandu UTC'
).split(' ');
const shiftsByZone = new Map(zones.map((timezone) => [timezone, shiftsOf(timezone)]));

/** A zone and a range of up to a day, usually around a shift. Some ranges start in the repeated hour. */
const nights = fc.constantFrom(...zones).chain((timezone) => {
  const anywhere = fc.integer({ min: 0, max: 3650 }).map((days) => from + days * dayMs);
  const shifts = shiftsByZone.get(timezone) ?? [];
  const starts =
    shifts.length === 0 ? anywhere : fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...shifts) }, anywhere);
  const minutes = fc.integer({ min: -90, max: 720 });
  return fc
    .tuple(starts, minutes)
    .map(([middle, before]) => ({ timezone, after: middle - before * minuteMs, end: middle + dayMs / 2 }));
});

/**
 * Returns the ticks in (after, end] by reading the clock at every minute. The ticks of a paced cron are the minutes
 * that match. The ticks of a fixed time are the minutes at which the clock passes a matching wall time for the first
 * time.
 */
function readClock({ paced, matches }: RandomCron, timezone: string, after: number, end: number): number[] {
  const clock = wallClock(timezone);
  const ticks: number[] = [];
  const start = after - 4 * hourMs; // no repeated stretch is longer
  let furthest = clock(start);
  for (let at = start + minuteMs; at <= end; at += minuteMs) {
    const wall = clock(at);
    let passed = paced && matches(wall);
    for (; furthest < wall; furthest += minuteMs) passed ||= !paced && matches(furthest + minuteMs);
    if (passed && at > after) ticks.push(at);
  }
  return ticks;
}

describe('a random cron in a random zone', () => {
  // Within 28 years every date falls on every weekday.
  const dates = Array.from({ length: 28 * 366 }, (_, days) => new Date(from + days * dayMs));

  /** Returns undefined if the expression is refused. Only an expression without a matching date may be refused. */
  const parse = (given: RandomCron, timezone: string) => {
    try {
      return parseCron(given.expression, timezone);
    } catch (error) {
      if (dates.some(given.matchesDate)) throw error;
      return undefined;
    }
  };

  it('ticks when the wall clock shows a matching time, even around shifts', () => {
    let compared = 0;
    const property = fc.property(nightly, nights, (given, { timezone, after, end }) => {
      const ticks = parse(given, timezone)?.between(after, end, Number.POSITIVE_INFINITY);
      if (ticks) expect(ticks).toEqual(readClock(given, timezone, after, end));
      compared += ticks?.length ?? 0;
    });
    fc.assert(property, { numRuns: 250 });
    expect(compared).toBeGreaterThan(1000);
  });

  it('ticks on all matching dates of two years, and on no other date', () => {
    const property = fc.property(dated, fc.integer({ min: 0, max: 36_500 }), (given, start) => {
      const after = from + start * dayMs;
      const days = Array.from({ length: 800 }, (_, i) => after + (i + 1) * dayMs);
      const daily = { ...given, expression: given.expression.replace(/^\S+ \S+/, '0 0') };
      const ticks = parse(daily, 'UTC')?.between(after, after + 800 * dayMs, Number.POSITIVE_INFINITY);
      if (ticks) expect(ticks).toEqual(days.filter((day) => given.matchesDate(new Date(day))));
    });
    fc.assert(property, { numRuns: 100 });
  });

  it('has increasing ticks that match its fields, except at shifts, and are equal from all three methods', () => {
    const property = fc.property(
      nightly,
      nights,
      fc.integer({ min: 1, max: 40 }),
      (given, { timezone, after, end }, limit) => {
        const parsed = parse(given, timezone);
        if (!parsed) return;
        const wall = wallClock(timezone);
        const iterated: number[] = [];
        for (let tick = parsed.next(after); tick !== undefined && tick <= end; tick = parsed.next(tick)) {
          expect(tick).toBeGreaterThan(iterated.at(-1) ?? after);
          const isShift = wall(tick) - wall(tick - secondMs) !== secondMs;
          expect(given.matches(wall(tick)) || (isShift && !given.paced)).toBe(true);
          iterated.push(tick);
        }
        expect(parsed.between(after, end, Number.POSITIVE_INFINITY)).toEqual(iterated);
        expect(parsed.between(after, end, limit)).toEqual(iterated.slice(0, limit));
        expect(parsed.latest(after, end, limit)).toEqual(iterated.slice(-limit));
      },
    );
    fc.assert(property, { numRuns: 250 });
  });
});
