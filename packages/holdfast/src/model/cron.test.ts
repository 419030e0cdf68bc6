import { describe, expect, it } from 'vitest';
import { parseCron } from './cron.js';
import { isHoldfastError } from './errors.js';

const at = (text: string) => Date.parse(text);
const texts = (ticks: readonly number[]) => ticks.map((tick) => new Date(tick).toISOString().replace(':00.000Z', 'Z'));

/** The first ticks after an instant, as `2027-03-14T07:00Z`. */
function ticks(expression: string, timezone: string, after: string, count: number): string[] {
  return texts(parseCron(expression, timezone).between(at(after), Number.MAX_SAFE_INTEGER, count));
}

/** Ticks in (after, until]. */
function ticksUntil(expression: string, timezone: string, after: string, until: string): string[] {
  return texts(parseCron(expression, timezone).between(at(after), at(until), 1000));
}

const dates = (expression: string, count: number, after = '2026-12-31T23:59Z') =>
  ticks(expression, 'UTC', after, count).map((tick) => tick.slice(0, 10));

function errorOf(call: () => unknown): { code: string; message: string; details: unknown; cause?: unknown } {
  try {
    call();
  } catch (error) {
    if (isHoldfastError(error)) return error;
    throw error;
  }
  throw new Error('no error was thrown');
}

