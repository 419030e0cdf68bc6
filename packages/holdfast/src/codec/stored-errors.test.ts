import { describe, expect, it } from 'vitest';
import { FatalError, HoldfastError } from '../model/errors.js';
import { createCodecs, type Encoded, registerClass, type StoredErrorOptions } from './codecs.js';

const secret = 's3cr3t';

/** Returns an error with the properties that HTTP clients attach. */
function httpError(): Error {
  const headers = { Authorization: `Bearer ${secret}`, accept: 'json' };
  const response = {
    status: 401,
    headers: { 'set-cookie': [`sid=${secret}`] },
    data: { reason: 'expired', token: secret },
  };
  return Object.assign(new Error('Request failed with status code 401'), {
    code: 'ERR_BAD_REQUEST',
    status: 401,
    config: { url: 'https://api.example', headers, transform() {} },
    response,
  });
}

function stored(thrown: unknown, errors?: StoredErrorOptions, format: 'native' | 'portable' = 'native') {
  return createCodecs({ errors })[format].encodeError(thrown) as Encoded;
}

describe('a stored error', () => {
  it('has no nested objects by default, but lists their names', () => {
    const { text, value } = stored(httpError());
    expect(text).not.toContain(secret);
    expect(value).toMatchObject({
      message: 'Request failed with status code 401',
      code: 'ERR_BAD_REQUEST',
      status: 401,
    });
    expect(value).not.toHaveProperty('config');
    expect(value).toMatchObject({ holdfast_omitted: ['config', 'response'] });
  });

  it('has every plain property', () => {
    const plain = { a: 'x', b: 1, c: true, d: null, e: 5n, f: new Date(0), g: [1, 'x'], h: undefined };
    expect(stored(Object.assign(new Error('x'), plain)).value).toStrictEqual(Object.assign(new Error('x'), plain));
  });

  it('has the nested objects, or the parts of them, that `keep` lists, with masked secrets', () => {
    const whole = stored(httpError(), { keep: ['response'] });
    const data = { reason: 'expired', token: '***' };
    expect(whole.value).toMatchObject({ response: { status: 401, headers: { 'set-cookie': '***' }, data } });
    expect(whole.value).toMatchObject({ holdfast_omitted: ['config'] });
    const part = stored(httpError(), { keep: ['response.data', 'response.status', 'response.absent.x'] }).value;
    expect((part as Record<string, unknown>).response).toStrictEqual({ data, status: 401 });
    const all = stored(httpError(), { keep: 'all' });
    expect(all.value).toMatchObject({ config: { headers: { Authorization: '***', accept: 'json' } } });
    for (const { text } of [whole, all]) expect(text).not.toContain(secret);
  });

  it('has the properties that its registered class lists in `keep`', () => {
    class Declined extends Error {
      readonly issues = [{ path: 'card' }];
      readonly request = { url: 'x' };
    }
    registerClass(Declined, { keep: ['issues'] });
    const { value } = stored(new Declined('no'));
    expect(value).toBeInstanceOf(Declined);
    expect(value).toMatchObject({ issues: [{ path: 'card' }], holdfast_omitted: ['request'] });
    expect(stored(new Declined('no'), { keep: ['request'] }).value).toMatchObject({
      request: { url: 'x' },
      issues: [{}],
    });
    const notAnError = () => registerClass(class Plain {}, { keep: 'all' });
    expect(notAnError).toThrow(/leave out "keep"/);
    expect(() => registerClass(Declined, { keep: 'most' as never })).toThrow(
      /"keep" must be "all", or a list of names/,
    );
  });

  it('has no well-known secret at any place', () => {
    class Session {
      readonly password = secret;
      readonly user = 'ada';
    }
    registerClass(Session);
    const error = Object.assign(new Error(`https://user:${secret}@host`, { cause: { token: secret, status: 5 } }), {
      api_key: secret,
      list: ['Authorization', `x${secret}`, 'Host', 'h', `Bearer ${secret}`],
      map: new Map<string, unknown>([['cookie', secret]]),
      pairs: [{ name: 'X-Api-Key', value: secret }],
      session: new Session(),
      inner: Object.assign(new Error(`password=${secret}`), { secret }),
    });
    const collected = new AggregateError([error], `Bearer ${secret}`, { cause: new Error(`token=${secret}`) });
    for (const thrown of [error, collected, { error, password: secret }, [error], `Basic ${btoa(`a:${secret}`)}`]) {
      for (const format of ['native', 'portable'] as const) {
        const { text, value } = stored(thrown, { keep: 'all' }, format);
        expect(text).not.toContain(secret);
        expect(text).not.toContain(btoa(secret).slice(0, 5));
        expect(value).toBeDefined();
      }
    }
    const { value } = stored(error, { keep: 'all' });
    expect(value).toMatchObject({ session: { password: '***', user: 'ada' }, cause: { status: 5 } });
    expect((value as { session: unknown }).session).toBeInstanceOf(Session);
    expect((value as { inner: unknown }).inner).toBeInstanceOf(Error);
  });

  it('has no nested objects inside a list, a set, a map or a code', () => {
    const nested = { config: { headers: { 'x-session': secret } }, status: 401 };
    const map = new Map<unknown, unknown>([
      ['status', 401],
      ['config', nested],
      ['token', secret],
      [nested, 1],
    ]);
    const lists = [[nested], new Set([nested]), map, [[nested], 'text', new Error('inner')]];
    const errors = lists.flatMap((value) => [value, new Error('x', { cause: value }), { value }]);
    errors.push(Object.assign(new Error('x'), { code: nested }), Object.assign(new Error('x'), { errors: lists }));
    for (const thrown of errors) expect(stored(thrown).text).not.toContain(secret);
    expect(stored(lists[3]).value).toMatchObject([[{ status: 401 }], 'text', { message: 'inner' }]);
    expect(stored(map).value).toEqual(
      new Map<unknown, unknown>([
        ['status', 401],
        ['token', '***'],
      ]),
    );
    expect(stored(lists[1], { keep: 'all' }).value).toEqual(new Set([nested]));
  });

  it('follows the same rules inside a value, such as a result of Promise.allSettled', () => {
    const { native } = createCodecs();
    const text = native.encode([{ status: 'rejected', reason: httpError() }], 'x') as string;
    expect(text).not.toContain(secret);
    expect(native.decode(text)).toMatchObject([{ reason: { status: 401, holdfast_omitted: ['config', 'response'] } }]);
  });

  it('stays the same when it is stored again', () => {
    const first = stored(httpError(), { keep: ['response'] }).value;
    expect(stored(first, { keep: ['response'] }).value).toStrictEqual(first);
    expect(stored(first).value).toMatchObject({ holdfast_omitted: ['config', 'response'] });
  });

  it('has all details of a HoldfastError, and all data of a portable error', () => {
    const error = new HoldfastError('INVALID_INPUT', 'no', { details: { issues: ['a', 'b'] } });
    expect(stored(error).value).toStrictEqual(error);
    expect(stored(new FatalError('no', { details: { a: { b: 1, password: 'x' } } })).value).toMatchObject({
      details: { a: { b: 1, password: '***' } },
    });
    expect(stored(Object.assign(new Error('x'), { data: { a: { b: 1 } } }), {}, 'portable').value).toMatchObject({
      data: { a: { b: 1 } },
    });
  });

  it('is finite even if the error contains itself or is very deep', () => {
    const loop = Object.assign(new Error('loop'), { self: {} as unknown });
    loop.self = { loop, map: new Map([['loop', loop]]) };
    loop.cause = loop;
    expect(stored(loop, { keep: 'all' }).value).toMatchObject({ message: 'loop', cause: '[Circular]' });
    let chain = new Error('root');
    for (let i = 0; i < 20_000; i++) chain = new Error(`${i}`, { cause: chain });
    expect(stored(chain).value).toMatchObject({ message: '19999', cause: { message: '19998' } });
    let deep: unknown = 1;
    for (let i = 0; i < 20_000; i++) deep = { deep };
    expect(stored(Object.assign(new Error('x'), { deep }), { keep: 'all' }).value).toMatchObject({ message: 'x' });
  });
});

