import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { StoredErrors } from '../codec/stored-errors.js';
import { classifyPostgres, stateOf } from '../storage/postgres/failures.js';
import { describeError, isError, isErrorNamed, isFatal, isHoldfastError } from './errors.js';

/** jest runs code in a realm of its own, in which errors of Node's modules are no instances of Error. */
const foreign = (code: string): Error => runInNewContext(code);

describe('an error of another realm', () => {
  it('is an error', () => {
    const error = foreign("Object.assign(new TypeError('x'), { code: 'FATAL', details: {} })");
    expect(error).not.toBeInstanceOf(Error);
    expect(isError(error)).toBe(true);
    expect(isErrorNamed(error, 'RangeError', 'TypeError')).toBe(true);
    expect(isHoldfastError(error, 'FATAL')).toBe(true);
    expect(describeError(error)).toBe('TypeError: x');
    expect(isError(new DOMException('x', 'AbortError'))).toBe(true);
  });

  it('is fatal by its code, also where a stored record has lost the details', () => {
    expect(isFatal(foreign("Object.assign(new Error('x'), { name: 'CardExpired', code: 'FATAL' })"))).toBe(true);
    expect(isFatal({ code: 'FATAL' })).toBe(false);
  });

  it('means the same to the storage', () => {
    expect(classifyPostgres(foreign("new RangeError('Invalid string length')"))).toBe('refused');
    expect(classifyPostgres(foreign("Object.assign(new Error('x'), { code: '23505' })"))).toBe('refused');
    expect(stateOf(foreign("new Error('x', { cause: Object.assign(new Error('y'), { code: '40001' }) })"))).toBe(
      '40001',
    );
  });

  it('is recorded with its cause, and what it collected', () => {
    const thrown = foreign("new AggregateError([new Error('a')], 'all', { cause: new Error('why') })");
    const record = new StoredErrors().record(thrown);
    expect(record).toMatchObject({ name: 'AggregateError', cause: { message: 'why' }, errors: [{ message: 'a' }] });
  });

  it('is nothing that only looks like one', () => {
    for (const value of [{ name: 'Error', message: 'x', stack: '' }, 'Error', null, undefined]) {
      expect(isError(value)).toBe(false);
      expect(isErrorNamed(value, 'Error')).toBe(false);
    }
  });
});