describe('a cron expression', () => {
  it('has five fields, or six with the second first', () => {
    expect(ticks('30 2 * * *', 'UTC', '2027-01-01T00:00Z', 2)).toEqual(['2027-01-01T02:30Z', '2027-01-02T02:30Z']);
    expect(ticks('15 30 2 * * *', 'UTC', '2027-01-01T00:00Z', 1)).toEqual(['2027-01-01T02:30:15.000Z']);
  });

  it('keeps the given expression and time zone, with UTC as the default zone', () => {
    expect(parseCron(' 0 0 1 Jan  MON ')).toMatchObject({ expression: ' 0 0 1 Jan  MON ', timezone: 'UTC' });
    expect(parseCron('@daily', 'Asia/Kolkata')).toMatchObject({ expression: '@daily', timezone: 'Asia/Kolkata' });
  });

  it('accepts lists, ranges, steps and names in any case', () => {
    expect(ticks('0,5-7,20-40/10 * * * *', 'UTC', '2027-01-01T00:00Z', 7).map((tick) => tick.slice(14, 16))).toEqual([
      '05',
      '06',
      '07',
      '20',
      '30',
      '40',
      '00',
    ]);
    expect(dates('0 0 1 feb,OCT-Dec *', 5)).toEqual([
      '2027-02-01',
      '2027-10-01',
      '2027-11-01',
      '2027-12-01',
      '2028-02-01',
    ]);
    expect(dates('0 0 * * Fri-Sun', 4)).toEqual(['2027-01-01', '2027-01-02', '2027-01-03', '2027-01-08']);
    expect(dates('0 0 * * sun,tue', 3)).toEqual(['2027-01-03', '2027-01-05', '2027-01-10']);
  });

  it('counts Sunday as 0 and as 7', () => {
    expect(dates('0 0 * * 0', 3)).toEqual(['2027-01-03', '2027-01-10', '2027-01-17']);
    expect(dates('0 0 * * 7', 3)).toEqual(dates('0 0 * * 0', 3));
  });

  it.each([
    ['@yearly', '0 0 1 1 *'],
    ['@annually', '0 0 1 1 *'],
    ['@monthly', '0 0 1 * *'],
    ['@weekly', '0 0 * * 0'],
    ['@daily', '0 0 * * *'],
    ['@midnight', '0 0 * * *'],
    [' @Hourly ', '0 * * * *'],
  ])('can be the nickname %s, which means %s', (nickname, meaning) => {
    const after = '2027-01-01T00:00Z';
    expect(ticks(nickname, 'Europe/Berlin', after, 20)).toEqual(ticks(meaning, 'Europe/Berlin', after, 20));
  });

  it('supports the last day, the last working day and the working day nearest to a date', () => {
    expect(dates('0 0 L * *', 3)).toEqual(['2027-01-31', '2027-02-28', '2027-03-31']);
    expect(dates('0 0 15,L * *', 3)).toEqual(['2027-01-15', '2027-01-31', '2027-02-15']);
    expect(dates('0 0 LW * *', 3)).toEqual(['2027-01-29', '2027-02-26', '2027-03-31']);
    expect(dates('0 0 1W * *', 5)).toEqual(['2027-01-01', '2027-02-01', '2027-03-01', '2027-04-01', '2027-05-03']);
    expect(dates('0 0 31W * *', 3)).toEqual(['2027-01-29', '2027-03-31', '2027-05-31']);
  });

  it('supports the n-th and the last occurrence of a weekday in a month', () => {
    expect(dates('0 0 * * FRI#2', 2)).toEqual(['2027-01-08', '2027-02-12']);
    expect(dates('0 0 * * 1#5', 2)).toEqual(['2027-03-29', '2027-05-31']);
    expect(dates('0 0 * * 5L', 2)).toEqual(['2027-01-29', '2027-02-26']);
    expect(dates('0 0 * * friL,7#1', 4)).toEqual(['2027-01-03', '2027-01-29', '2027-02-07', '2027-02-26']);
  });

  it('does not skip the first days of March because of days that February does not have', () => {
    expect(dates('0 0 1,31 * *', 2, '2027-02-02T00:00Z')).toEqual(['2027-03-01', '2027-03-31']);
    expect(dates('0 0 2,31 * *', 2, '2027-02-03T00:00Z')).toEqual(['2027-03-02', '2027-03-31']);
    expect(dates('0 0 */10 * *', 3, '2028-02-12T00:00Z')).toEqual(['2028-02-21', '2028-03-01', '2028-03-11']);
    const hours = ticks('30 6,18 1,30 * *', 'UTC', '2027-02-01T12:00Z', 4);
    expect(hours).toEqual(['2027-02-01T18:30Z', '2027-03-01T06:30Z', '2027-03-01T18:30Z', '2027-03-30T06:30Z']);
  });

  it('finds dates that are decades apart', () => {
    expect(dates('0 0 * 2 1#5', 3)).toEqual(['2044-02-29', '2072-02-29', '2112-02-29']);
    expect(dates('0 0 29 2 *', 2, '2096-03-01T00:00Z')).toEqual(['2104-02-29', '2108-02-29']);
  });

  it('ends with the year 2999', () => {
    expect(parseCron('0 0 1 1 *').next(at('2999-06-01T00:00Z'))).toBeUndefined();
    expect(parseCron('0 * 1 1 *').next(at('2999-06-01T00:00Z'))).toBeUndefined();
    expect(parseCron('0 0 1 1 *').between(at('2997-06-01T00:00Z'), at('3100-01-01T00:00Z'), 9)).toHaveLength(2);
  });
});

describe('day and weekday', () => {
  it('match a date that matches either of them if both are restricted', () => {
    expect(dates('0 0 13 * 5', 5)).toEqual(['2027-01-01', '2027-01-08', '2027-01-13', '2027-01-15', '2027-01-22']);
    expect(dates('0 0 L * 1#1', 3)).toEqual(['2027-01-04', '2027-01-31', '2027-02-01']);
  });

  it('match the dates of the other field if one of them is a wildcard', () => {
    expect(dates('0 0 * * 5', 2)).toEqual(['2027-01-01', '2027-01-08']);
    expect(dates('0 0 13 * *', 2)).toEqual(['2027-01-13', '2027-02-13']);
    expect(dates('0 0 ? * 5', 2)).toEqual(dates('0 0 * * 5', 2));
    expect(dates('0 0 13 * ?', 2)).toEqual(dates('0 0 13 * *', 2));
  });

  it('must both match if one of them is a step from a wildcard, as in Vixie cron', () => {
    expect(dates('0 0 */2 * MON', 3)).toEqual(['2027-01-11', '2027-01-25', '2027-02-01']);
    expect(dates('0 0 13 * */2', 3)).toEqual(['2027-02-13', '2027-03-13', '2027-04-13']);
    expect(dates('0 0 1-31/2 * MON', 3)).toEqual(['2027-01-01', '2027-01-03', '2027-01-04']);
  });
});