describe('the function `redact`', () => {
  it('is called for each error of a chain', () => {
    const redact: StoredErrorOptions['redact'] = (error, use) => ({
      ...error,
      message: `${use}: ${error.message.replaceAll('Ada', '(name)')}`,
      stack: '',
    });
    const thrown = new AggregateError([new Error('Ada 1'), 'Ada 2'], 'Ada', { cause: new Error('Ada 3') });
    const { text, value } = stored(thrown, { redact });
    expect(text).not.toContain('Ada');
    expect(value).toMatchObject({
      message: 'record: (name)',
      cause: { message: 'record: (name) 3' },
      errors: [{ message: 'record: (name) 1' }, 'record: (name) 2'],
    });
    expect(stored('Ada', { redact }).value).toBe('record: (name)');
    expect(createCodecs({ errors: { redact } }).errors.describe(new TypeError('Ada'))).toBe('TypeError: log: (name)');
  });

  it('may return an error that contains itself, of which all storable parts are stored', async () => {
    const redact: StoredErrorOptions['redact'] = (error) => Object.assign(error, { cause: error, message: 'shown' });
    const serializer = { name: 'json', stringify: JSON.stringify, parse: JSON.parse };
    const { native, portable } = createCodecs({ errors: { redact } });
    for (const codec of [native, portable, createCodecs({ errors: { redact }, serializer }).native]) {
      expect((await codec.encodeError(new Error(secret))).value).toMatchObject({ message: 'shown' });
    }
  });

  it('gets the kept properties, and may omit or replace a value', () => {
    const redact: StoredErrorOptions['redact'] = ({ response, ...error }) => ({ ...error, seen: typeof response });
    expect(stored(httpError(), { keep: ['response'], redact }).value).toMatchObject({ seen: 'object', status: 401 });
    const hide: StoredErrorOptions['redact'] = (error) => ('value' in error ? { ...error, value: 'hidden' } : error);
    expect(stored({ code: 7 }, { redact: hide }).value).toBe('hidden');
  });

  it.each([
    [
      'throws',
      () => {
        throw new RangeError(secret);
      },
    ],
    ['does not return a record', () => undefined],
    ['returns a record that only inherits its texts', (error: object) => Object.create(error)],
    ['returns a promise', () => Promise.reject(new Error(secret))],
  ])('that %s leads to ERROR_WITHHELD instead of the error, in every format', async (_, redact) => {
    const errors = { redact: redact as never };
    const serializer = { name: 'json', stringify: JSON.stringify, parse: JSON.parse };
    const { native, portable } = createCodecs({ errors });
    for (const codec of [native, portable, createCodecs({ errors, serializer }).native]) {
      for (const thrown of [new Error(secret), secret, { secret }]) {
        const { text, value } = await codec.encodeError(thrown);
        expect(text).not.toContain(secret);
        expect(value).toBeInstanceOf(HoldfastError);
        expect(value).toMatchObject({
          code: 'ERROR_WITHHELD',
          message: expect.stringContaining('Correct the function'),
        });
      }
    }
    expect(createCodecs({ errors }).errors.describe(new Error(secret))).toMatch(
      /^HoldfastError: It failed, and its error/,
    );
  });
});
