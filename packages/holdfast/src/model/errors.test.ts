import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { StoredErrors } from '../codec/stored-errors.js';
import { classifyPostgres, wrappedSqlState } from '../storage/postgres/failures.js';
import { describeError, isError, isErrorNamed, isFatal, isHoldfastError } from './errors.js';

/** jest runs code in its own realm, where errors from Node's modules are not instances of Error. */
const inOtherRealm = (code: string): Error => runInNewContext(code);

describe('an error from another realm', () => {
  it('is recognized as an error', () => {
    const error = inOtherRealm("Object.assign(new TypeError('x'), { code: 'FATAL', details: {} })");
    expect(error).not.toBeInstanceOf(Error);
    expect(isError(error)).toBe(true);
    expect(isErrorNamed(error, 'RangeError', 'TypeError')).toBe(true);
    expect(isHoldfastError(error, 'FATAL')).toBe(true);
    expect(describeError(error)).toBe('TypeError: x');
    expect(isError(new DOMException('x', 'AbortError'))).toBe(true);
  });

  it('is fatal by its code, even if a stored record has lost the details', () => {
    expect(isFatal(inOtherRealm("Object.assign(new Error('x'), { name: 'CardExpired', code: 'FATAL' })"))).toBe(true);
    expect(isFatal({ code: 'FATAL' })).toBe(false);
  });

  it('is classified by the storage like any other error', () => {
    expect(classifyPostgres(inOtherRealm("new RangeError('Invalid string length')"))).toBe('refused');
    expect(classifyPostgres(inOtherRealm("Object.assign(new Error('x'), { code: '23505' })"))).toBe('refused');
    expect(
      wrappedSqlState(inOtherRealm("new Error('x', { cause: Object.assign(new Error('y'), { code: '40001' }) })")),
    ).toBe('40001');
  });

  it('is recorded with its cause and its aggregated errors', () => {
    const thrown = inOtherRealm("new AggregateError([new Error('a')], 'all', { cause: new Error('why') })");
    const record = new StoredErrors().record(thrown);
    expect(record).toMatchObject({ name: 'AggregateError', cause: { message: 'why' }, errors: [{ message: 'a' }] });
  });

  it('is not confused with values that only look like an error', () => {
    for (const value of [{ name: 'Error', message: 'x', stack: '' }, 'Error', null, undefined]) {
      expect(isError(value)).toBe(false);
      expect(isErrorNamed(value, 'Error')).toBe(false);
    }
  });
});