describe('a fixed time in the gap of spring', () => {
  it.each([
    ['30 2 * * *', 'America/New_York', '2027-03-13T07:30Z', '2027-03-14T07:00Z', '2027-03-15T06:30Z'],
    ['0 2 * * *', 'America/New_York', '2027-03-13T07:00Z', '2027-03-14T07:00Z', '2027-03-15T06:00Z'],
    ['30 2 * * *', 'Europe/Berlin', '2027-03-27T01:30Z', '2027-03-28T01:00Z', '2027-03-29T00:30Z'],
    ['15 2 * * *', 'Australia/Lord_Howe', '2026-10-02T15:45Z', '2026-10-03T15:30Z', '2026-10-04T15:15Z'],
    ['0 0 * * *', 'America/Santiago', '2026-09-05T04:00Z', '2026-09-06T04:00Z', '2026-09-07T03:00Z'],
    ['30 0 * * *', 'Africa/Cairo', '2026-04-22T22:30Z', '2026-04-23T22:00Z', '2026-04-24T21:30Z'],
    ['0 0 * * *', 'Asia/Beirut', '2026-03-27T22:00Z', '2026-03-28T22:00Z', '2026-03-29T21:00Z'],
    ['30 1 * * *', 'Antarctica/Troll', '2027-03-27T01:30Z', '2027-03-28T01:00Z', '2027-03-28T23:30Z'],
    ['0 12 * * *', 'Pacific/Apia', '2011-12-29T22:00Z', '2011-12-30T10:00Z', '2011-12-30T22:00Z'],
  ])('runs at the shift: %s in %s', (expression, timezone, before, shift, after) => {
    expect(ticks(expression, timezone, new Date(at(before) - 1).toISOString(), 3)).toEqual([before, shift, after]);
  });

  it('runs once, even if the gap skips several of its ticks', () => {
    expect(ticks('*/10 2 * * *', 'America/New_York', '2027-03-13T07:40Z', 3)).toEqual([
      '2027-03-13T07:50Z',
      '2027-03-14T07:00Z',
      '2027-03-15T06:00Z',
    ]);
  });

  it('runs once if it also has a tick at the shift', () => {
    expect(ticks('0,30 2-3 * * *', 'America/New_York', '2027-03-14T00:00Z', 3)).toEqual([
      '2027-03-14T07:00Z',
      '2027-03-14T07:30Z',
      '2027-03-15T06:00Z',
    ]);
    expect(ticks('0 0 * * *', 'Pacific/Apia', '2011-12-28T12:00Z', 3)).toEqual([
      '2011-12-29T10:00Z',
      '2011-12-30T10:00Z',
      '2011-12-31T10:00Z',
    ]);
  });

  it('runs at the shift even if its whole date is skipped', () => {
    expect(ticks('0 18 30 12 *', 'Pacific/Apia', '2011-12-01T00:00Z', 2)).toEqual([
      '2011-12-30T10:00Z',
      '2012-12-30T04:00Z',
    ]);
  });
});

