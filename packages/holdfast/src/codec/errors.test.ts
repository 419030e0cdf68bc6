import { describe, expect, it } from 'vitest';
import { FatalError, HoldfastError } from '../model/errors.js';
import { createCodecs, type Encoded, registerClass } from './codecs.js';

const { native, portable } = createCodecs();
const roundTrip = (value: unknown): unknown => native.decode(native.encode(value, 'The value') as string);
const thrown = (value: unknown): unknown => native.decodeError((native.encodeError(value) as Encoded).text);
const portably = (value: unknown): unknown => portable.decodeError((portable.encodeError(value) as Encoded).text);

class Declined extends Error {
  constructor(
    readonly amount: number,
    options?: ErrorOptions,
  ) {
    super(`Declined ${amount}`, options);
    this.name = 'Declined';
  }
}

class Registered extends Error {
  readonly limit = new Map([['eur', 5n]]);
  describe(): string {
    return `${this.message}!`;
  }
}
registerClass(Registered, { keep: ['limit'] });

describe.each([
  ['as a value', roundTrip],
  ['that was thrown', thrown],
])('an Error %s', (_, trip) => {
  it.each([Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError])(
    'is read as an instance of its built-in class',
    (Class) => {
      const error = new Class('boom', { cause: 'why' });
      const copy = trip(error) as Error;
      expect(Object.getPrototypeOf(copy)).toBe(Class.prototype);
      expect(copy).toStrictEqual(error);
      expect(copy.stack).toBe(error.stack);
      expect(Object.keys(copy)).toStrictEqual([]);
    },
  );

  it('keeps name, message, stack, code, cause and its own properties', () => {
    const error = Object.assign(new Declined(5, { cause: new TypeError('inner', { cause: { deep: true } }) }), {
      code: 'E_CARD',
      at: new Date(7),
    });
    const copy = trip(error) as typeof error;
    expect(copy).toBeInstanceOf(Error);
    expect(copy).toMatchObject({ name: 'Declined', message: 'Declined 5', stack: error.stack, code: 'E_CARD' });
    expect(copy).toMatchObject({ amount: 5, at: new Date(7) });
    expect(copy.cause).toBeInstanceOf(TypeError);
    expect(copy.cause).toMatchObject({ message: 'inner', cause: { deep: true } });
    expect(Object.prototype.toString.call(copy)).toBe('[object Error]');
  });

  it('has the name of its class if the class sets no name', () => {
    class CardDeclined extends RangeError {}
    class CardExpired extends CardDeclined {}
    for (const Class of [CardDeclined, CardExpired]) {
      const copy = trip(new Class('no')) as Error;
      expect(copy).toMatchObject({ name: Class.name, message: 'no' });
      expect(String(copy)).toBe(`${Class.name}: no`);
    }
    expect(trip(new (class extends TypeError {})('no'))).toMatchObject({ name: 'TypeError' });
    expect(trip(Object.assign(new CardDeclined('no'), { name: 'Mine' }))).toMatchObject({ name: 'Mine' });
    expect(trip(new Registered('no'))).toMatchObject({ name: 'Registered' });
    const named = class extends Error {};
    Object.defineProperty(named.prototype, 'name', { value: 'Named' });
    expect(trip(new (class Below extends named {})('no'))).toMatchObject({ name: 'Named' });
    const unstorable = class extends Error {};
    Object.defineProperty(unstorable, 'name', { value: 'a\0' });
    expect(trip(new unstorable('no'))).toMatchObject({ name: 'Error' });
  });

  it('keeps the errors of an AggregateError', () => {
    const copy = trip(new AggregateError([new RangeError('a'), 'b'], 'all failed')) as AggregateError;
    expect(copy).toBeInstanceOf(AggregateError);
    expect(copy.message).toBe('all failed');
    expect(copy.errors).toStrictEqual([new RangeError('a'), 'b']);
    expect(copy.errors[0]).toBeInstanceOf(RangeError);
  });

  it('is read as a HoldfastError or FatalError with code and details', () => {
    const error = new HoldfastError('WORKFLOW_NOT_FOUND', 'gone', { details: { workflowId: 'w1' }, cause: 5 });
    const copy = trip(error) as HoldfastError;
    expect(copy).toBeInstanceOf(HoldfastError);
    expect(copy).toStrictEqual(error);
    expect(Object.keys(copy).sort()).toStrictEqual(Object.keys(error).sort());
    const fatal = trip(new FatalError('stop', { details: { a: 1 } }));
    expect(fatal).toBeInstanceOf(FatalError);
    expect(fatal).toMatchObject({ code: 'FATAL', message: 'stop', details: { a: 1 } });
  });

  it('is read as an instance of its registered class', () => {
    const error = new Registered('too much');
    const copy = trip(error) as Registered;
    expect(copy).toBeInstanceOf(Registered);
    expect(copy.describe()).toBe('too much!');
    expect(copy.limit).toStrictEqual(error.limit);
    expect(Object.keys(copy)).toStrictEqual(['limit']);
  });

  it('keeps the name and code of a DOMException', () => {
    expect(trip(new DOMException('late', 'TimeoutError'))).toMatchObject({
      name: 'TimeoutError',
      message: 'late',
      code: 23,
    });
  });
});