describe('a fixed time in the repeated hour of autumn', () => {
  it.each([
    ['30 1 * * *', 'America/New_York', '2026-10-31T05:30Z', '2026-11-01T05:30Z', '2026-11-02T06:30Z'],
    ['45 1 * * *', 'Australia/Lord_Howe', '2026-04-03T14:45Z', '2026-04-04T14:45Z', '2026-04-05T15:15Z'],
    ['30 23 * * *', 'America/Santiago', '2026-04-04T02:30Z', '2026-04-05T02:30Z', '2026-04-06T03:30Z'],
    ['0 0 * * *', 'America/Santiago', '2026-04-04T03:00Z', '2026-04-05T04:00Z', '2026-04-06T04:00Z'],
    ['0 2 * * *', 'America/New_York', '2026-10-31T06:00Z', '2026-11-01T07:00Z', '2026-11-02T07:00Z'],
  ])('runs the first time only: %s in %s', (expression, timezone, before, shiftDay, after) => {
    expect(ticks(expression, timezone, new Date(at(before) - 1).toISOString(), 3)).toEqual([before, shiftDay, after]);
  });

  it('does not run in the second pass, from whichever instant next() starts', () => {
    const cron = parseCron('*/20 1 * * *', 'America/New_York');
    const following = at('2026-11-02T06:00Z');
    expect(ticks('*/20 1 * * *', 'America/New_York', '2026-11-01T04:59Z', 4)).toEqual([
      '2026-11-01T05:00Z',
      '2026-11-01T05:20Z',
      '2026-11-01T05:40Z',
      '2026-11-02T06:00Z',
    ]);
    for (const after of ['05:40', '05:59', '06:00', '06:19', '06:59', '07:00']) {
      expect(cron.next(at(`2026-11-01T${after}Z`)), after).toBe(following);
    }
  });
});

describe('a cron whose hour is a wildcard or a step over the whole day', () => {
  it('keeps its pace through the repeated hour', () => {
    const night = (expression: string) =>
      ticksUntil(expression, 'America/New_York', '2026-11-01T04:30Z', '2026-11-01T08:00Z').map((tick) =>
        tick.slice(11, 16),
      );
    expect(night('*/30 * * * *')).toEqual(['05:00', '05:30', '06:00', '06:30', '07:00', '07:30', '08:00']);
    expect(night('0 * * * *')).toEqual(['05:00', '06:00', '07:00', '08:00']);
    expect(night('0 0-23 * * *')).toEqual(night('0 * * * *'));
    expect(night('0 */1 * * *')).toEqual(night('0 * * * *'));
    expect(night('@hourly')).toEqual(night('0 * * * *'));
  });

  it('keeps its pace through the gap, without a tick for the missing hour', () => {
    const night = (expression: string) =>
      ticksUntil(expression, 'America/New_York', '2027-03-14T05:30Z', '2027-03-14T08:00Z').map((tick) =>
        tick.slice(11, 16),
      );
    expect(night('*/30 * * * *')).toEqual(['06:00', '06:30', '07:00', '07:30', '08:00']);
    expect(night('0 * * * *')).toEqual(['06:00', '07:00', '08:00']);
    expect(night('15 * * * *')).toEqual(['06:15', '07:15']);
    expect(night('0 */2 * * *')).toEqual(['08:00']);
  });

  it('keeps its pace to the second', () => {
    for (const shift of ['2026-11-01T06:00Z', '2027-03-14T07:00Z']) {
      const around = parseCron('*/7 * * * * *', 'America/New_York').between(at(shift) - 60_000, at(shift) + 60_000, 99);
      const paces = around.slice(1).map((tick, i) => (tick - (around[i] ?? 0)) / 1000);
      expect(paces).toEqual([...Array(7).fill(7), 4, ...Array(8).fill(7), 4]);
    }
  });

  it('follows the wall clock through a shift of half an hour', () => {
    expect(ticksUntil('*/15 * * * *', 'Australia/Lord_Howe', '2026-04-04T14:30Z', '2026-04-04T15:30Z')).toEqual([
      '2026-04-04T14:45Z',
      '2026-04-04T15:00Z',
      '2026-04-04T15:15Z',
      '2026-04-04T15:30Z',
    ]);
    expect(ticksUntil('0 * * * *', 'Australia/Lord_Howe', '2026-10-03T14:00Z', '2026-10-03T17:00Z')).toEqual([
      '2026-10-03T14:30Z',
      '2026-10-03T16:00Z',
      '2026-10-03T17:00Z',
    ]);
  });

  it('does not run on a day that was skipped', () => {
    expect(ticksUntil('0 */12 * * *', 'Pacific/Apia', '2011-12-29T10:00Z', '2011-12-31T10:00Z')).toEqual([
      '2011-12-29T22:00Z',
      '2011-12-30T10:00Z',
      '2011-12-30T22:00Z',
      '2011-12-31T10:00Z',
    ]);
  });
});

describe('ticks', () => {
  const cron = parseCron('*/10 * * * * *', 'Europe/Berlin');
  const noon = at('2027-01-01T12:00Z');

  it('are strictly after the given instant, whatever its milliseconds', () => {
    expect(cron.next(noon - 1)).toBe(noon);
    expect(cron.next(noon - 0.5)).toBe(noon);
    expect(cron.next(noon)).toBe(noon + 10_000);
    expect(cron.next(noon + 1)).toBe(noon + 10_000);
    expect(parseCron('0 13 * * *', 'Europe/Berlin').next(noon - 0.5)).toBe(noon);
    expect(parseCron('0 13 * * *', 'Europe/Berlin').next(noon)).toBe(noon + 86_400_000);
  });

  it('of a range exclude its start, include its end, and stop at the limit', () => {
    const ms = (...seconds: number[]) => seconds.map((second) => noon + second * 1000);
    expect(cron.between(noon, noon + 30_000, 10)).toEqual(ms(10, 20, 30));
    expect(cron.between(noon, noon + 30_000, 2)).toEqual(ms(10, 20));
    expect(cron.latest(noon, noon + 30_000, 10)).toEqual(ms(10, 20, 30));
    expect(cron.latest(noon, noon + 30_000, 2)).toEqual(ms(20, 30));
    for (const none of [cron.between, cron.latest].map((method) => method.bind(cron))) {
      expect(none(noon, noon + 30_000, 0)).toEqual([]);
      expect(none(noon, noon + 9999, 5)).toEqual([]);
      expect(none(noon, noon, 5)).toEqual([]);
      expect(none(noon, noon - 60_000, 5)).toEqual([]);
    }
  });

  it('at the end of a long range are found without stepping through the range', () => {
    const from = at('2026-01-01T00:00Z');
    const until = at('2036-01-01T00:00Z');
    const began = performance.now();
    expect(parseCron('* * * * * *', 'America/New_York').latest(from, until, 3)).toEqual([
      until - 2000,
      until - 1000,
      until,
    ]);
    const january = parseCron('* * * * 1 *', 'America/New_York').latest(from, at('2035-12-01T00:00Z'), 100);
    expect([january.length, january.at(-1)]).toEqual([100, at('2035-02-01T04:59:59Z')]);
    expect(texts(parseCron('0 0 29 2 *').latest(from, until, 9))).toEqual(['2028-02-29T00:00Z', '2032-02-29T00:00Z']);
    expect(performance.now() - began).toBeLessThan(2000);
  });
});