describe('the error column', () => {
  it('contains a plain record that DBOS SDKs can read', () => {
    const error = Object.assign(new Error('boom', { cause: new TypeError('inner') }), { dbosErrorCode: 3 });
    error.stack = 'S';
    (error.cause as Error).stack = 'T';
    expect((native.encodeError(error) as Encoded).text).toBe(
      '{"json":{"name":"Error","message":"boom","stack":"S","cause":{"name":"TypeError","message":"inner","stack":"T"},' +
        '"dbosErrorCode":3},"__dbos_serializer":"superjson"}',
    );
  });

  it('is read as the original error if a DBOS SDK wrote it', () => {
    const text =
      '{"json":{"dbosErrorCode":22,"name":"DBOSMaxStepRetriesError","message":"m","stack":"S",' +
      '"errors":[{"name":"Error","message":"e","stack":"T"}],"cause":{"name":"RangeError","message":"c","stack":"U"}},' +
      '"__dbos_serializer":"superjson"}';
    const error = native.decodeError(text) as Error;
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: 'DBOSMaxStepRetriesError', message: 'm', stack: 'S', dbosErrorCode: 22 });
    expect(error.cause).toBeInstanceOf(RangeError);
  });

  it.each([
    ['a text', 'plain text'],
    ['undefined', undefined],
    ['null', null],
    ['a number', NaN],
    ['an object', { code: 7, at: new Date(0) }],
    ['an object with a name and a message', { name: 'x', message: 'y' }],
    ['an array', [1, new Map()]],
  ])('is read as the thrown value if that was %s', (_, value) => {
    expect(thrown(value)).toStrictEqual(value);
  });
});

describe('an error that cannot be stored whole', () => {
  class Socket {}
  function awkward(): Error {
    const error = new TypeError('bad \0 text \ud800', { cause: new Error('inner\0') });
    const response = { status: 404, socket: new Socket(), data: { errors: ['x'], parse() {} }, at: new Date(0) };
    Object.assign(error, { code: 'E_HTTP', retry: () => 1, response });
    Object.defineProperty(error, 'secret', { enumerable: true, get: () => JSON.parse('no') });
    return error;
  }

  it('keeps all parts that can be stored', () => {
    const { native: keeping } = createCodecs({ errors: { keep: ['response'] } });
    const copy = (keeping.encodeError(awkward()) as Encoded).value as Error;
    expect(copy).toBeInstanceOf(TypeError);
    expect(copy).toMatchObject({
      message: 'bad \\u0000 text \\ud800',
      code: 'E_HTTP',
      response: { status: 404, socket: '[Socket]', data: { errors: ['x'] }, at: new Date(0) },
      cause: { message: 'inner\\u0000' },
    });
    expect(copy.cause).toBeInstanceOf(Error);
    expect(copy).not.toHaveProperty('retry');
    expect(copy).not.toHaveProperty('secret');
  });

  it('is stored even if it is its own cause', () => {
    const error = new Error('loop');
    error.cause = error;
    expect(thrown(error)).toMatchObject({ message: 'loop', cause: '[Circular]' });
  });

  it('is stored even if a getter throws', () => {
    const error = new Error('x');
    Object.defineProperty(error, 'name', {
      get() {
        throw new Error('no name');
      },
    });
    expect(thrown(error)).toMatchObject({ name: 'Error', message: 'x' });
    expect(portably(error)).toMatchObject({ name: 'Error', message: 'x' });
  });

  it.each([
    ['a function', function work() {}, /a function work/],
    ['a symbol', Symbol('s'), /Symbol\(s\)/],
    ['an instance', new Socket(), /\[Socket\]/],
    ['a revoked proxy', revoked(), /cannot be stored/],
  ])('is replaced by an error that describes it: %s', (_, value, message) => {
    for (const copy of [thrown(value), portably(value)]) {
      expect(copy).toBeInstanceOf(Error);
      expect(copy).toMatchObject({ name: 'NonError', message: expect.stringMatching(message) });
    }
  });

  it('has JavaScript escapes instead of characters that a database cannot store', () => {
    for (const trip of [thrown, portably]) {
      expect(trip('a\0b')).toBe('a\\u0000b');
      expect(trip('\ude00 \ud83d\ude00 \ud83d')).toBe('\\ude00 \ud83d\ude00 \\ud83d');
    }
  });

  it('is stored in the portable format without the parts that the format cannot store', () => {
    const error = Object.assign(new Error('x\0'), {
      code: 5,
      data: { file: Buffer.from('a'), ok: true, at: new Date(0) },
    });
    expect(portably(error)).toMatchObject({ message: 'x\\u0000', code: 5, data: { file: '[Buffer]', ok: true } });
  });
});

describe('the portable error record', () => {
  it('has name, message, code and data', () => {
    const error = Object.assign(new Declined(5), { code: 402, data: { card: 'x' } });
    const { text } = portable.encodeError(error) as Encoded;
    expect(text).toBe('{"name":"Declined","message":"Declined 5","code":402,"data":{"card":"x"}}');
    const copy = portably(error);
    expect(copy).toBeInstanceOf(Error);
    expect(copy).toMatchObject({ name: 'Declined', message: 'Declined 5', code: 402, data: { card: 'x' } });
    expect((portable.encodeError(new TypeError('no')) as Encoded).text).toBe('{"name":"TypeError","message":"no"}');
    expect(portably(new TypeError('no'))).toBeInstanceOf(TypeError);
  });

  it('keeps the details of a HoldfastError as data', () => {
    const error = new HoldfastError('WORKFLOW_NOT_FOUND', 'gone', { details: { workflowId: 'w1' } });
    expect((portable.encodeError(error) as Encoded).text).toContain('"data":{"workflowId":"w1"}');
    expect(portably(error)).toBeInstanceOf(HoldfastError);
    expect(portably(error)).toMatchObject({ code: 'WORKFLOW_NOT_FOUND', details: { workflowId: 'w1' } });
  });

  it.each(['text', 5, null, { code: 7 }, [1]])('is read as %j if that was thrown', (value) => {
    expect(portably(value)).toStrictEqual(value);
  });
});

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}