describe('an invalid cron expression', () => {
  it.each([
    ['', 'it has no fields'],
    ['* * * *', 'it has 4 fields'],
    ['* * * * * * *', 'it has 7 fields'],
    ['@reboot', 'nicknames are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly; to run something'],
    ['@every 5m', '@hourly; for an interval use a step: "*/5 * * * *" is every five minutes. Give five fields'],
    ['@dayly', 'the known nicknames are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly. Give'],
    ['constructor', 'it has one field'],
    ['2027-01-01T00:00:00', 'it has one field'],
    ['60 * * * *', 'the minute is "60", but must be from 0 to 59'],
    ['61 * * * * *', 'the second is "61", but must be from 0 to 59'],
    ['0 24 * * *', 'the hour is "24", but must be from 0 to 23'],
    ['0 0 0 * *', 'the day is "0", but must be from 1 to 31'],
    ['0 0 32W * *', 'the day is "32w", but must be from 1 to 31'],
    ['0 0 * 1,13 *', 'the month is "1,13", but must be from 1 to 12'],
    ['0 0 * * 8#1', 'the weekday is "8#1", but must be from 0 to 7'],
    ['0 22-2 * * *', 'the hour is "22-2", but a range must go upwards'],
    ['*/0 * * * *', 'the minute is "*/0", but a step must be at least 1'],
    ['*/90 * * * *', 'steps cannot be greater'],
    ['0 0 LW,15 * *', 'nearestWeekdays is not a number'],
  ])('is refused with the reason: %j', (expression, problem) => {
    const error = errorOf(() => parseCron(expression));
    expect(error).toMatchObject({ code: 'INVALID_CRON', details: { expression } });
    expect(error.message).toContain(problem);
  });

  it.each([
    ...['5/15 * * * *', '1*5 * * * *', '-1 * * * *', '1.5 * * * *', '1e1 * * * *', '100 * * * *', '1,,2 * * * *'],
    ...['? * * * *', '* * * * mon\0', '*\n* * * *', 'a * * * *', '0 0 15L * *', '0 0 L-3 * *', '0 0 W * *'],
    ...['0 0 1-5W * *', '0 0 1 janfeb *', '0 0 1 January *', '0 0 1 mon *', '0 0 1 * jan', '0 0 1 * +MON', '0 0 * * L'],
    ...['0 0 * * 5#L', '0 0 * * 5#6', '0 0 * * 1-5L', '0 0 * * 5#1#2', '0 0 1 1 * 2027', '* * * * ٣'],
  ])('is refused even if Croner or another system may accept it: %j', (expression) => {
    expect(errorOf(() => parseCron(expression))).toMatchObject({ code: 'INVALID_CRON' });
  });

  it.each([...['0 0 30 2 *', '0 0 31 4 *', '0 0 31 2,4,6,9,11 *', '0 0 30W 2 *', '0 0 */31 * 1#2', '0 * 30-31 2 *']])(
    'is refused because no date ever matches: %j',
    (expression) => {
      expect(errorOf(() => parseCron(expression)).message).toContain('no date ever matches');
    },
  );

  it.each([[undefined], [null], [5], [{}], [Object.create(null)], [Symbol('x')]])('is refused: a %o', (expression) => {
    expect(errorOf(() => parseCron(expression as string))).toMatchObject({ code: 'INVALID_CRON' });
  });

  it('is refused with a message that shows the expression, the fields and an example', () => {
    expect(errorOf(() => parseCron('0 24 * * *')).message).toBe(
      'The cron expression "0 24 * * *" cannot be used: the hour is "24", but must be from 0 to 23. Give five fields ' +
        '(minute hour day month weekday) or six (second first), such as "30 2 * * MON-FRI" for 02:30 on working days.',
    );
  });
});

describe('a time zone', () => {
  it('is any IANA name, even one that has been replaced', () => {
    for (const timezone of [
      ...Intl.supportedValuesOf('timeZone'),
      'UTC',
      'Asia/Kolkata',
      'US/Pacific',
      'EST5EDT',
      'CET',
    ]) {
      expect(parseCron('0 0 * * *', timezone).next(0), timezone).toBeTypeOf('number');
    }
  });

  it.each([
    ['Europe/Berln', ' Did you mean "Europe/Berlin"?'],
    ['America/New York', ' Did you mean "America/New_York"?'],
    ['new york', ' Did you mean "America/New_York"?'],
    ['Tokyo', ' Did you mean "Asia/Tokyo"?'],
    ['UTCC', ' Did you mean "UTC"?'],
    ...['+02:00', '-0500', 'UTC+2', 'PST', 'BST', 'Z', '', 'Mars/Olympus_Mons'].map((bad) => [bad, '']),
  ])('is refused if IANA does not have it, with the name that was probably meant: %s', (timezone, hint) => {
    const error = errorOf(() => parseCron('0 0 * * *', timezone));
    expect(error).toMatchObject({ code: 'INVALID_TIMEZONE', details: { timezone } });
    expect(error.message).toContain(`${JSON.stringify(timezone)} is not a time zone.${hint} Give an IANA name`);
  });

  it.each([[null], [5], [{}]])('is refused if it is not a string: %o', (timezone) => {
    expect(errorOf(() => parseCron('0 0 * * *', timezone as unknown as string))).toMatchObject({
      code: 'INVALID_TIMEZONE',
    });
  });
});
